package sim

import (
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
	Lease   time.Duration // 0: drawn, 3 s or 10 s
	RhoPPM  int32         // 0: drawn, 2 % or 10 %
	RTT     time.Duration // between regions and coordinators; 0: drawn for each region
	Limit   limit.Limit   // of every key; zero: drawn
	Elastic bool          // every key, if Limit is given
	// Local tells which rules let daemons take tokens in advance.
	Local Local
	// Calm worlds have no faults and true clocks.
	Calm bool
	// Start is when clients begin to ask; Mode, if not nil, is all they do.
	Start time.Duration
	Mode  *Behaviour
	// Only, if not nil, is all the trouble that there is; see Violation.Enough.
	Only *Selection

	driven *DriveOptions
	spare  int     // regions that may be added, besides drawn ones
	faults []fault // every world has these
	// confined: no world has others.
	confined bool
	// spoil changes what daemons tell their stores, for the test of what becomes of a
	// failure. Bugs in the code itself are planted by package plants.
	spoil func(*limit.View)
	// Algorithms are what the keys' are drawn from; none: all there are.
	Algorithms []limit.Algorithm
}

// Local tells which rules of a world let daemons take tokens from their stores in
// advance, and remember denials.
type Local int8

// The choices; the zero value draws it for each rule.
const (
	LocalDrawn Local = iota
	LocalNowhere
	LocalEverywhere
)

// Behaviour is one fixed way to call.
type Behaviour struct {
	mode mode
	home int
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
		began[i] = c.rule().ideal.spent
	}
	w.guarded(w.now + int64(recovery/2))
	if w.failure == nil {
		w.checkUse(began)
	}
}
