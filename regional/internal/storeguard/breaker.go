package storeguard

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
	"aliquot/lua"
	"aliquot/regional/internal/background"
)

// errOpen: the store did not answer recently, and gets no calls for now.
var errOpen = errors.New("regional: the breaker before the store is open")

// Breaker keeps calls away from a store that does not answer. gobreaker counts failures and decides
// when to open. The time for which it stays open is decided here, because gobreaker's is always the
// same. While the breaker is not closed it lets only trials pass, for which no client waits. Safe
// for concurrent use.
type Breaker struct {
	Calls    *gobreaker.CircuitBreaker[struct{}]
	now      func() budget.Instant
	onChange func(gobreaker.State)
	// Open is true unless the breaker is closed.
	Open atomic.Bool
	// heldUntil is the instant until which the open breaker lets nothing pass.
	heldUntil atomic.Int64
	// failures counts the calls that failed since the last success. gobreaker's own count forgets
	// failures older than tripWindow.
	failures atomic.Int64
	// unlearned: the store had other contents, and could not be asked which. Then its answers decide nothing.
	unlearned atomic.Bool

	mu     sync.Mutex
	wait   time.Duration // the latest one, without jitter; 0: never opened
	closed budget.Instant
}

// newBreaker returns a closed breaker. onChange is called with each new state. It must be quick and
// not call the breaker.
func newBreaker(now func() budget.Instant, onChange func(gobreaker.State)) *Breaker {
	b := &Breaker{now: now, onChange: onChange}
	b.Calls = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "store",
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      time.Nanosecond, // always over before heldUntil
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return b.failures.Load() >= TripAfter ||
				c.Requests >= tripSample && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: b.onStateChange,
		IsSuccessful:  b.countResult,
		IsExcluded:    func(err error) bool { return errors.Is(err, errStarved) || background.IsPanic(err) },
	})
	return b
}

// do makes a call, or refuses it with an error for which IsOpen is true. If the call panics, do
// panics with a *background.PanicError and counts neither success nor failure: a bug that one key's requests
// trigger says nothing about the store, and must not cut off all others from it.
func (b *Breaker) do(trial bool, call func() error) error {
	if b.Open.Load() && (!trial || b.TrialIn() > 0) {
		return errOpen
	}
	_, err := b.Calls.Execute(func() (_ struct{}, err error) {
		defer background.Recover(&err)
		return struct{}{}, call()
	})
	background.Rethrow(err)
	return err
}

// countResult reports whether a call's error shows that the store is well, and counts the failures in
// a row.
func (b *Breaker) countResult(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	switch {
	case err == nil:
		b.unlearned.Store(false)
	case otherContents && b.unlearned.Load(), !answered(err) && !InPart(err):
		b.failures.Add(1)
		return false
	}
	b.failures.Store(0)
	return true
}

// Suspects reports whether the last call failed while the breaker is still closed.
func (b *Breaker) Suspects() bool { return b.failures.Load() > 0 && !b.Open.Load() }

// TrialIn returns the time until the next trial of the store; 0: it is due, or the breaker is closed.
func (b *Breaker) TrialIn() time.Duration {
	if !b.Open.Load() {
		return 0
	}
	return max(0, budget.Instant(b.heldUntil.Load()).Sub(b.now()))
}

// TryNow ends the wait, because there is a sign that the store is back.
func (b *Breaker) TryNow() { b.heldUntil.Store(0) }

// IsOpen reports whether an error is the breaker's own and not that of a call.
func IsOpen(err error) bool {
	return errors.Is(err, errOpen) || errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

func (b *Breaker) onStateChange(_ string, from, to gobreaker.State) {
	now := b.now()
	b.mu.Lock()
	switch to {
	case gobreaker.StateOpen:
		b.wait = b.nextWait(from, now)
		jittered := b.wait - b.wait/100*time.Duration(rand.IntN(openJitter+1))
		b.heldUntil.Store(int64(now.Add(jittered)))
	case gobreaker.StateClosed:
		b.closed = now
	}
	b.Open.Store(to != gobreaker.StateClosed) // after heldUntil, which says until when it is open
	b.mu.Unlock()
	b.onChange(to)
}

// nextWait returns how long to stay open this time. A store that is down is tried again and again after the same time, because
// no client waits for a trial. One that fails soon after a good trial may fail under its load, so it gets ever longer pauses.
func (b *Breaker) nextWait(from gobreaker.State, now budget.Instant) time.Duration {
	switch {
	case from == gobreaker.StateHalfOpen:
		return b.wait
	case b.wait == 0 || now.Sub(b.closed) >= MaxOpen:
		return minOpen
	default:
		return min(2*b.wait, MaxOpen)
	}
}
