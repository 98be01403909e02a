// Package replay tells what other rules would have made of requests that were decided
// lately: both versions of the rules decide the same requests from the same start, by
// the algorithms of package limit, and what differs is counted.
//
// It is pure: the time is in the requests, and what a region may spend is asked of the
// caller. Nothing in a result names a client but the keyed hash of its key.
//
// What a replay is not: the buckets of both versions start full, and a region's rights
// stay as they are at present, while the real ones would follow the demand. A slot
// (concurrency) is in use for its whole window, since nothing tells its release.
package replay
