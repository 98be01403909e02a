package regional

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
)

const (
	// The breaker opens after tripAfter failures in a row, however seldom calls come, or
	// when half of at least tripSample calls of tripWindow failed.
	tripAfter  = 5
	tripSample = 20
	tripWindow = time.Second
	// It is open for openLeast, then one trial is made of the store. Each time that
	// finds it unwell, or that it fails again within openMost of having closed,
	// the wait doubles, up to openMost.
	openLeast = 500 * time.Millisecond
	openMost  = 5 * time.Second
	// openJitter is the part of a wait left to chance, in percent, so that the
	// daemons of a region do not all try a recovering store at once.
	openJitter = 20
)

// errOpen: the store did not answer lately and is not asked for now.
var errOpen = errors.New("regional: the breaker before the store is open")

// breaker keeps calls off a store that does not answer. gobreaker counts and
// decides when to open; how long is decided here, since gobreaker waits the same
// time always. While it is not closed only trials pass, that no client waits for.
// Safe for concurrent use.
type breaker struct {
	calls    *gobreaker.CircuitBreaker[struct{}]
	now      func() budget.Instant
	onChange func(gobreaker.State)
	// open: not closed.
	open atomic.Bool
	// shut is the instant until which the open breaker lets nothing through.
	shut atomic.Int64
	// failures counts the calls that failed since the last that did not. gobreaker's own
	// count forgets those that are older than tripWindow.
	failures atomic.Int64

	mu     sync.Mutex
	wait   time.Duration // the last one, without jitter; 0: never opened
	closed budget.Instant
}

// newBreaker makes a closed breaker. onChange is told each new state; it must be
// quick and not call the breaker.
func newBreaker(now func() budget.Instant, onChange func(gobreaker.State)) *breaker {
	b := &breaker{now: now, onChange: onChange}
	b.calls = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "store",
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      time.Nanosecond, // over long before shut is
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return b.failures.Load() >= tripAfter ||
				c.Requests >= tripSample && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: b.changed,
		IsSuccessful:  b.succeeded,
		IsExcluded:    func(err error) bool { return errors.Is(err, errStarved) || isBug(err) },
	})
	return b
}

// do makes a call, or refuses to with an error that isOpen knows. A call that panics does so
// here too, with a *panicError, and counts as none: a bug that one key's requests meet says
// nothing of the store, and must not keep all others from it.
func (b *breaker) do(trial bool, call func() error) error {
	if b.open.Load() && (!trial || b.trialIn() > 0) {
		return errOpen
	}
	_, err := b.calls.Execute(func() (struct{}, error) { return struct{}{}, caughtIn(call) })
	panicAgain(err)
	return err
}

// succeeded reports whether a call says that the store is well, and counts those that do not.
func (b *breaker) succeeded(err error) bool {
	if answered(err) || inPart(err) {
		b.failures.Store(0)
		return true
	}
	b.failures.Add(1)
	return false
}

// suspects reports whether the last call failed and the breaker is closed still.
func (b *breaker) suspects() bool { return b.failures.Load() > 0 && !b.open.Load() }

// trialIn is in how long the store is to be tried; 0: now, or the breaker is closed.
func (b *breaker) trialIn() time.Duration {
	if !b.open.Load() {
		return 0
	}
	return max(0, budget.Instant(b.shut.Load()).Sub(b.now()))
}

// tryNow ends the wait: there is reason to think that the store is back.
func (b *breaker) tryNow() { b.shut.Store(0) }

// isOpen tells the breaker's own errors from those of calls.
func isOpen(err error) bool {
	return errors.Is(err, errOpen) || errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

func (b *breaker) changed(_ string, from, to gobreaker.State) {
	now := b.now()
	b.mu.Lock()
	switch to {
	case gobreaker.StateOpen:
		b.wait = b.nextWait(from, now)
		jittered := b.wait - b.wait/100*time.Duration(rand.IntN(openJitter+1))
		b.shut.Store(int64(now.Add(jittered)))
	case gobreaker.StateClosed:
		b.closed = now
	}
	b.open.Store(to != gobreaker.StateClosed) // after shut, which tells what it means
	b.mu.Unlock()
	b.onChange(to)
}

// nextWait is how long to stay open this time.
func (b *breaker) nextWait(from gobreaker.State, now budget.Instant) time.Duration {
	again := from == gobreaker.StateHalfOpen || now.Sub(b.closed) < openMost
	if b.wait == 0 || !again {
		return openLeast
	}
	return min(2*b.wait, openMost)
}
