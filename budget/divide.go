package budget

// Claim is the part of one region's state that a Divide may use.
type Claim struct {
	// Silent: the leader can neither give the region anything nor take anything from it. Draining:
	// the region must come to hold nothing.
	Silent, Draining bool
	// Now is what the region holds, or what is reserved for it. Keep is what it does not lend while
	// it is heard.
	Now, Floor, Keep Share
}

// Divide returns the share that each region should hold of a key, by index. avail is the limit
// without what is reserved for silent regions, and may be negative. The result is a wish: the
// leader moves towards it as far as the protocol allows.
type Divide func(k KeyID, avail Share, claims []Claim) []Share

// DivideBy replaces the division of shares, for model checking: safety must not depend on which
// region gets how much. nil restores the shipped division.
func (l *Leader) DivideBy(d Divide) { l.divide = d }

// divided returns the shares by the division in force, and whether they are worth the move.
func (l *Leader) divided(key *leaderKey, in allocation, now Instant) ([]Share, bool) {
	if l.divide == nil {
		out := allocate(in)
		// When there is not enough, a floor must be honoured without delay.
		return out, in.short() || l.worthMoving(key, in, out, now)
	}
	claims := make([]Claim, len(in.Regions))
	for i, c := range in.Regions {
		claims[i] = Claim{Silent: c.Silent, Draining: c.Draining, Now: c.Now, Floor: c.Floor, Keep: c.Keep}
	}
	return l.divide(key.id, in.Avail, claims), true
}
