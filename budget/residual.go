package budget

// Outdated is a region that may still enforce an older limit than the one in force.
type Outdated struct {
	// Share bounds what it could be enforcing of it.
	Share Share
	// Limit is the largest that it may know; zero if it knows the one in force.
	Limit KeyLimit
}

// ResidualExcess bounds what regions that have not acknowledged the latest rules can
// admit above the limit in force: the sum over them of share x (old limit - limit), of
// the burst in micro-tokens and of the rate in micro-tokens a second, rounded up. A
// limit that was raised leaves none.
//
// Worked number: 1,000 tokens at 100 a second were lowered to 200 at 20, and one of
// three regions is cut off at its floor: (1000-200)/3 = 266.7 tokens at once and 26.7
// a second more, until it has heard of it.
func ResidualExcess(now KeyLimit, regions []Outdated) (burst, rate int64) {
	for _, r := range regions {
		if over := r.Limit.Capacity - now.Capacity; over > 0 && r.Share.Burst > 0 {
			burst += Scale(over, r.Share.Burst) + 1
		}
		if over := r.Limit.Rate - now.Rate; over > 0 && r.Share.Rate > 0 {
			rate += Scale(over, r.Share.Rate) + 1
		}
	}
	return burst, rate
}
