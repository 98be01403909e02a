// Package replay shows what other rules would have done with recent requests. Two versions of the
// rules decide the same requests from the same start, by the algorithms of package limit, and the
// differences are counted.
//
// The package is pure. Each request has its own time, and the caller says what the region may
// spend. A result names a client only by the keyed hash of its key.
//
// A replay differs from reality in three ways. The buckets of both versions start full. The
// region's rights stay as they are now, while real ones follow the demand. A slot of a concurrency
// limit is in use for its whole window, because the sample has no releases.
package replay
