package regional

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// maxBorrowers bounds the checks that wait for a share, for all keys together. Each keeps a caller
// waiting, so this bounds the cost of a flood of them.
const maxBorrowers = 4096

// The outcome of a check that waited for a share, as the metric names it.
const (
	borrowMoved   = "moved"   // the share came
	borrowExpired = "expired" // it did not come in time
	borrowFull    = "full"    // too many checks wait for it already
	borrowGone    = "gone"    // the caller left
)

// borrow lets a denied request wait if it was denied only because other regions hold what it lacks.
// It decides the request again each time that a part of it has come, until the rule's wait is over.
// The denial has already told the state machine of the demand. borrow is for single checks, because
// in a batch all other answers would wait too. again decides the group at an index. The error is
// charge.ErrGone, or that of again.
func (l *limiter) borrow(ctx context.Context, groups []*charge.Transaction, again func(i int) error) error {
	for i := range groups {
		if err := l.borrowFor(ctx, groups, i, again); err != nil {
			return err
		}
	}
	return nil
}

// borrowFor does the work of borrow for one group.
func (l *limiter) borrowFor(ctx context.Context, groups []*charge.Transaction, i int, again func(i int) error) error {
	result, waited := "", time.Duration(0)
	for began := time.Now(); ; waited = time.Since(began) {
		g := groups[i]
		wait, ok := l.mayBorrow(g)
		if g.Shadow || g.Allowed || !ok || wait <= waited {
			break
		}
		arrivals, lent := l.auth.await(g)
		if !lent {
			break
		}
		result = borrowFull
		if arrivals != nil {
			result = l.withoutTurn(func() string { return arrived(ctx, arrivals, within(ctx, wait-waited)) })
			vain := time.Duration(0)
			if result == borrowExpired {
				vain = time.Since(began)
			}
			l.auth.leave(arrivals, vain)
		}
		if result == borrowGone {
			l.metrics.Borrowed(result)
			return fmt.Errorf("%w: %w", charge.ErrGone, ctx.Err())
		}
		if result != borrowMoved {
			break
		}
		if err := again(i); err != nil {
			return err
		}
	}
	if result != "" {
		l.metrics.Borrowed(result)
	}
	return nil
}

// withoutTurn gives the turn of a check back while it waits, because other checks could not be
// decided meanwhile. It then takes the turn again at once, because the share has come.
func (l *limiter) withoutTurn(wait func() string) string {
	if l.intake == nil {
		return wait()
	}
	l.intake.Leave(1)
	l.door.left()
	defer l.intake.Retake(1)
	return wait()
}

// mayBorrow returns how long a denied group may wait, and false if waiting would not help one of
// its denied limits.
func (l *limiter) mayBorrow(g *charge.Transaction) (wait time.Duration, ok bool) {
	for i := range g.Asks {
		a, v := &g.Asks[i], &g.Out[i]
		if v.Decision.Allowed {
			continue
		}
		if v.Mode != modes.Store || a.Alone() || a.Rule.BorrowWait == 0 || a.Cost > a.Limit.Capacity {
			return 0, false
		}
		most := a.Rule.BorrowWait
		if most == rules.AutoBorrowWait {
			most = l.auth.borrowWait()
		}
		if !ok || most < wait {
			wait, ok = most, true
		}
	}
	return wait, ok
}

// The time that a borrow takes. The report with the demand waits for the answer to the report
// before it, which the leader holds for a tenth of a second. Then come up to two round trips and
// two commits. The third round trip, and the rest of baseBorrowWait, are for a busy machine.
const (
	baseBorrowWait = 300 * time.Millisecond
	maxBorrowWait  = 500 * time.Millisecond
)

// borrowWait returns how long a check waits if its rule sets no time.
func (a *authority) borrowWait() time.Duration {
	return min(baseBorrowWait+3*time.Duration(a.roundTrip.Load()), maxBorrowWait)
}

// answered records how long the answer to a report took. held reports that the leader had nothing
// to send and kept the answer for a while. The fastest answer counts, and is forgotten gradually.
func (a *authority) answered(took time.Duration, held bool) {
	if held {
		took -= budget.AnswerHold
	}
	if known := time.Duration(a.roundTrip.Load()); known > 0 {
		took = min(took, known+known/64+time.Millisecond)
	}
	a.roundTrip.Store(int64(max(took, 1)))
}

// within returns how long a caller can wait and still get its denial before its deadline.
func within(ctx context.Context, wait time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)*3/4)
	}
	return wait
}

// arrived waits until every share has come, and returns the outcome.
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

// arrival is a part of a limit that checks wait for.
type arrival struct {
	key     budget.KeyID
	limit   budget.KeyLimit
	held    budget.Share  // the share held meanwhile
	came    chan struct{} // closed when more than that is held
	waiters int64
}

// borrowers are the checks that wait for shares. The authority's mu guards them.
type borrowers struct {
	arrivals map[budget.KeyID]*arrival
	waiting  int
	// unlent holds the keys of which nothing came in time.
	unlent map[budget.KeyID]unlent
}

// unlent is a key of which nothing came while checks waited. The leader knows of the demand, and
// sends what becomes free. One wait in vain says little, because the share may just have been late.
// After the second one, checks of the key are denied at once for leastUnlent, and after each later
// one for twice as long as before. The zero value is a key that no check has waited for.
type unlent struct {
	noted budget.Instant // when the last wait in vain ended
	until budget.Instant // no check waits before
	next  time.Duration  // for how long no check waits after the next wait in vain
}

const (
	leastUnlent, mostUnlent = 250 * time.Millisecond, 2 * time.Second
	// unlentKnown is for how long after that the waits in vain count.
	unlentKnown = 10 * time.Second
	// maxUnlent bounds the keys that are remembered as unlent.
	maxUnlent = 4096
)

// await adds a denied group to those that wait for what its keys lack. lent is false if nothing can
// be had of one of these keys, because the limit is used up. arrivals is nil if too many groups
// wait already. A share that has come since the denial is not waited for.
func (a *authority) await(g *charge.Transaction) (arrivals []*arrival, lent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	arrivals = []*arrival{}
	now := a.now()
	for i := range g.Asks {
		ask := &g.Asks[i]
		l := ask.KeyLimit()
		if g.Out[i].Decision.Allowed {
			continue
		}
		if !a.mayCome(ask.Key, ask.Right, l, now) {
			a.borrow.leave(arrivals)
			return nil, false
		}
		if grown(ask.Right.Effective(), a.region.Right(ask.Key, l, now).Effective()) {
			continue
		}
		at := a.borrow.enter(ask.Key, l, ask.Right.Effective())
		if at == nil {
			a.borrow.leave(arrivals)
			return nil, true
		}
		arrivals = append(arrivals, at)
	}
	return arrivals, true
}

// mayCome reports whether more of a key than a right holds may come from elsewhere soon. The caller
// holds mu.
func (a *authority) mayCome(key budget.KeyID, right budget.Right, l budget.KeyLimit, now budget.Instant) bool {
	return a.region.Elsewhere(right, l) && now >= a.borrow.unlent[key].until
}

// grown reports whether after holds more of a limit's burst or rate than before.
func grown(before, after budget.Share) bool { return !after.Within(before) }

// leave removes a group from those that wait. vain is how long it has waited if nothing came, and 0
// otherwise.
func (a *authority) leave(arrivals []*arrival, vain time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if vain > 0 {
		now := a.now()
		for _, at := range arrivals {
			select {
			case <-at.came:
			default:
				a.borrow.waitedInVain(at.key, now.Add(-vain), now)
			}
		}
	}
	a.borrow.leave(arrivals)
}

// welcome wakes the checks whose share has come. The caller holds mu.
func (a *authority) welcome(changed []budget.ShareResult, now budget.Instant) {
	for i := range changed {
		key := changed[i].Key
		delete(a.borrow.unlent, key)
		at := a.borrow.arrivals[key]
		if at != nil && grown(at.held, a.region.Right(key, at.limit, now).Effective()) {
			close(at.came)
			delete(a.borrow.arrivals, key) // a check that leaves does not find it any more
		}
	}
}

// enter adds a check that waits for a key, and returns nil if there are too many. The checks that
// wait for one key are at most as many as its burst could ever serve.
func (b *borrowers) enter(key budget.KeyID, l budget.KeyLimit, held budget.Share) *arrival {
	at := b.arrivals[key]
	if at == nil {
		at = &arrival{key: key, limit: l, held: held, came: make(chan struct{})}
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

// waitedInVain records that a wait for a key, which began at began, ends now without a share.
// Checks that wait together count as one wait. If there are too many keys, any one is forgotten.
func (b *borrowers) waitedInVain(key budget.KeyID, began, now budget.Instant) {
	was, known := b.unlent[key]
	switch {
	case known && began < was.noted:
		return
	case known && began < was.until.Add(unlentKnown):
		next := max(was.next, leastUnlent)
		b.unlent[key] = unlent{noted: now, until: now.Add(next), next: min(2*next, mostUnlent)}
		return
	case len(b.unlent) >= maxUnlent && !known:
		for k := range b.unlent {
			delete(b.unlent, k)
			break
		}
	}
	b.unlent[key] = unlent{noted: now, until: now}
}
