package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/place"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/site"
	"aliquot/internal/sim/timeline"
)

// world is one run. It is not safe for concurrent use.
type world struct {
	seed uint64
	opts Options
	site.Regions

	ledger *budget.Ledger // built by the commands of the log

	leader  *coord // the coordinator with access to the log; nil: none
	coords  []*coord
	clients []*client
	version uint64 // of the rules, in the log
	stage   *stage // the latest one; nil: none yet

	oneWay         []int64
	cutUp, cutDown []bool
	places         map[int]place.Place // by region, in the log
	fences         []int               // by region, how often
	declared       int                 // regions, including those that have left
	floorsMoved    bool                // by an operator
	faultGap       int64
	troubles       *rand.Rand // when which single fault comes
	cuts           *rand.Rand // when a store is lost for one daemon
	cached         *rand.Rand // which rules let daemons borrow chunks
	stops          *rand.Rand // when a daemon stops in order and its store is emptied
	clockTrouble   *rand.Rand // faults of clocks
	struck         int        // single faults so far, including those left out
	mishaps        []mishap   // caused
	faulted        int64

	turn     int   // whose shares are checked next, if none is suspect
	sampleAt int64 // when
	admitted int64
	failure  *Violation
}

// newWorld creates a world from a seed, and starts everything in it.
func newWorld(seed uint64, opts Options, faultsEnd time.Duration) *world {
	w := &world{
		seed: seed, opts: opts,
		troubles: rand.New(rand.NewPCG(seed, troubleStream)),
		cached:   rand.New(rand.NewPCG(seed, cachedStream)),

		cuts:         rand.New(rand.NewPCG(seed, cutStream)),
		stops:        rand.New(rand.NewPCG(seed, stopStream)),
		clockTrouble: rand.New(rand.NewPCG(seed, clockStream)),
	}
	w.Start(w, timeline.New(rand.New(rand.NewPCG(seed, 0x616c6971756f74))), int64(faultsEnd))
	w.Spoil = opts.spoil
	declared := w.drawn(opts.Regions, 2, 6)
	names := make([]string, declared)
	for i := range names {
		names[i] = regionName(i)
	}
	w.Config, w.declared = budget.NewConfig(names, w.drawLease(), w.drawRho()), len(names)
	w.places = map[int]place.Place{}
	w.ledger, w.version = &budget.Ledger{Config: w.Config}, 1
	w.drawFaults()
	w.Drifting = w.Faults.Kinds[faults.Drifting]
	if d := opts.driven; d != nil {
		w.Drifting = d.Drifting
	}
	regions := declared + opts.spare
	if w.Faults.Kinds[faults.AddRegion] {
		regions += w.Rand.IntN(3)
	}
	w.ClocksAgree = w.Chance(1, 2) && !w.Faults.Kinds[faults.StepClock]
	w.fences, w.cutUp, w.cutDown = make([]int, regions), make([]bool, regions), make([]bool, regions)
	for i := range regions {
		w.oneWay = append(w.oneWay, w.drawOneWay(i))
		w.AddStore()
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
		w.StartNode(i, false, 0)
	}
	if w.opts.driven == nil {
		w.beginClients()
	}
	w.After(second, w.trouble)
	if slices.Contains(w.Faults.Kinds[faults.Own:], true) {
		w.After(second, w.troubleClocks)
	}
	w.After(second, w.copyStores)
	if w.Faults.Kinds[faults.StoreCut] {
		w.After(timeline.Exponential(w.cuts, 20*second), w.cutStores)
	}
	if w.Faults.Kinds[faults.StopInOrder] {
		w.After(timeline.Exponential(w.stops, 20*second), w.stopDaemons)
	}
	w.After(w.Faults.Until, w.heal)
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

func (w *world) drawn(given, low, high int) int {
	if given > 0 {
		return given
	}
	return int(w.Between(int64(low), int64(high)))
}
