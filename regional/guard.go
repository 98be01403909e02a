package regional

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store"
)

// Store keeps one record for each key of the region and decides atomically: Redis,
// or the embedded store. Safe for concurrent use.
type Store interface {
	// Epoch learns, or mints, the identity of the store's contents.
	Epoch(ctx context.Context) (string, error)
	// Take decides groups in order. now is the store's clock, microseconds.
	Take(ctx context.Context, epoch string, groups []lua.Group) (results []lua.Result, now int64, err error)
	// Apply makes share changes, any number of them or none.
	Apply(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error)
	// ApplyLease makes share changes, any number of them or none, and remembers that
	// a daemon of the region was heard: no other takes the floor back for a while.
	ApplyLease(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error)
	// Reserve is Take of one request's groups, remembered under a name and done once by
	// it. lua.ErrNoRoom: there is no room to remember it.
	Reserve(ctx context.Context, epoch string, groups []lua.Group, r lua.Reservation) (out lua.Reserved, now int64, err error)
	// Reservation is what is remembered under a key, nil if nothing is.
	Reservation(ctx context.Context, key string) (*lua.Kept, error)
	// Settle ends a reservation, once.
	Settle(ctx context.Context, epoch string, s lua.Settlement) (out lua.Settled, now int64, err error)
	// Adjust charges what was used all the same, at most the debt below nothing; see limit.Adjust. It
	// is not to be made twice.
	Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error)
	Close() error
}

const (
	// storeDeadline bounds one store call from its sending: a stalled store must
	// not cost more than a check is worth waiting for.
	storeDeadline = 100 * time.Millisecond
	// learnDeadline bounds learning the store's contents, three round trips.
	learnDeadline = 2 * storeDeadline
	// heardDeadline bounds telling the store that the region is heard: before a Redis Cluster
	// the first time takes a quarter of a second.
	heardDeadline = 5 * storeDeadline
	// applyDeadline bounds the application of one part of a directive, some hundred changes.
	applyDeadline = time.Second
	// starvedAfter: a call that ends this long after its deadline was ended late,
	// since this process had no CPU to do it sooner; nor had it to read a reply.
	starvedAfter = storeDeadline / 5
	// starvedFor bounds that excuse: a store that answered nothing for so long is
	// unwell, whoever else is.
	starvedFor = time.Second
	// maxCalls bounds the calls under way, those that wait for a connection included. The
	// batcher's are few; those that reserve and settle are one for each caller.
	maxCalls = 1024
)

// errStarved is wrapped by timeouts that this process may be to blame for.
var errStarved = errors.New("regional: this process had no CPU to serve a store call in time")

// guard stands before the store: deadline, breaker, the clock's samples, and
// metrics. Safe for concurrent use.
type guard struct {
	store   Store
	auth    *authority
	breaker *breaker
	metrics *metrics
	now     func() budget.Instant
	// heard is when the store last answered a take; 0: never.
	heard atomic.Int64
	// failure is why the store's last failed take failed; nil before.
	failure atomic.Pointer[error]
	// failed is told of each call that failed, when the breaker has counted it.
	failed func()
	// underWay counts the calls that callers wait for.
	underWay atomic.Int64
	retries  retryBudget
	// others says whether this daemon may spend by the store at all.
	others *others
	// bugs is told of calls that panicked, where no caller is.
	bugs *panics
}

// newGuard makes a guard. onChange is told whenever the breaker changes between
// closed and not, with the store's last error. onFailure is told of each call that failed.
func newGuard(s Store, auth *authority, m *metrics, onChange func(open bool, cause error), onFailure func()) *guard {
	g := &guard{store: s, auth: auth, metrics: m, now: auth.now, failed: onFailure}
	g.breaker = newBreaker(auth.now, func(state gobreaker.State) {
		m.breakerIs(state)
		var cause error
		if last := g.failure.Load(); last != nil {
			cause = *last
		}
		onChange(state != gobreaker.StateClosed, cause)
	})
	return g
}

// answered tells whether the store is well: other contents than expected are an
// answer, and wrong arguments are our fault.
func answered(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	_, late := errors.AsType[*lua.LateError](err)
	return err == nil || otherContents || late || errors.Is(err, lua.ErrInvalid) || errors.Is(err, lua.ErrNoRoom)
}

// inPart tells the failure of one node of several, which the breaker before the whole
// store has nothing to do with: the node has its own.
func inPart(err error) bool {
	_, node := errors.AsType[*store.NodeError](err)
	return node
}

// take decides groups under the contents named by epoch; they are worded when the
// breaker has let the call pass. storeNow is the store's clock then.
func (g *guard) take(ctx context.Context, epoch string, word func() []lua.Group) (results []lua.Result, storeNow int64, err error) {
	return g.takeAs(ctx, "take", epoch, word)
}

// opProbe is a take that no client waits for, and that tries a store that did not answer.
const opProbe = "probe"

func (g *guard) takeAs(ctx context.Context, op, epoch string, word func() []lua.Group) (results []lua.Result, storeNow int64, err error) {
	err = g.call(ctx, op, epoch, func(ctx context.Context) (now int64, err error) {
		groups := word()
		g.metrics.callGroups.Observe(float64(len(groups)))
		results, storeNow, err = g.store.Take(ctx, epoch, groups)
		return storeNow, err
	})
	if err != nil {
		return nil, 0, err
	}
	return results, storeNow, nil
}

// call makes a call of the store that a caller waits for, if the breaker lets it pass;
// do returns the store's clock, 0 if it was not told. A caller that goes away does not
// take the call with it: a connection would be lost for nothing.
func (g *guard) call(ctx context.Context, op, epoch string, do func(context.Context) (now int64, err error)) error {
	defer g.underWay.Add(-1)
	if op != opProbe && op != opRoster && !g.others.spends() {
		return errWaits
	}
	if g.underWay.Add(1) > maxCalls {
		g.metrics.storeErrors.WithLabelValues(op, reason(errBusy)).Inc()
		return errBusy
	}
	err := g.breaker.do(op == opProbe, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeDeadline)
		defer cancel()
		sent := g.now()
		now, err := do(ctx)
		return g.judge(sent, g.done(op, epoch, sent, now, err), err)
	})
	if err != nil {
		g.metrics.storeErrors.WithLabelValues(op, reason(err)).Inc()
		if op != opProbe && g.breaker.suspects() {
			g.failed()
		}
	}
	return err
}

// whileClosed is a way to the store that is closed while the breaker is open: a store that
// nobody but the daemon's own probe asks has no queue, and what decides without it needs no
// other goroutine.
func (g *guard) whileClosed(ask func(context.Context, []*group) error) func(context.Context, []*group) error {
	return func(ctx context.Context, groups []*group) error {
		if g.breaker.open.Load() {
			g.metrics.turnedAway(errOpen)
			return errOpen
		}
		return ask(ctx, groups)
	}
}

// judge tells timeouts that this process is to blame for from the store's own, of a call
// that has ended now: they say nothing about the store, and must not open the breaker.
func (g *guard) judge(sent, now budget.Instant, err error) error {
	if answered(err) {
		g.heard.Store(int64(now))
		return err
	}
	late := now.Sub(sent) - storeDeadline
	if reason(err) == "timeout" && late > starvedAfter && now.Sub(budget.Instant(g.heard.Load())) < starvedFor {
		return fmt.Errorf("%w, by %v: %w", errStarved, late, err)
	}
	g.failure.Store(&err)
	return err
}

// apply makes share changes, and tells the store that the region is heard. It does
// not pass the breaker: a directive is rare, and failing it costs the session.
func (g *guard) apply(ctx context.Context, within time.Duration, epoch string, changes []lua.Change) ([]limit.Applied, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent := g.now()
	var applied []limit.Applied
	var now int64
	err := g.safely("apply", func() (err error) {
		applied, now, err = g.store.ApplyLease(ctx, epoch, changes)
		return err
	})
	g.done("apply", epoch, sent, now, err)
	if err != nil {
		g.metrics.storeErrors.WithLabelValues("apply", reason(err)).Inc()
	}
	return applied, now, err
}

// opClock is a call that asks the store for its clock alone.
const opClock = "clock"

// readClock asks the store for its clock.
func (g *guard) readClock(ctx context.Context, epoch string) error {
	return g.call(ctx, opClock, epoch, func(ctx context.Context) (int64, error) {
		_, now, err := g.store.Apply(ctx, epoch, nil)
		return now, err
	})
}

// learn asks which contents the store has and tells the machine.
func (g *guard) learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnDeadline)
	defer cancel()
	sent := g.now()
	var epoch string
	err := g.safely("epoch", func() (err error) {
		epoch, err = g.store.Epoch(ctx)
		return err
	})
	g.metrics.storeSeconds.WithLabelValues("epoch").Observe(g.now().Sub(sent).Seconds())
	if err != nil {
		g.metrics.storeErrors.WithLabelValues("epoch", reason(err)).Inc()
		return err
	}
	g.auth.storeEpoch(epoch)
	return nil
}

// safely makes a call that no client waits for. A panic is told of, and becomes errBroken.
func (g *guard) safely(op string, do func() error) (err error) {
	if g.bugs.guard("the store's "+op, func() { err = do() }) {
		return errBroken
	}
	return err
}

// done has noted that a call ended, and tells when.
func (g *guard) done(op, epoch string, sent budget.Instant, now int64, err error) (received budget.Instant) {
	received = g.now()
	g.metrics.storeSeconds.WithLabelValues(op).Observe(received.Sub(sent).Seconds())
	if late, ok := errors.AsType[*lua.LateError](err); ok {
		g.auth.clockWasSet(epoch, sample{store: late.Now, sent: sent, received: received})
	}
	if err == nil {
		g.auth.sample(epoch, sample{store: now, sent: sent, received: received})
	}
	return received
}

// redisReasons are the error prefixes of Redis that are worth a label of their own.
var redisReasons = [...]string{
	"OOM", "READONLY", "NOREPLICAS", "BUSY", "LOADING", "MISCONF", "CLUSTERDOWN",
	"TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM",
}

// reason is a label for an error of the store, from a fixed set.
func reason(err error) string {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	_, late := errors.AsType[*lua.LateError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case otherContents:
		return "epoch"
	case late:
		return "late"
	case errors.Is(err, lua.ErrInvalid):
		return "invalid"
	case errors.Is(err, lua.ErrNoRoom):
		return "full"
	case isOpen(err):
		return "breaker"
	case errors.Is(err, errStarved):
		return "starved"
	case errors.Is(err, errWaits):
		return "waits"
	case errors.Is(err, errBusy):
		return "overload"
	case errors.Is(err, errQueued):
		return "queue"
	case errors.Is(err, errStalled), errors.Is(err, errGivenUp):
		return "stall"
	case errors.Is(err, store.ErrReply):
		return "reply"
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return "timeout"
	case isNet, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, redis.ErrClosed):
		return "connection"
	}
	for _, prefix := range redisReasons {
		if strings.Contains(err.Error(), prefix+" ") {
			return strings.ToLower(prefix)
		}
	}
	return "other"
}
