package sim

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// Driven is a world whose requests come from outside: package compare sends the same requests to it
// and to other limiters. Nothing fails in it except what its driver breaks. It is not safe for
// concurrent use.
type Driven struct{ w *world }

// DriveOptions describe a driven world.
type DriveOptions struct {
	Seed uint64
	// RTTs are the round-trip times between each region and the coordinators, one for each region.
	RTTs []time.Duration
	// Quorum is the time of a log entry, or of a proof of leadership: one round between voters.
	Quorum time.Duration
	Keys   []DrivenKey
	// Drifting lets every clock run at its own rate, as far as rho allows.
	Drifting bool
	// Bare leaves out the coordinators and daemons: the world has only time and distances.
	Bare bool
}

// DrivenKey is one key with its own limit.
type DrivenKey struct {
	Limit     limit.Limit
	Elastic   bool
	Placement budget.Placement
	// Local: daemons borrow chunks from their stores.
	Local bool
	// Forgives: the key starts afresh if a store has lost its contents and nothing is known of it.
	Forgives bool
}

// NewDriven creates a world and starts its coordinators and daemons. They need a second to find
// each other.
func NewDriven(o DriveOptions) *Driven {
	return &Driven{newWorld(o.Seed, Options{
		Regions: len(o.RTTs), Keys: len(o.Keys), Calm: true, driven: &o,
	}, time.Hour)}
}

// Now returns the time since the world began.
func (d *Driven) Now() time.Duration { return duration(d.w.Now()) }

// After calls do at a later time.
func (d *Driven) After(wait time.Duration, do func()) { d.w.After(int64(wait), do) }

// Run lets time pass. If a promise is broken it stops early and returns the violation.
func (d *Driven) Run(until time.Duration) *Violation {
	d.w.guarded(int64(until))
	if d.w.failure != nil {
		d.w.failure.Trace = d.w.lines()
	}
	return d.w.failure
}

// WAN returns the time that a message takes from a region to the coordinators.
func (d *Driven) WAN(region int) time.Duration { return duration(d.w.oneWay[region]) }

// StoreTime returns what the clock of a region's store shows.
func (d *Driven) StoreTime(region int) time.Duration {
	return time.Duration(d.w.Stores[region].Time()) * time.Microsecond
}

// Store draws the time that a message takes from a daemon to the store beside it.
func (d *Driven) Store() time.Duration { return duration(d.w.Between(milli/20, milli)) }

// Ask makes the same request n times at the region's daemon. answer is not called if there is no
// daemon, or if its store has other contents than the daemon knows.
func (d *Driven) Ask(region, key, n int, cost limit.Tokens, answer func(site.Decided)) {
	node, c := d.w.NodeOf(region), d.w.clients[key]
	if node == nil {
		return
	}
	node.Ask(c.rules(node.Version), c.rule(), n, cost, answer)
}

// Moves returns how many shares of keys have changed so far, as stores applied them.
func (d *Driven) Moves() int64 { return d.w.Moves }

// Cut takes a region off the network for a while: its daemon and the coordinators
// do not reach each other.
func (d *Driven) Cut(region int, length time.Duration) {
	d.w.cutUp[region], d.w.cutDown[region] = true, true
	d.w.After(int64(length), func() { d.w.cutUp[region], d.w.cutDown[region] = false, false })
}

// KillLeader kills the leader. Another coordinator leads after a while.
func (d *Driven) KillLeader(election time.Duration) {
	if d.w.leader != nil {
		d.w.leader.stop()
		d.w.electSoon(int64(election))
	}
}

// Flush loses everything that a region's store holds.
func (d *Driven) Flush(region int) { d.w.Stores[region].Flush() }

// Stop has a region's store answer nothing for a while.
func (d *Driven) Stop(region int, length time.Duration) {
	d.w.Stuck[region] = d.w.Now() + int64(length)
}
