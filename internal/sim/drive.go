package sim

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// Driven is a world whose requests come from outside: package compare runs the same
// requests against it and against other limiters. Nothing fails in it but what its
// driver breaks. Not safe for concurrent use.
type Driven struct{ w *world }

// DriveOptions describe a driven world.
type DriveOptions struct {
	Seed uint64
	// RTTs are the round-trip times between each region and the coordinators; as many
	// as there are regions.
	RTTs []time.Duration
	// Quorum is how long a log entry, or a proof of leadership, takes: one round
	// between voters.
	Quorum time.Duration
	Keys   []DrivenKey
	// Drifting lets every clock run at a rate of its own, as far as rho allows.
	Drifting bool
	// Bare leaves the coordinators and daemons out: time and distances alone.
	Bare bool
}

// DrivenKey is one key with a limit of its own.
type DrivenKey struct {
	Limit     limit.Limit
	Elastic   bool
	Placement budget.Placement
	// Local: daemons take tokens from their stores in advance.
	Local bool
}

// Decided is the answer to a request made several times at one instant.
type Decided struct {
	Admitted int           // Here included
	At       time.Duration // when the store decided
	Here     []Admission   // without the store
}

// Admission is some requests admitted at once.
type Admission struct {
	N  int
	At time.Duration
}

// NewDriven builds a world and starts the coordinators and daemons in it. They need
// a second to find each other.
func NewDriven(o DriveOptions) *Driven {
	return &Driven{newWorld(o.Seed, Options{
		Regions: len(o.RTTs), Keys: len(o.Keys), Calm: true, driven: &o,
	}, time.Hour)}
}

// Now is the time since the world began.
func (d *Driven) Now() time.Duration { return duration(d.w.now) }

// After lets do happen at a later time.
func (d *Driven) After(wait time.Duration, do func()) { d.w.after(int64(wait), do) }

// Run lets time pass. It stops early, with the promise that was broken, if one is.
func (d *Driven) Run(until time.Duration) *Violation {
	d.w.guarded(int64(until))
	if d.w.failure != nil {
		d.w.failure.Trace = d.w.lines()
	}
	return d.w.failure
}

// WAN is the time that a message takes from a region to the coordinators.
func (d *Driven) WAN(region int) time.Duration { return duration(d.w.oneWay[region]) }

// StoreTime is what the clock of a region's store shows.
func (d *Driven) StoreTime(region int) time.Duration {
	return time.Duration(d.w.stores[region].time()) * time.Microsecond
}

// Store draws the time that a message takes from a daemon to the store beside it.
func (d *Driven) Store() time.Duration { return duration(d.w.between(milli/20, milli)) }

// Ask makes the same request n times at the region's daemon. answer is not called if
// there is no daemon, or its store has other contents than it knows.
func (d *Driven) Ask(region, key, n int, cost limit.Tokens, answer func(Decided)) {
	node, c := d.w.nodeOf(region), d.w.clients[key]
	if node == nil {
		return
	}
	node.take(c.rules(node.version), n, cost, func(x decided) {
		if x.rep.otherEpoch {
			return
		}
		d := Decided{Admitted: x.rep.admitted, At: duration(x.rep.at), Here: x.here}
		for _, a := range x.here {
			d.Admitted += a.N
		}
		if x.rep.tried() > x.rep.admitted {
			node.deny(c.rule(), n-d.Admitted-1, cost, &x.rep)
		}
		answer(d)
	})
}

// deny counts requests that were denied in the same instant as the last one tried.
func (n *node) deny(r *rule, denied int, cost limit.Tokens, rep *taken) {
	if denied == 0 {
		return
	}
	last := rep.try(rep.tried() - 1)[0]
	n.machine.Observe(r.key, budget.Usage{
		Limit: r.keyLimit(n.limitOf(r)), Cost: int64(denied) * int64(cost), Tokens: int64(last.Tokens),
	}, n.now())
}

// Moves is how many shares of keys have changed so far, as stores applied them.
func (d *Driven) Moves() int64 { return d.w.moves }

// Cut takes a region off the network for a while: its daemon and the coordinators
// do not reach each other.
func (d *Driven) Cut(region int, length time.Duration) {
	d.w.cutUp[region], d.w.cutDown[region] = true, true
	d.w.after(int64(length), func() { d.w.cutUp[region], d.w.cutDown[region] = false, false })
}

// KillLeader kills the leader; another one leads after a while.
func (d *Driven) KillLeader(election time.Duration) {
	if d.w.leader != nil {
		d.w.leader.stop()
		d.w.electSoon(int64(election))
	}
}

// Flush loses everything that a region's store holds.
func (d *Driven) Flush(region int) { d.w.stores[region].flush() }
