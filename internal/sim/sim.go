package sim

import (
	"time"

	"aliquot/internal/sim/faults"
	"aliquot/limit"
)

const (
	// worldSpan is how long one world runs: trouble first, then time to recover.
	worldSpan = 10 * time.Minute
	// recovery is the quiet end of a world: half of it to recover, half to show the recovery.
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
	// Local says which rules let daemons borrow chunks.
	Local Local
	// Calm worlds have no faults, and their clocks show true time.
	Calm bool
	// Start is when clients begin to send requests. Mode, if not nil, is their only behaviour.
	Start time.Duration
	Mode  *Behaviour
	// Only, if not nil, is the only trouble; see Violation.Enough.
	Only *faults.Selection

	driven *DriveOptions
	spare  int           // regions that may be added, besides drawn ones
	faults []faults.Kind // every world has these
	// confined: no world has other faults.
	confined bool
	// spoil changes what daemons send to their stores, for the test of how a failure is handled.
	// Package plants plants bugs in the code itself.
	spoil func(*limit.View)
	// Algorithms are the algorithms from which the keys' are drawn; none: all of them.
	Algorithms []limit.Algorithm
}

// Local says which rules of a world let daemons borrow chunks from their stores and remember
// denials.
type Local int8

// The values of Local. The zero value draws one for each rule.
const (
	LocalDrawn Local = iota
	LocalNowhere
	LocalEverywhere
)

// Behaviour is one fixed way to send requests.
type Behaviour struct {
	mode mode
	home int
}

// live runs one world with trouble until faultsEnd, and checks that it recovers.
func live(seed uint64, opts Options, faultsEnd time.Duration) *world {
	w := newWorld(seed, opts, faultsEnd)
	w.guarded(int64(faultsEnd))
	if w.failure == nil {
		w.recover()
	}
	return w
}

// run lets true time pass until end, or until there is a violation.
func (w *world) run(end int64) {
	for w.failure == nil && w.Next(end) {
		w.checkShares()
	}
	if w.failure == nil {
		w.Skip(end)
	}
}

// guarded runs until end. A state machine that panics has broken a promise too.
func (w *world) guarded(end int64) {
	defer func() {
		if p := recover(); p != nil {
			w.violate("panic: %v", p)
		}
	}()
	w.run(end)
}

// recover checks the recovery. Half a recovery after the last fault every region must hold a lease.
// In the other half a client that asks for everything must get at least 0.9 of the rate.
func (w *world) recover() {
	w.guarded(w.Now() + int64(recovery/2))
	w.checkRecovered()
	began := make([]limit.Tokens, len(w.clients))
	for i, c := range w.clients {
		began[i] = c.rule().Ideal.Spent()
	}
	w.guarded(w.Now() + int64(recovery/2))
	if w.failure == nil {
		w.checkUse(began)
	}
}
