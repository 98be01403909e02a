package engine

import (
	"context"
	"fmt"
	"time"

	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// The outcome of a check that waited for a share, as the metric names it.
const (
	borrowMoved   = "moved"   // the share came
	borrowExpired = "expired" // it did not come in time
	borrowFull    = "full"    // too many checks wait for it already
	borrowGone    = "gone"    // the caller left
)

// borrow lets a denied request wait if it was denied only because other regions hold what it lacks.
// The denial has told the state machine of the demand, so shares may come. borrow decides the
// request again each time that a share has come, until the rule's wait is over. Once a share has
// come it also waits, one time, for what the bucket still has to earn. It does so without a share, too,
// if no more is missing than rounding keeps from all regions: the share may have come before.
//
// borrow is for single checks, because in a batch all other answers would wait too. again decides
// the group at an index. The error is charge.ErrGone, or that of again.
//
// If the rules have changed what the request is charged while it waited, its denial stands: the limits by which it was
// decided hold no longer.
func (l *Engine) borrow(ctx context.Context, d *charge.Decision, r *charge.Request, again func(i int) error) error {
	groups := d.Groups
	current := func() bool {
		now := time.Now().UnixMilli()
		return d.Renew(l.Policies.At(now), r, now)
	}
	for i := range groups {
		if err := l.borrowFor(ctx, groups, i, current, again); err != nil {
			return err
		}
	}
	return nil
}

// borrowFor does the work of borrow for one group.
func (l *Engine) borrowFor(ctx context.Context, groups []*charge.Transaction, i int, current func() bool, again func(i int) error) error {
	result, waited, rested := "", time.Duration(0), false
	for began := time.Now(); ; waited = time.Since(began) {
		g := groups[i]
		wait, ok := l.mayBorrow(g)
		if g.Shadow || g.Allowed || !ok || wait <= waited {
			break
		}
		rest := earnTime(g)
		if (result == borrowMoved || l.roundedOff(g)) && !rested && rest <= beforeDeadline(ctx, wait-waited) && l.Auth.BeginRest() {
			rested = true
			outcome := l.withoutTurn(func() string { return waitFor(ctx, rest) })
			l.Auth.EndRest()
			if outcome == borrowGone {
				result = borrowGone
				break
			}
			if !current() {
				break
			}
			if err := again(i); err != nil {
				return err
			}
			continue
		}
		arrivals, lent := l.Auth.Await(g, result == borrowMoved)
		if !lent {
			break
		}
		result = borrowFull
		if arrivals != nil {
			result = l.waitForShares(ctx, arrivals, began, wait-waited)
		}
		if result != borrowMoved || !current() {
			break
		}
		if err := again(i); err != nil {
			return err
		}
	}
	if result != "" {
		l.metrics.CountBorrow(result)
	}
	if result == borrowMoved && groups[i].Allowed {
		l.Auth.ClearVainWaits(groups[i])
	}
	if result == borrowGone {
		return fmt.Errorf("%w: %w", charge.ErrGone, ctx.Err())
	}
	return nil
}

// waitForShares waits until every share has come, at most for wait, and returns the outcome. began is when
// the check began to wait for its first share.
func (l *Engine) waitForShares(ctx context.Context, arrivals []*authority.Arrival, began time.Time, wait time.Duration) string {
	result := l.withoutTurn(func() string { return waitArrivals(ctx, arrivals, beforeDeadline(ctx, wait)) })
	vain := time.Duration(0)
	if result == borrowExpired {
		vain = time.Since(began)
	}
	l.Auth.Leave(arrivals, vain)
	return result
}

// withoutTurn gives the turn of a check back while the check waits, so that other checks are decided
// meanwhile. After the wait it takes a turn at once.
func (l *Engine) withoutTurn(wait func() string) string {
	if l.turns == nil {
		return wait()
	}
	l.turns.Leave(1)
	defer l.turns.Retake(1)
	return wait()
}

// mayBorrow returns how long a denied group may wait, and false if waiting would not help one of
// its denied limits.
func (l *Engine) mayBorrow(g *charge.Transaction) (wait time.Duration, ok bool) {
	for i := range g.Charges {
		a, v := &g.Charges[i], &g.Out[i]
		if v.Decision.Allowed {
			continue
		}
		if v.Mode != modes.Store || a.Independent() || a.Rule.BorrowWait == 0 || a.Cost > a.Limit.Capacity {
			return 0, false
		}
		longest := a.Rule.BorrowWait
		if longest == rules.AutoBorrowWait {
			longest = l.Auth.BorrowWait()
		}
		if !ok || longest < wait {
			wait, ok = longest, true
		}
	}
	return wait, ok
}

// earnTime returns the time after which a group's buckets have earned what its denied limits lack.
func earnTime(g *charge.Transaction) (rest time.Duration) {
	for i := range g.Out {
		rest = max(rest, g.Out[i].Decision.RetryAfter)
	}
	return rest
}

// roundedOff reports whether the denied buckets of a group lack no more than what rounding keeps from
// all regions. Shares do not bring it; each bucket earns it.
func (l *Engine) roundedOff(g *charge.Transaction) bool {
	for i := range g.Charges {
		a, v := &g.Charges[i], &g.Out[i]
		if v.Decision.Allowed {
			continue
		}
		if a.Limit.Algorithm.Counts() || a.Cost > v.Found.Bucket.Cap || a.Cost-v.Found.Tokens > l.Auth.RoundedOff(a.Limit.Capacity) {
			return false
		}
	}
	return true
}

// beforeDeadline returns how much of a wait leaves the caller time to get its denial before its
// deadline.
func beforeDeadline(ctx context.Context, wait time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)*3/4)
	}
	return wait
}

// waitFor waits for a time, and returns borrowMoved, or borrowGone if the caller left.
func waitFor(ctx context.Context, wait time.Duration) string {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return borrowMoved
	case <-ctx.Done():
		return borrowGone
	}
}

// waitArrivals waits until every share has come, at most for a time, and returns the outcome.
func waitArrivals(ctx context.Context, arrivals []*authority.Arrival, wait time.Duration) string {
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for _, at := range arrivals {
		select {
		case <-at.Done:
		case <-patience.C:
			return borrowExpired
		case <-ctx.Done():
			return borrowGone
		}
	}
	return borrowMoved
}
