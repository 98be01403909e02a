package sim

import (
	"fmt"
	"strings"
	"time"

	"aliquot/limit"
)

const (
	// worldSpan is how long one world lives: trouble first, then time to recover.
	worldSpan = 10 * time.Minute
	// recovery is the quiet end of it: half to recover, half to show it.
	recovery = 2 * time.Minute
)

// Options shape the worlds of a run. The zero value draws everything from the seed.
type Options struct {
	Regions int           // 2 to 5; 0: drawn
	Keys    int           // 0: drawn, 1 to 4
	RTT     time.Duration // between regions and coordinators; 0: drawn for each region
	Limit   limit.Limit   // of every key; zero: drawn
	Elastic bool          // every key, if Limit is given
	// Calm worlds have no faults and true clocks.
	Calm bool
	// Start is when clients begin to ask; Mode, if not nil, is all they do.
	Start time.Duration
	Mode  *Behaviour

	plant  plant
	spare  int     // regions that may be added, besides drawn ones
	faults []fault // every world has these
}

// Behaviour is one fixed way to call.
type Behaviour struct {
	mode mode
	home int
}

// Violation is a promise broken.
type Violation struct {
	Seed  uint64
	At    time.Duration // since the world began
	What  string
	Trace []string // the last events
	// Faults is the shortest time of trouble found after which the same seed still
	// breaks a promise.
	Faults time.Duration
}

// String tells how to see it again, and what led to it.
func (v *Violation) String() string {
	return fmt.Sprintf("seed %d, at %v (enough: faults until %v): %s\n%s",
		v.Seed, v.At, v.Faults, v.What, strings.Join(v.Trace, "\n"))
}

// Result is what a run came to.
type Result struct {
	Worlds   int
	Virtual  time.Duration
	Events   int64
	Faults   int64
	Admitted int64 // whole tokens
	// Kinds counts the faults by kind; see FaultName.
	Kinds      [faultKinds]int64
	Violations []*Violation
	// Hash is of everything that happened: the same for the same arguments.
	Hash uint64
}

// Run lives through worlds of ten virtual minutes, with the seeds from seed
// upwards, until they add up to the given hours.
func Run(seed uint64, hours float64, opts Options) Result {
	var r Result
	for total := time.Duration(hours * float64(time.Hour)); r.Virtual < total; seed++ {
		w := live(seed, opts, worldSpan-recovery)
		r.Worlds++
		r.Virtual += duration(w.now)
		r.Events += w.events
		r.Faults += w.faulted
		r.Admitted += w.admitted
		for f, n := range w.caused {
			r.Kinds[f] += n
		}
		r.Hash = r.Hash*31 + w.hash
		if w.failure != nil {
			r.Violations = append(r.Violations, shrunk(w, opts))
			r.Virtual += worldSpan - duration(w.now)
		}
	}
	return r
}

// live lives through one world with trouble until faultsEnd, and checks that it
// recovers.
func live(seed uint64, opts Options, faultsEnd time.Duration) *world {
	w := newWorld(seed, opts, faultsEnd)
	w.guarded(int64(faultsEnd))
	if w.failure == nil {
		w.recover()
	}
	return w
}

// guarded runs until end; a machine that panics has broken a promise too.
func (w *world) guarded(end int64) {
	defer func() {
		if p := recover(); p != nil {
			w.violate("panic: %v", p)
		}
	}()
	w.run(end)
}

// recover: half a recovery after the last fault every region holds a lease, and in
// the other half a client that asks for everything gets at least 0.9 of the rate.
func (w *world) recover() {
	w.guarded(w.now + int64(recovery/2))
	w.checkRecovered()
	began := make([]limit.Tokens, len(w.clients))
	for i, c := range w.clients {
		began[i] = c.ideal.spent
	}
	w.guarded(w.now + int64(recovery/2))
	if w.failure == nil {
		w.checkUse(began)
	}
}

// shrunk looks for the shortest time of trouble with which the seed still fails,
// by halving: what came before is the same in every try.
func shrunk(w *world, opts Options) *Violation {
	best := w.failure
	best.Trace, best.Faults = w.lines(), min(best.At, worldSpan-recovery)
	low, high := time.Duration(0), best.Faults
	for range 8 {
		mid := (low + high) / 2
		if again := live(w.seed, opts, mid); again.failure != nil {
			best, high = again.failure, mid
			best.Trace, best.Faults = again.lines(), mid
		} else {
			low = mid
		}
	}
	return best
}
