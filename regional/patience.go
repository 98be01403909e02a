package regional

import (
	"errors"
	"time"
)

const (
	// callerPatience is after how long without a sign of life of the store a caller gets
	// its rule's fallback: an answer that comes later than that is worth little to it. The
	// call itself may go on to storeDeadline.
	callerPatience = 40 * time.Millisecond
	// aliveFor: a store that answered a call so lately is slow, not silent.
	aliveFor = callerPatience * 3 / 4
	// lookAgain spaces a patient caller's looks at whether the store is silent by now.
	lookAgain = callerPatience / 4
	// silentPatience is for callers that come while the store is silent: next to nothing.
	// Not nothing, for this process may only now have the CPU to read the answers.
	silentPatience = callerPatience / 10
)

var (
	// errStalled: the store is silent, and nothing was asked of it for this caller.
	errStalled = errors.New("regional: the store has not answered for a while")
	// errGivenUp: the store is silent, and may decide the caller's groups all the same.
	errGivenUp = errors.New("regional: the store did not answer in time")
)

// patience is how long a caller that comes now waits at first: calls may be under way of
// which the store has not answered any for so long that the next is not worth waiting for.
// The caller holds mu.
func (b *batcher) patience(now time.Time) time.Duration {
	if b.running > 0 && now.Sub(b.heard) >= callerPatience {
		return silentPatience
	}
	return callerPatience
}

// sign takes the end of a call for a sign of life, if it is one: a timeout is none, and a
// refusal that came at once is, if the store was asked at all.
func (b *batcher) sign(began time.Time, err error) {
	now := time.Now()
	if isOpen(err) || errors.Is(err, errBusy) || !answered(err) && now.Sub(began) >= callerPatience {
		return
	}
	b.mu.Lock()
	b.heard = now
	b.mu.Unlock()
}

// longer is how much longer a caller waits that was to look at this instant; 0: no longer.
// Nor does a caller give up that looks late: this process had no CPU to wake it, and maybe
// none to read an answer.
func (b *batcher) longer(w *waiter, due time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case !w.sent && now.Sub(w.came) >= queueFor:
		return 0
	case now.Sub(b.heard) < aliveFor, now.Sub(due) >= lookAgain:
		return lookAgain
	}
	return 0
}

// giveUp ends a caller's wait, unless its answer is there by now.
func (b *batcher) giveUp(w *waiter) error {
	select {
	case err := <-w.done:
		return err
	default:
	}
	err := errGivenUp
	if b.leave(w) {
		if err = errStalled; time.Since(w.came) >= queueFor {
			err = errQueued
		}
	}
	b.refused(err)
	return err
}

// anew is the group as it was planned, for a caller whose own may still be in use by a
// call that it gave up: only what no call changes is read.
func (g *group) anew() *group {
	out := &group{cost: g.cost, shadow: g.shadow, peek: g.peek, asks: make([]ask, len(g.asks))}
	for i := range g.asks {
		a := &g.asks[i]
		out.asks[i] = ask{
			rule: a.rule, limit: a.limit, window: a.window, cost: a.cost, enforcement: a.enforcement,
			key: a.key, lasts: a.lasts, override: a.override, own: &a.ticket,
		}
	}
	return out
}
