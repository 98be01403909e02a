// Package regional is the regional daemon: it answers checks within its own region, enforces the
// region's shares in the region's store, reports the usage to the coordinators and applies the
// shares that they move. Without coordinators it goes on answering, and without its store it
// decides by each rule's on_redis_failure.
//
// Daemon wires the packages under regional/internal, opens the listeners and serves. It keeps the
// state file, probes the store and says whether the daemon is ready. The packages do the rest. A
// check goes from api through engine, charge and storeguard to the store, and back as an answer of
// explain. A share comes with session, which tells authority and applies it through storeguard.
// docs/explanation/architecture.md follows both, file by file.
package regional
