// Package coordinator is the global daemon. Run opens the ports, starts the node of the replicated
// state (package cluster), the leader's side of the budget protocol (internal/leader) and the services
// (internal/service). The decisions are in package budget; the comparison of use and promise is in
// internal/audit.
package coordinator
