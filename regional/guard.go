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
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/telemetry"
	"aliquot/regional/store"
)

// Store keeps one record for each key of the region and decides atomically. It is a Redis, a Redis
// Cluster or the embedded store. Safe for concurrent use.
type Store interface {
	// Epoch returns the identity of the store's contents, and creates one if there is none.
	Epoch(ctx context.Context) (string, error)
	// Take decides groups in order. now is the store's clock, in microseconds.
	Take(ctx context.Context, epoch string, groups []lua.Group) (results []lua.Result, now int64, err error)
	// Apply makes share changes, any number of them or none.
	Apply(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error)
	// ApplyLease makes share changes, any number of them or none, and remembers that a daemon of
	// the region was heard. So no other daemon takes the floor back for a while.
	ApplyLease(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error)
	// Reserve does the Take of one request's groups, remembers it under a name, and does it only
	// once for that name. It returns lua.ErrNoRoom if there is no room to remember it.
	Reserve(ctx context.Context, epoch string, groups []lua.Group, r lua.Reservation) (out lua.Reserved, now int64, err error)
	// Reservation returns the reservation that is remembered under a key, or nil if there is none.
	Reservation(ctx context.Context, key string) (*lua.Kept, error)
	// Settle ends a reservation, once.
	Settle(ctx context.Context, epoch string, s lua.Settlement) (out lua.Settled, now int64, err error)
	// Adjust charges what was used without a charge, at most down to the debt below 0; see
	// limit.Adjust. It must not be repeated.
	Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error)
	Close() error
}

const (
	// storeDeadline bounds one store call from its sending. A stalled store must not cost more than
	// a check is worth waiting for.
	storeDeadline = storeclock.MaxFlight / 5
	// learnDeadline bounds learning the store's contents, which takes three round trips.
	learnDeadline = 2 * storeDeadline
	// heardDeadline bounds telling the store that the region is heard. With a Redis Cluster the
	// first time takes a quarter of a second.
	heardDeadline = 5 * storeDeadline
	// applyDeadline bounds the application of one part of a directive, some hundred changes.
	applyDeadline = time.Second
	// starvedAfter is how long after its deadline a call must end to count as ended late. This
	// process then had no CPU to end it sooner, nor to read a reply.
	starvedAfter = storeDeadline / 5
	// starvedFor bounds that excuse. A store that has answered nothing for so long is unwell, even
	// if this process lacks CPU.
	starvedFor = time.Second
	// maxCalls bounds the calls under way, also those that wait for a connection. The batcher has
	// few calls. Each caller that reserves or settles has one of its own.
	maxCalls = 1024
)

// errStarved is wrapped by timeouts that this process may have caused.
var errStarved = errors.New("regional: this process had no CPU to serve a store call in time")

// guard makes all calls of the store. It sets their deadlines, has the breaker, takes readings of
// the store's clock and counts metrics. Safe for concurrent use.
type guard struct {
	store   Store
	auth    *authority
	breaker *breaker
	metrics *telemetry.Metrics
	now     func() budget.Instant
	// heard is when the store last answered a take; 0: never.
	heard atomic.Int64
	// failure is the error of the store's last failed take; nil: none failed.
	failure atomic.Pointer[error]
	// failed is called after each failed call, once the breaker has counted it.
	failed func()
	// underWay counts the calls that callers wait for.
	underWay atomic.Int64
	retries  retryBudget
	// others says whether this daemon may spend by the store at all.
	others *others
	// bugs records panics of calls for which no caller waits.
	bugs *background.Panics
}

// newGuard returns a guard. onChange is called whenever the breaker changes between closed and not
// closed, with the store's last error. onFailure is called after each failed call.
func newGuard(s Store, auth *authority, m *telemetry.Metrics, onChange func(open bool, cause error), onFailure func()) *guard {
	g := &guard{store: s, auth: auth, metrics: m, now: auth.now, failed: onFailure}
	g.breaker = newBreaker(auth.now, func(state gobreaker.State) {
		m.BreakerIs(state)
		var cause error
		if last := g.failure.Load(); last != nil {
			cause = *last
		}
		onChange(state != gobreaker.StateClosed, cause)
	})
	return g
}

// answered reports whether a call's error shows that the store is well. The finding of other
// contents than expected is an answer, and wrong arguments are this daemon's fault.
func answered(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	_, late := errors.AsType[*lua.LateError](err)
	return err == nil || otherContents || late || errors.Is(err, lua.ErrInvalid) || errors.Is(err, lua.ErrNoRoom)
}

// inPart reports whether an error is the failure of one node of several. The breaker of the whole
// store ignores it, because the node has a breaker of its own.
func inPart(err error) bool {
	_, node := errors.AsType[*store.NodeError](err)
	return node
}

// take decides groups under the contents named by epoch. word builds them once the breaker has let
// the call pass. storeNow is the store's clock at the decision.
func (g *guard) take(ctx context.Context, epoch string, word func() []lua.Group) (results []lua.Result, storeNow int64, err error) {
	return g.takeAs(ctx, "take", epoch, word)
}

// opProbe is a take that tries a store that did not answer. No client waits for it.
const opProbe = "probe"

func (g *guard) takeAs(ctx context.Context, op, epoch string, word func() []lua.Group) (results []lua.Result, storeNow int64, err error) {
	err = g.call(ctx, op, epoch, func(ctx context.Context) (now int64, err error) {
		groups := word()
		g.metrics.CallGroups.Observe(float64(len(groups)))
		results, storeNow, err = g.store.Take(ctx, epoch, groups)
		return storeNow, err
	})
	if err != nil {
		return nil, 0, err
	}
	return results, storeNow, nil
}

// call makes a store call for a waiting caller, if the breaker lets it pass. do returns the store's
// clock, or 0 if the answer lacks it. A caller that goes away does not end the call, because a
// connection would be lost for nothing.
func (g *guard) call(ctx context.Context, op, epoch string, do func(context.Context) (now int64, err error)) error {
	defer g.underWay.Add(-1)
	if op != opProbe && op != opRoster && !g.others.spends() {
		return errWaits
	}
	if g.underWay.Add(1) > maxCalls {
		g.metrics.StoreErrors.WithLabelValues(op, reason(errBusy)).Inc()
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
		g.metrics.StoreErrors.WithLabelValues(op, reason(err)).Inc()
		if op != opProbe && g.breaker.suspects() {
			g.failed()
		}
	}
	return err
}

// whileClosed returns ask, with errOpen as the result while the breaker is open. A store that only
// the daemon's own probe calls needs no queue, and a decision without it needs no other goroutine.
func (g *guard) whileClosed(ask func(context.Context, []*charge.Transaction) error) func(context.Context, []*charge.Transaction) error {
	return func(ctx context.Context, groups []*charge.Transaction) error {
		if g.breaker.open.Load() {
			g.turnedAway(errOpen)
			return errOpen
		}
		return ask(ctx, groups)
	}
}

// judge returns the error of a call that was sent at sent and ended at now. It wraps a timeout that
// this process has caused with errStarved, because such a timeout says nothing about the store and
// must not open the breaker.
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

// apply makes share changes, and tells the store that the region is heard. It does not pass the
// breaker, because directives are rare and a failed one costs the session.
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
		g.metrics.StoreErrors.WithLabelValues("apply", reason(err)).Inc()
	}
	return applied, now, err
}

// opClock is a call that only asks the store for its clock.
const opClock = "clock"

// readClock asks the store for its clock.
func (g *guard) readClock(ctx context.Context, epoch string) error {
	return g.call(ctx, opClock, epoch, func(ctx context.Context) (int64, error) {
		_, now, err := g.store.Apply(ctx, epoch, nil)
		return now, err
	})
}

// learn asks which contents the store has, and tells the state machine.
func (g *guard) learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnDeadline)
	defer cancel()
	sent := g.now()
	var epoch string
	err := g.safely("epoch", func() (err error) {
		epoch, err = g.store.Epoch(ctx)
		return err
	})
	g.metrics.StoreSeconds.WithLabelValues("epoch").Observe(g.now().Sub(sent).Seconds())
	if err != nil {
		g.metrics.StoreErrors.WithLabelValues("epoch", reason(err)).Inc()
		return err
	}
	g.auth.storeEpoch(epoch)
	return nil
}

// safely makes a call that no client waits for. A panic is reported, and becomes errBroken.
func (g *guard) safely(op string, do func() error) (err error) {
	if g.bugs.Guard("the store's "+op, func() { err = do() }) {
		return errBroken
	}
	return err
}

// done records the end of a call in the metrics and takes the reading of the store's clock. It
// returns the instant of the end.
func (g *guard) done(op, epoch string, sent budget.Instant, now int64, err error) (received budget.Instant) {
	received = g.now()
	g.metrics.StoreSeconds.WithLabelValues(op).Observe(received.Sub(sent).Seconds())
	if late, ok := errors.AsType[*lua.LateError](err); ok {
		g.auth.clockWasSet(epoch, storeclock.Sample{Store: late.Now, Sent: sent, Received: received})
	}
	if err == nil {
		g.auth.sample(epoch, storeclock.Sample{Store: now, Sent: sent, Received: received})
	}
	return received
}

// redisReasons are the error prefixes of Redis that deserve a label of their own.
var redisReasons = [...]string{
	"OOM", "READONLY", "NOREPLICAS", "BUSY", "LOADING", "MISCONF", "CLUSTERDOWN",
	"TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM",
}

// reason returns the label of a store error, from a fixed set.
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
	for _, words := range []string{"unknown command", "running script", "compiling script", "user_script"} {
		if strings.Contains(err.Error(), words) {
			return "scripts"
		}
	}
	return "other"
}

// turnedAway counts checks that the store did not decide although no call to it failed as a whole.
func (g *guard) turnedAway(err error) {
	g.metrics.StoreErrors.WithLabelValues("take", reason(err)).Inc()
}
