// Package rls speaks Envoy's rate limit protocol, envoy.service.ratelimit.v3: it reads a
// RateLimitRequest into checks, one for each descriptor, and writes what was decided of
// them as a RateLimitResponse. Reading and writing go by hand between bytes and the
// structs of this package, so that a call that is answered from memory costs no
// allocation here. What is accepted is exactly what the generated code accepts, which a
// fuzzer compares, but for texts that are not UTF-8: these are mended, not refused.
//
// It decides nothing, and knows nothing of a daemon.
package rls
