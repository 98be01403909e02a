package main

// The limits: so high that nearly every check is allowed, as in production, and of the
// same kind for the peer, which has only fixed windows.
const (
	ourRules = `rules:
  - {id: tenants, match: {attributes: {domain: bench}}, key: [tenant], params: {capacity: 1000000, refill_rate: 16667}}
  - {id: keys, match: {api_key_pattern: "k*"}, params: {capacity: 1000000, refill_rate: 16667}}
  - {id: plan, match: {attributes: {plan: two}}, params: {capacity: 1000000, refill_rate: 16667}}
  - {id: cold, match: {api_key_pattern: "cold*"}, params: {capacity: 1000, refill_rate: 1}, local_cache: false}
`
	peerRules = `domain: bench
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1000000}
`
)
