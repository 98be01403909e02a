package budget

import "time"

// Placement says how the regions hold one limit.
type Placement uint8

// The placements as rules name them.
const (
	// PlacementAuto: a small and slow limit has a home, any other limit is split; see Config.Homed.
	PlacementAuto Placement = iota
	// PlacementSplit: every region that asks holds a part, however small the limit is.
	PlacementSplit
	// PlacementHome: one region holds the whole limit while the key is hot, and the home follows
	// the client.
	PlacementHome
)

// Valid reports whether p is one of the placements.
func (p Placement) Valid() bool { return p <= PlacementHome }

// homedBelow is the number of requests that a floor must hold, or earn a second, to be worth
// splitting. Below it, a burst that arrives in one region finds too little there, and the other
// regions are left with parts of requests. A floor that earns so many has its next whole request
// within 100 ms, and its clients would wait seconds for their region's turn as a home: the limit of
// a backend, with a small burst and a high rate, is used in all regions at once.
const homedBelow = 10

// Homed reports whether a key of this limit has a home: one region that holds all of it while the
// key is hot. By default that is a token bucket whose mean floor holds less than ten requests and
// earns less than ten a second. A counting limit has none, because what a region leaves unused of it
// is lent whole, however small it is. The answer affects how well the limit is used, never safety, so
// the leader and a region with an older configuration may disagree.
func (c *Config) Homed(limit KeyLimit) bool {
	switch limit.Placement {
	case PlacementSplit:
		return false
	case PlacementHome:
		return true
	}
	if limit.LendsUnused() {
		return false
	}
	floors := int64(0)
	for i := range c.Regions {
		if c.Regions[i].Told != (Share{}) {
			floors++
		}
	}
	return max(limit.Capacity, limit.Rate) < homedBelow*microToken*floors
}

// BusyDwell and calmDwell are how long a home keeps a limit that other regions ask for, if the limit
// is used up or was a moment ago. A share that moves does not refill for a round trip and a commit,
// some 0.2 s at 80 ms. Two busy regions that take turns of five seconds lose 4 % by it. A home whose
// clients are all admitted can pass the turn on sooner. As long as no home of the limit was ever
// short, the limit is enough for all, and the home passes it on at once: a check elsewhere waits for
// half a second at most.
const (
	BusyDwell = 5 * time.Second
	calmDwell = time.Second
	// leastShort is how long a limit counts as short after its home was, and not less than a turn in
	// tails. In that time every region of three has had its turn.
	leastShort = 3 * BusyDwell
	// TailsDwell is the length of a turn in tails of the limit. Until that time the next home
	// cannot have all of it.
	TailsDwell = 4
)

// noHome is the home of a key that no region has used yet.
const noHome = -1

// chooseHome decides which region holds a homed key. The home keeps it while no other region
// rejects requests. Of those that reject, the next home is the one that was home least recently, so
// no demand, however large, keeps the others from their turn.
func (l *Leader) chooseHome(key *leaderKey, in allocation, now Instant) int {
	if key.home != noHome && !in.Regions[key.home].holds() {
		l.leaveHome(key, now)
	}
	next := key.nextHome(in)
	if key.home == noHome {
		if next == noHome {
			next = in.likelyHome()
		}
	} else {
		if key.homeShort(in) {
			key.short = now
		}
		if next != noHome && !key.homeYields(in.Regions[key.home].Demand, now) {
			return key.home
		}
	}
	if next != noHome {
		l.leaveHome(key, now)
		key.home, key.homeSince = next, now
	}
	return key.home
}

func (l *Leader) leaveHome(key *leaderKey, now Instant) {
	if key.home != noHome {
		key.regions[key.home].homeUntil = now
	}
	key.home = noHome
}

// homeYields reports whether the home has had its turn, does not use the key, or refuses nobody of a
// limit that is enough for all.
func (key *leaderKey) homeYields(d demandNow, now Instant) bool {
	dwell := BusyDwell
	switch {
	case d.Idle, !d.Rejecting && !key.wasShort(now):
		return true
	case !d.Rejecting:
		dwell = calmDwell
	}
	dwell = max(dwell, TailsDwell*key.limit.Tail)
	return now.Sub(key.homeSince) >= dwell
}

// homeShort reports whether the home refuses requests while it has everything that it can have of the
// limit. A home to which parts are on their way is not short: it refuses for want of these parts. What
// rounding takes of a request does not count, so less than half a request must be left.
func (key *leaderKey) homeShort(in allocation) bool {
	home, kr := &in.Regions[key.home], &key.regions[key.home]
	return home.Demand.Rejecting && home.Tokens < microToken/2 && kr.acked && !kr.pending && in.homed(key.home)[key.home] == home.Now
}

// wasShort reports whether the home was short a moment ago.
func (key *leaderKey) wasShort(now Instant) bool {
	return key.short != 0 && now.Sub(key.short) < key.shortFor()
}

// shortFor returns how long the limit counts as short.
func (key *leaderKey) shortFor() time.Duration { return max(leastShort, TailsDwell*key.limit.Tail) }

// nextHome returns the other region that rejects and has been without the key for longest. Ties go
// to the larger demand, then to the lower index.
func (key *leaderKey) nextHome(in allocation) int {
	next := noHome
	for i, c := range in.Regions {
		if i == key.home || !c.holds() || !c.Demand.Rejecting {
			continue
		}
		if next == noHome {
			next = i
			continue
		}
		a, b := key.regions[i].homeUntil, key.regions[next].homeUntil
		if a < b || a == b && c.Demand.largest() > in.Regions[next].Demand.largest() {
			next = i
		}
	}
	return next
}

// likelyHome returns the region that uses most of a key without a home. If none uses it, it returns
// the region that holds most, if that is more than its floor. A new leader finds the home of the
// previous leader that way.
func (a allocation) likelyHome() int {
	user, holder := noHome, noHome
	for i, c := range a.Regions {
		if !c.holds() {
			continue
		}
		if c.Demand.largest() > 0 && (user == noHome || c.Demand.largest() > a.Regions[user].Demand.largest()) {
			user = i
		}
		if c.Now.Rate > c.Floor.Rate && (holder == noHome || c.Now.Rate > a.Regions[holder].Now.Rate) {
			holder = i
		}
	}
	if holder != noHome {
		return holder
	}
	return user
}

// holds reports whether the region can be given anything.
func (c *claim) holds() bool { return !c.Silent && !c.Draining }

// largest returns the largest estimate of the demand.
func (d demandNow) largest() int64 { return max(d.Slow, d.Fast) }

// homed gives one region everything that the others do not keep. Nothing stays in the pool, since a
// growth has to wait for the home's acknowledgement anyway. As long as there is no home, every
// region stays at its floor.
func (a allocation) homed(home int) []Share {
	out := make([]Share, len(a.Regions))
	var live []int
	var keep Share
	for i, c := range a.Regions {
		switch {
		case c.Silent:
			out[i] = c.Now
		case !c.Draining:
			live = append(live, i)
			keep = keep.Add(c.Keep)
		}
	}
	avail := a.Avail.Max(Share{})
	if !keep.Within(avail) || home == noHome {
		for _, i := range live {
			c := &a.Regions[i]
			out[i] = c.Floor
			if home != noHome {
				out[i] = c.Now.Min(c.Keep)
			}
		}
		return out
	}
	for _, i := range live {
		out[i] = a.Regions[i].Keep
	}
	out[home] = out[home].Add(avail.Sub(keep))
	return out
}

// moves reports whether the target differs from what the regions hold.
func (a allocation) moves(target []Share) bool {
	for i, c := range a.Regions {
		if !c.Silent && c.Now != target[i] {
			return true
		}
	}
	return false
}
