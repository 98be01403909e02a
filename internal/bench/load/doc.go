// Package load puts as much load on a regional daemon, or on another server of the same
// protocols, as one machine can, and measures what comes back: checks a second,
// latencies, the processor time of server and Redis. Requests are encoded once and
// answers are only scanned, so that little of the machine goes to the generator.
package load
