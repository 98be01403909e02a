package regional

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// maxBorrowers bounds the checks that wait for a share, all keys together: each holds
// a caller, and what a flood of them may cost is bounded by it.
const maxBorrowers = 4096

// What became of a check that waited for a share, as the metric names it.
const (
	borrowMoved   = "moved"   // the share came
	borrowExpired = "expired" // it did not come in time
	borrowFull    = "full"    // too many checks wait for it already
	borrowGone    = "gone"    // the caller left
)

// borrow lets a request that was denied only because the share of a limit that has a
// home is elsewhere wait for it, and asks once more; the denial has told the machine
// of the wish. It is for single checks: in a batch all other answers would wait too.
// again asks once more for the group at an index. The error is errGone, or that of again.
func (l *limiter) borrow(ctx context.Context, groups []*group, again func(i int) error) error {
	for i, g := range groups {
		if g.shadow || g.allowed {
			continue
		}
		wait, ok := g.mayBorrow()
		if !ok {
			continue
		}
		arrivals, lent := l.auth.await(g)
		if !lent {
			continue
		}
		result := borrowFull
		if arrivals != nil {
			result = arrived(ctx, arrivals, within(ctx, wait))
			l.auth.leave(arrivals)
		}
		l.metrics.borrowed(result)
		switch result {
		case borrowMoved:
			return again(i)
		case borrowGone:
			return fmt.Errorf("%w: %w", errGone, ctx.Err())
		}
	}
	return nil
}

// mayBorrow is how long a denied group may wait; false if something denies it that
// waiting does not mend.
func (g *group) mayBorrow() (wait time.Duration, ok bool) {
	for i := range g.asks {
		a, v := &g.asks[i], &g.out[i]
		switch {
		case v.decision.Allowed:
			continue
		case v.mode != modeStore || a.alone() || a.rule.BorrowWait == 0:
			return 0, false
		case !ok || a.rule.BorrowWait < wait:
			wait, ok = a.rule.BorrowWait, true
		}
	}
	return wait, ok
}

// within is how long a caller can wait so that the denial it has still reaches it.
func within(ctx context.Context, wait time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)*3/4)
	}
	return wait
}

// arrived waits until every share has come.
func arrived(ctx context.Context, arrivals []*arrival, wait time.Duration) string {
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for _, at := range arrivals {
		select {
		case <-at.came:
		case <-patience.C:
			return borrowExpired
		case <-ctx.Done():
			return borrowGone
		}
	}
	return borrowMoved
}

// arrival is a share that checks wait for.
type arrival struct {
	key     budget.KeyID
	limit   budget.KeyLimit
	came    chan struct{} // closed when the share has come
	waiters int64
}

// borrowers are the checks that wait for shares. The authority's mu guards them.
type borrowers struct {
	arrivals map[budget.KeyID]*arrival
	waiting  int
}

// await enters a denied group among those that wait for the shares of its keys. lent
// is false if one of these is here: then the limit is used up. No arrivals: too many
// wait already. A share that has come since the denial is not waited for.
func (a *authority) await(g *group) (arrivals []*arrival, lent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	arrivals = []*arrival{}
	now := a.now()
	for i := range g.asks {
		ask := &g.asks[i]
		l := ask.keyLimit()
		if g.out[i].decision.Allowed {
			continue
		}
		if !a.region.Elsewhere(ask.right, l) {
			a.borrow.leave(arrivals)
			return nil, false
		}
		if !a.region.Elsewhere(a.region.Right(ask.key, l, now), l) {
			continue
		}
		at := a.borrow.enter(ask.key, l)
		if at == nil {
			a.borrow.leave(arrivals)
			return nil, true
		}
		arrivals = append(arrivals, at)
	}
	return arrivals, true
}

// leave takes a group from among those that wait.
func (a *authority) leave(arrivals []*arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.borrow.leave(arrivals)
}

// welcome wakes those whose share has come. The caller holds mu.
func (a *authority) welcome(now budget.Instant) {
	for key, at := range a.borrow.arrivals {
		if !a.region.Elsewhere(a.region.Right(key, at.limit, now), at.limit) {
			close(at.came)
			delete(a.borrow.arrivals, key) // who leaves finds it gone
		}
	}
}

// enter adds one who waits for a key; nil if there are too many. No more wait for one
// key than its burst could ever serve.
func (b *borrowers) enter(key budget.KeyID, l budget.KeyLimit) *arrival {
	at := b.arrivals[key]
	if at == nil {
		at = &arrival{key: key, limit: l, came: make(chan struct{})}
	}
	if b.waiting >= maxBorrowers || at.waiters >= l.Capacity/int64(limit.Token) {
		return nil
	}
	at.waiters++
	b.waiting++
	b.arrivals[key] = at
	return at
}

func (b *borrowers) leave(arrivals []*arrival) {
	for _, at := range arrivals {
		at.waiters--
		b.waiting--
		if at.waiters == 0 && b.arrivals[at.key] == at {
			delete(b.arrivals, at.key)
		}
	}
}
