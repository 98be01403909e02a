package promise

import "aliquot/budget"

// Outdated is a region that may still enforce an older limit than the one in force.
type Outdated struct {
	// Share bounds what the region could be enforcing of the older limit.
	Share budget.Share
	// Limit is the largest limit that the region may know; zero if it knows the one in force.
	Limit budget.KeyLimit
}

// ResidualExcess bounds what regions that have not acknowledged the latest rules can admit above
// the limit in force. It is the sum over them of share x (old limit - limit): of the burst in
// micro-tokens, of the rate in micro-tokens a second, rounded up. A raised limit adds nothing.
//
// Worked number: 1,000 tokens at 100 a second were lowered to 200 at 20, and one of three regions
// is cut off at its floor. It can admit (1000-200)/3 = 266.7 tokens at once and 26.7 a second too
// many, until it has heard of the new limit.
func ResidualExcess(now budget.KeyLimit, regions []Outdated) (burst, rate int64) {
	for _, r := range regions {
		if over := r.Limit.Capacity - now.Capacity; over > 0 && r.Share.Burst > 0 {
			burst += budget.Scale(over, r.Share.Burst) + 1
		}
		if over := r.Limit.Rate - now.Rate; over > 0 && r.Share.Rate > 0 {
			rate += budget.Scale(over, r.Share.Rate) + 1
		}
	}
	return burst, rate
}
