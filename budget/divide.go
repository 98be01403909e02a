package budget

// Claim is what a Divide may look at of one region.
type Claim struct {
	// Silent: nothing can be given to the region or taken from it. Draining: it is to
	// hold nothing.
	Silent, Draining bool
	// Now is what the region holds, or what is reserved for it; Keep is not lent while
	// the region is heard.
	Now, Floor, Keep Share
}

// Divide decides what every region should hold of a key, by index. avail is what is
// not reserved for silent regions; it may be negative. What a Divide asks for is a
// wish: the leader moves towards it as the protocol allows.
type Divide func(k KeyID, avail Share, claims []Claim) []Share

// DivideBy puts another division in the place of the shipped one, for model checking:
// safety must not depend on who gets how much. nil brings the shipped one back.
func (l *Leader) DivideBy(d Divide) { l.divide = d }

// divided is the division in force, and whether it is worth moving there.
func (l *Leader) divided(key *leaderKey, in allocation, now Instant) ([]Share, bool) {
	if l.divide == nil {
		out := allocate(in)
		// When short, a floor must be honoured: there is no time to lose.
		return out, in.short() || l.worthMoving(key, in, out, now)
	}
	claims := make([]Claim, len(in.Regions))
	for i, c := range in.Regions {
		claims[i] = Claim{Silent: c.Silent, Draining: c.Draining, Now: c.Now, Floor: c.Floor, Keep: c.Keep}
	}
	return l.divide(key.id, in.Avail, claims), true
}
