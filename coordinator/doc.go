// Package coordinator is the global daemon: it serves the Connect services, and
// while its node leads the cluster it runs the leader's side of the budget
// protocol. Everything it must remember is in package cluster, everything it
// decides in package budget; here is the wiring between them and the network.
package coordinator
