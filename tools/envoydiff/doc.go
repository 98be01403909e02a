// Package envoydiff compares what `aliquot import envoy-ratelimit` makes of
// configurations with what envoyproxy/ratelimit itself makes of them.
package envoydiff
