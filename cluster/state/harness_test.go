package state

import "aliquot/budget"

const testRules = `rules:
  - id: r1
    match: {api_key_pattern: "*"}
    params: {capacity: 100, refill_rate: 10}
`

const twoRules = testRules + `  - id: r2
    match: {api_key_pattern: "*"}
    params: {capacity: 50, refill_rate: 5}
`

// key is a hot key of rule r1.
func key(i int) budget.KeyID {
	return budget.KeyID{Rule: firstRuleNumber, Hash: [16]byte{byte(i >> 8), byte(i)}}
}

// third is an even plan for one key over three regions.
func third(i int) budget.Entry {
	s := budget.Share{Rate: budget.Unit / 4, Burst: budget.Unit / 4}
	return budget.Entry{Key: key(i), Shares: []budget.Share{s, s, s}}
}
