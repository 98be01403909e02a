package budget

import "time"

// Placement is how the regions are to hold one limit.
type Placement uint8

// The placements, as rules name them.
const (
	// PlacementAuto: a small limit has a home, any other is split; see Config.Homed.
	PlacementAuto Placement = iota
	// PlacementSplit: every region that asks holds a part, however small the limit is.
	PlacementSplit
	// PlacementHome: while the key is hot one region holds all of it, and it follows the
	// client.
	PlacementHome
)

// Valid reports whether p is one of the placements.
func (p Placement) Valid() bool { return p <= PlacementHome }

// homedBelow is how many requests a floor holds at the least to be worth splitting:
// below it, a burst that arrives in one region finds too little of it there, and
// what remains elsewhere is parts of requests.
const homedBelow = 10

// Homed reports whether a key of this limit has a home: one region that holds all of
// it while the key is hot. By itself that is a token bucket whose mean floor is below
// ten requests: what a limit that counts leaves unused is lent whole, however small it is.
// It is a question of how well the limit is used, never of safety, so the leader and a region with an
// older configuration may disagree.
func (c *Config) Homed(limit KeyLimit) bool {
	switch limit.Placement {
	case PlacementSplit:
		return false
	case PlacementHome:
		return true
	}
	if limit.lendsUnused() {
		return false
	}
	floors := int64(0)
	for i := range c.Regions {
		if c.Regions[i].Told != (Share{}) {
			floors++
		}
	}
	return limit.Capacity < homedBelow*microToken*floors
}

// How long a home keeps what others ask for. A share that moves does not refill for
// a round trip and a commit, some 0.2 s at 80 ms: two busy regions that take turns of
// five seconds lose 4 % by it. A home whose clients all pass has enough in its bucket
// to let others have a turn much sooner.
const (
	busyDwell = 5 * time.Second
	calmDwell = time.Second
	// tailsDwell is how many times as long as use outlasts its right a turn is: until
	// then the next home cannot have all of it.
	tailsDwell = 4
)

// noHome is the home of a key that nobody has used yet.
const noHome = -1

// chooseHome decides who is to hold a homed key. The home keeps it while nobody else
// is refused; of those who are, the one that was home least recently is next, so that
// no demand however large keeps others from their turn.
func (l *Leader) chooseHome(key *leaderKey, in allocation, now Instant) int {
	if key.home != noHome && !in.Regions[key.home].holds() {
		l.leaveHome(key, now)
	}
	next := key.nextHome(in)
	if key.home == noHome {
		if next == noHome {
			next = in.present()
		}
	} else if next != noHome && !key.homeYields(in.Regions[key.home].Demand, now) {
		return key.home
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

// homeYields: the home has had its turn, or has no use for it.
func (key *leaderKey) homeYields(d demandNow, now Instant) bool {
	dwell := busyDwell
	switch {
	case d.Idle:
		return true
	case !d.Rejecting:
		dwell = calmDwell
	}
	dwell = max(dwell, tailsDwell*key.limit.Tail)
	return now.Sub(key.homeSince) >= dwell
}

// nextHome is which other region is refused and has been without for the longest;
// ties go to the larger demand, then to the lower index.
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

// present is who uses most of a key that has no home, or else who holds most of it if
// that is more than its floor: a new leader finds the home of the one before.
func (a allocation) present() int {
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

// holds: the region can be given something.
func (c *claim) holds() bool { return !c.Silent && !c.Draining }

// largest is the demand as far as anything speaks for it.
func (d demandNow) largest() int64 { return max(d.Slow, d.Fast) }

// homed gives one region all that the others do not keep. Nothing stays in the pool:
// a growth has to wait for the home's acknowledgement anyway. Without a home yet
// everyone stays at its floor.
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

// moves reports whether shares differ from what regions hold.
func (a allocation) moves(target []Share) bool {
	for i, c := range a.Regions {
		if !c.Silent && c.Now != target[i] {
			return true
		}
	}
	return false
}
