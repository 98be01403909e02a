package engine

import (
	"fmt"

	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// secret is the one that hashes the keys of tests.
const secret = "0123456789abcdef0123456789abcdef"

// asked is one check of a client.
func asked(apiKey string) []charge.Request {
	return []charge.Request{{Attributes: rules.Attributes{{Name: "api_key", Value: apiKey}}, Cost: limit.Token}}
}

// strictRule is a strict rule r0 of a capacity, which refills at a rate.
func strictRule(capacity int, rate float64, more string) string {
	return fmt.Sprintf("defaults: {enforcement: strict%s}\nrules:\n  - id: r0\n    params: {capacity: %d, refill_rate: %f}\n", more, capacity, rate)
}
