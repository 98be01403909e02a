// Package envoyrls implements Envoy's rate limit protocol, envoy.service.ratelimit.v3. It decodes a
// RateLimitRequest to checks, one for each descriptor, and encodes the decisions about them as a
// RateLimitResponse. It converts by hand between bytes and the structs of this package, so that a
// call that is answered from memory allocates nothing here. It accepts exactly what the generated
// code accepts, which a fuzzer compares. Only texts that are not UTF-8 are repaired instead of
// refused.
//
// The package decides nothing and does not depend on a daemon.
package envoyrls
