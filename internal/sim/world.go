package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/shell"
	"aliquot/internal/sim/timeline"
)

// world is one run. It is not safe for concurrent use.
type world struct {
	seed uint64
	opts Options
	timeline.Timeline

	cfg    budget.Config  // as at the bootstrap
	ledger *budget.Ledger // built by the commands of the log

	leader  *coord // the coordinator with access to the log; nil: none
	coords  []*coord
	nodes   []*node // alive
	stores  []*store
	clients []*client
	rules   []*rule.Rule
	version uint64 // of the rules, in the log
	stage   *stage // the latest one; nil: none yet
	known   []stateFile
	opened  []budget.SessionID // by region: the latest one that a daemon of it opened
	names   int

	oneWay         []int64
	cutUp, cutDown []bool
	buried         []bool     // by region: fenced, its daemons never come back
	adopted        []adoption // by region
	fences         []int      // by region, how often
	declared       int        // regions, including those that have left
	floorsMoved    bool       // by an operator
	stuck          []int64    // until when a region's store commands are delayed
	faults         faults.Set
	clocksAgree    bool // the stores' clocks show the same, within a second
	faultGap       int64
	troubles       *rand.Rand // when which single fault comes
	cuts           *rand.Rand // when a store is lost for one daemon
	cached         *rand.Rand // which rules let daemons borrow chunks
	clockTrouble   *rand.Rand // faults of clocks
	struck         int        // single faults so far, including those left out
	mishaps        []mishap   // caused
	faulted        int64

	turn        int    // whose shares are checked next, if none is suspect
	sampleAt    int64  // when
	suspects    bool   // some rule is suspect
	slots       uint64 // the latest slot that was named
	decisions   int64
	moves       int64
	chunked     int64 // decisions that were admitted from chunks
	emergencies int64 // decisions in the daemon without the store
	admitted    int64
	failure     *Violation
}

// newWorld creates a world from a seed, and starts everything in it.
func newWorld(seed uint64, opts Options, faultsEnd time.Duration) *world {
	w := &world{
		seed: seed, opts: opts, Timeline: timeline.New(rand.New(rand.NewPCG(seed, 0x616c6971756f74))),
		troubles: rand.New(rand.NewPCG(seed, troubleStream)),
		cached:   rand.New(rand.NewPCG(seed, cachedStream)),

		cuts:         rand.New(rand.NewPCG(seed, cutStream)),
		clockTrouble: rand.New(rand.NewPCG(seed, clockStream)),
	}
	w.faults = faults.NewSet(&w.Timeline, int64(faultsEnd))
	declared := w.drawn(opts.Regions, 2, 6)
	names := make([]string, declared)
	for i := range names {
		names[i] = regionName(i)
	}
	w.cfg, w.declared = budget.NewConfig(names, w.drawLease(), w.drawRho()), len(names)
	w.ledger, w.version = &budget.Ledger{Config: w.cfg}, 1
	w.drawFaults()
	regions := declared + opts.spare
	if w.faults.Kinds[faults.AddRegion] {
		regions += w.Rand.IntN(3)
	}
	w.clocksAgree = w.Chance(1, 2) && !w.faults.Kinds[faults.StepClock]
	w.buried, w.fences, w.adopted = make([]bool, regions), make([]int, regions), make([]adoption, regions)
	w.known, w.opened, w.stuck = make([]stateFile, regions), make([]budget.SessionID, regions), make([]int64, regions)
	w.cutUp, w.cutDown = make([]bool, regions), make([]bool, regions)
	for i := range regions {
		w.oneWay = append(w.oneWay, w.drawOneWay(i))
		w.stores = append(w.stores, newStore(w, i))
	}
	for range w.drawn(opts.Keys, 1, 5) {
		w.clients = append(w.clients, w.newClient())
	}
	w.begin()
	return w
}

func (w *world) begin() {
	if d := w.opts.driven; d != nil && d.Bare {
		return
	}
	w.elect()
	for i := range w.ledger.Config.Regions {
		w.startNode(i, false, 0)
	}
	if w.opts.driven == nil {
		w.beginClients()
	}
	w.After(second, w.trouble)
	if slices.Contains(w.faults.Kinds[faults.Own:], true) {
		w.After(second, w.troubleClocks)
	}
	w.After(second, w.copyStores)
	if w.faults.Kinds[faults.StoreCut] {
		w.After(timeline.Exponential(w.cuts, 20*second), w.cutStores)
	}
	w.After(w.faults.Until, w.heal)
}

func (w *world) beginClients() {
	for _, c := range w.clients {
		w.Plan(w.Between(0, 100*milli)+int64(w.opts.Start), c)
	}
}

func (w *world) drawLease() time.Duration {
	if w.opts.Lease > 0 {
		return w.opts.Lease
	}
	if w.opts.Calm || w.Chance(1, 3) {
		return 10 * time.Second
	}
	return 3 * time.Second
}

func (w *world) drawRho() int32 {
	if w.opts.RhoPPM > 0 {
		return w.opts.RhoPPM
	}
	if w.opts.Calm || w.Chance(1, 2) {
		return 20_000
	}
	return 100_000
}

func (w *world) drawOneWay(region int) int64 {
	if d := w.opts.driven; d != nil {
		return int64(d.RTTs[region]) / 2
	}
	if w.opts.RTT > 0 {
		return int64(w.opts.RTT) / 2
	}
	return w.Between(200_000, 100*milli)
}

// StoreNow returns what the clock of a region's store shows.
func (w *world) StoreNow(region int) int64 { return w.stores[region].time() }

// newClock draws a clock, often one of the fastest or slowest that rho allows.
func (w *world) newClock() shell.Clock {
	low, high := shell.Slowest(w.cfg.RhoPPM), shell.Fastest(w.cfg.RhoPPM)
	c := shell.Clock{Offset: w.Between(second, 1000*second), Drift: w.Between(low, high+1)}
	switch w.Rand.IntN(3) {
	case 0:
		c.Drift = low
	case 1:
		c.Drift = high
	}
	if !w.drifts() {
		c.Drift = 0
	}
	return c
}

// drifts reports whether the world's clocks run at different rates.
func (w *world) drifts() bool {
	if d := w.opts.driven; d != nil {
		return d.Drifting
	}
	return w.faults.Kinds[faults.Drifting]
}

// nodeOf returns the region's daemon, the latest one if there are two.
func (w *world) nodeOf(region int) *node {
	for i := len(w.nodes) - 1; i >= 0; i-- {
		if w.nodes[i].region == region {
			return w.nodes[i]
		}
	}
	return nil
}

// oldest returns the oldest daemon of a region that is not its latest.
func (w *world) oldest(region int) *node {
	latest := w.nodeOf(region)
	for _, n := range w.nodes {
		if n.region == region && n != latest {
			return n
		}
	}
	return nil
}

func (w *world) drawn(given, low, high int) int {
	if given > 0 {
		return given
	}
	return int(w.Between(int64(low), int64(high)))
}
