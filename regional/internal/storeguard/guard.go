// Package storeguard stands before the store: deadlines, the breaker, calls that checks share, and
// retries. bounds.go has the bounds and timeouts of all of them.
package storeguard

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
	// Reserve decides the groups of one request as Take does, and remembers them under a name. It does
	// so only once for that name. It returns lua.ErrNoRoom if there is no room to remember them.
	Reserve(ctx context.Context, epoch string, groups []lua.Group, r lua.Reservation) (out lua.Reserved, now int64, err error)
	// Reservation returns the reservation that is remembered under a key, or nil if there is none.
	Reservation(ctx context.Context, key string) (*lua.Kept, error)
	// Settle ends a reservation, once.
	Settle(ctx context.Context, epoch string, s lua.Settlement) (out lua.Settled, now int64, err error)
	// Adjust charges a use that no charge preceded. Tokens go no lower than the debt of each part
	// below 0; see limit.Adjust. The caller must not repeat it.
	Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error)
	// Close ends the calls that are under way.
	Close() error
}

// errStarved is wrapped by timeouts that this process may have caused.
var errStarved = errors.New("regional: this process had no CPU to serve a store call in time")

// Observer learns what calls show of the store.
type Observer interface {
	// StoreEpoch records which contents the store has, and reports whether they have changed.
	StoreEpoch(epoch string) (changed bool)
	// Sample takes a reading of the clock of the store that had the given contents. stopped: this machine's clock
	// may have stopped for a while.
	Sample(epoch string, s storeclock.Sample) (stopped bool)
	// ClockWasSet drops the readings of the store's clock and starts again from one sample. stopped is as in Sample.
	ClockWasSet(epoch string, s storeclock.Sample) (stopped bool)
}

// Guard makes all calls to the store. It sets their deadlines, asks the breaker, reads the store's
// clock from the answers, and counts metrics. Safe for concurrent use.
type Guard struct {
	Store    Store
	observer Observer
	Breaker  *Breaker
	metrics  *telemetry.Metrics
	now      func() budget.Instant
	// lastReply is when the store last answered a take; 0: never.
	lastReply atomic.Int64
	// failure is the error of the store's last failed take; nil: none failed.
	failure atomic.Pointer[error]
	// doubts counts the calls that found other contents than they expected. settled is how many of them
	// came before the contents were asked for that were learned last.
	doubts, settled atomic.Int64
	late            lateness
	changed         func(down bool, cause error)
	// failed is called after each failed call, once the breaker has counted it.
	failed func()
	// inFlight counts the calls that callers wait for.
	inFlight atomic.Int64
	Retries  retryBudget
	spends   func() bool
	bugs     *background.Panics
}

// Config is what a guard works with. All fields are required but Spends and Bugs.
type Config struct {
	Store    Store
	Observer Observer
	Now      func() budget.Instant // the boot clock
	Metrics  *telemetry.Metrics
	// Changed is called with the store's last error whenever the breaker changes, or callers begin or cease to
	// be answered without the store for a while. down: they are, or the breaker is not closed.
	Changed func(down bool, cause error)
	// Failed is called after each failed call.
	Failed func()
	// Spends reports whether this daemon may spend by the store at all; nil: it may.
	Spends func() bool
	// Bugs records panics of calls for which no caller waits.
	Bugs *background.Panics
}

// New returns a guard whose breaker is closed.
func New(c Config) *Guard {
	g := &Guard{changed: c.Changed, Store: c.Store, observer: c.Observer, metrics: c.Metrics, now: c.Now, failed: c.Failed, spends: c.Spends, bugs: c.Bugs}
	g.Breaker = newBreaker(c.Now, func(state gobreaker.State) {
		c.Metrics.SetBreaker(state)
		g.late.mu.Lock()
		defer g.late.mu.Unlock()
		g.tellLocked()
	})
	return g
}

// answered reports whether a call's error shows that the store is well. An error about other contents
// than expected is an answer, as long as they can be learned; see Breaker.unlearned. Wrong arguments are
// this daemon's fault.
func answered(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	_, late := errors.AsType[*lua.LateError](err)
	return err == nil || otherContents || late || errors.Is(err, lua.ErrInvalid) || errors.Is(err, lua.ErrNoRoom)
}

// InPart reports whether an error is the failure of one node of several. The breaker of the whole
// store ignores it, because the node has a breaker of its own.
func InPart(err error) bool {
	_, node := errors.AsType[*store.NodeError](err)
	return node
}

// ChargedNothing reports whether an error means that the store has charged nothing, and will charge nothing.
func ChargedNothing(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	_, late := errors.AsType[*lua.LateError](err)
	return otherContents || late || errors.Is(err, lua.ErrInvalid) || errors.Is(err, lua.ErrNoRoom) || IsOpen(err) ||
		errors.Is(err, ErrBusy) || store.ChargedNothing(err)
}

// Take decides groups under the contents named by epoch. It calls build for them once the breaker has
// let the call pass. storeNow is the store's clock at the decision, in microseconds. A failed call of
// several servers may have results too; see store.Cluster.Take.
func (g *Guard) Take(ctx context.Context, epoch string, build func() []lua.Group) (results []lua.Result, storeNow int64, err error) {
	return g.TakeAs(ctx, "take", epoch, build)
}

// OpProbe is a take that tries a store that did not answer. No client waits for it.
const OpProbe = "probe"

// TakeAs is Take under another name of the operation, for the metrics.
func (g *Guard) TakeAs(ctx context.Context, op, epoch string, build func() []lua.Group) (results []lua.Result, storeNow int64, err error) {
	err = g.Call(ctx, op, epoch, func(ctx context.Context) (now int64, err error) {
		groups := build()
		g.metrics.CallGroups.Observe(float64(len(groups)))
		results, storeNow, err = g.Store.Take(ctx, epoch, groups)
		return storeNow, err
	})
	return results, storeNow, err
}

// Call makes a store call for a waiting caller, if the breaker lets it pass. do returns the store's
// clock in microseconds, or 0 if the answer lacks it. The call goes on if the caller leaves, because
// its end would cost a connection.
func (g *Guard) Call(ctx context.Context, op, epoch string, do func(context.Context) (now int64, err error)) error {
	if op != OpProbe && op != OpRoster && g.spends != nil && !g.spends() {
		return errMayNotSpend
	}
	defer g.inFlight.Add(-1)
	if g.inFlight.Add(1) > maxCalls {
		g.metrics.StoreErrors.WithLabelValues(op, Reason(ErrBusy)).Inc()
		return ErrBusy
	}
	err := g.Breaker.do(op == OpProbe, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Deadline)
		defer cancel()
		sent := g.now()
		now, err := do(ctx)
		return g.classify(sent, g.recordCall(op, epoch, sent, now, err), err)
	})
	if err != nil {
		g.metrics.StoreErrors.WithLabelValues(op, Reason(err)).Inc()
		if op != OpProbe && g.Breaker.Suspects() {
			g.failed()
		}
	}
	return err
}

// WhileClosed returns a function that calls send while the breaker is closed, and returns errOpen
// otherwise. So no check waits in a queue for a store that only the daemon's own probe calls.
func (g *Guard) WhileClosed(send func(context.Context, []*charge.Transaction) error) func(context.Context, []*charge.Transaction) error {
	return func(ctx context.Context, groups []*charge.Transaction) error {
		if g.Silent() {
			g.CountRefused(errOpen)
			return errOpen
		}
		err := send(ctx, groups)
		if err == nil {
			g.inTime()
		}
		return err
	}
}

// classify returns the error of a call that was sent at sent and ended at now. It wraps a timeout
// with errStarved if this process has caused it: such a timeout says nothing about the store, and
// must not open the breaker.
func (g *Guard) classify(sent, now budget.Instant, err error) error {
	if answered(err) {
		g.lastReply.Store(int64(now))
		if now.Sub(sent) <= CallerPatience {
			g.inTime()
		}
		return err
	}
	late := now.Sub(sent) - Deadline
	if Reason(err) == "timeout" && late > starvedAfter && now.Sub(budget.Instant(g.lastReply.Load())) < starvedFor {
		return fmt.Errorf("%w, by %v: %w", errStarved, late, err)
	}
	g.failure.Store(&err)
	return err
}

// Silent reports whether the breaker is not closed: the store did not answer recently.
func (g *Guard) Silent() bool { return g.Breaker.Open.Load() }

// Apply makes share changes, and tells the store that the region is heard. It ignores the breaker,
// because directives are rare and a failed one costs the session. within bounds the call.
func (g *Guard) Apply(ctx context.Context, within time.Duration, epoch string, changes []lua.Change) ([]limit.Applied, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent := g.now()
	var applied []limit.Applied
	var now int64
	err := g.safely("apply", func() (err error) {
		applied, now, err = g.Store.ApplyLease(ctx, epoch, changes)
		return err
	})
	g.recordCall("apply", epoch, sent, now, err)
	if err != nil {
		g.metrics.StoreErrors.WithLabelValues("apply", Reason(err)).Inc()
	}
	return applied, now, err
}

// opClock is a call that only asks the store for its clock.
const opClock = "clock"

// ReadClock asks the store for its clock.
func (g *Guard) ReadClock(ctx context.Context, epoch string) error {
	return g.Call(ctx, opClock, epoch, func(ctx context.Context) (int64, error) {
		_, now, err := g.Store.Apply(ctx, epoch, nil)
		return now, err
	})
}

// Doubted reports whether a call found other contents than it expected, and nobody has learned them
// since. A call that names the contents of before would do nothing.
func (g *Guard) Doubted() bool { return g.doubts.Load() > g.settled.Load() }

// Learn asks which contents the store has, and tells the state machine. While that fails, answers about other
// contents count as failures of the store, and open the breaker.
func (g *Guard) Learn(ctx context.Context) error {
	doubts := g.doubts.Load()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnDeadline)
	defer cancel()
	sent := g.now()
	var epoch string
	err := g.safely("epoch", func() (err error) {
		epoch, err = g.Store.Epoch(ctx)
		return err
	})
	g.metrics.StoreSeconds.WithLabelValues("epoch").Observe(g.now().Sub(sent).Seconds())
	if err != nil {
		g.metrics.StoreErrors.WithLabelValues("epoch", Reason(err)).Inc()
		g.failure.Store(&err)
		g.Breaker.unlearned.Store(true)
		return err
	}
	g.observer.StoreEpoch(epoch)
	g.settled.Store(doubts)
	if g.Breaker.unlearned.Swap(false) {
		g.Breaker.TryNow()
	}
	return nil
}

// safely makes a call that no client waits for. A panic is reported, and becomes ErrBroken.
func (g *Guard) safely(op string, do func() error) (err error) {
	if g.bugs.Guard("the store's "+op, func() { err = do() }) {
		return ErrBroken
	}
	return err
}

// recordCall records the end of a call in the metrics and the reading of the store's clock. It
// returns the instant of the end.
func (g *Guard) recordCall(op, epoch string, sent budget.Instant, now int64, err error) (received budget.Instant) {
	received = g.now()
	g.metrics.StoreSeconds.WithLabelValues(op).Observe(received.Sub(sent).Seconds())
	if _, other := errors.AsType[*lua.EpochError](err); other {
		g.doubts.Add(1)
	}
	if late, ok := errors.AsType[*lua.LateError](err); ok {
		g.observer.ClockWasSet(epoch, storeclock.Sample{Store: late.Now, Sent: sent, Received: received})
	}
	if err == nil {
		g.observer.Sample(epoch, storeclock.Sample{Store: now, Sent: sent, Received: received})
	}
	return received
}

// redisReasons are the error prefixes of Redis that deserve a label of their own.
var redisReasons = [...]string{
	"OOM", "READONLY", "NOREPLICAS", "BUSY", "LOADING", "MISCONF", "CLUSTERDOWN",
	"TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM",
}

// Reason returns the label of a store error, from a fixed set.
func Reason(err error) string {
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
	case IsOpen(err):
		return "breaker"
	case errors.Is(err, errStarved):
		return "starved"
	case errors.Is(err, errMayNotSpend):
		return "waits"
	case errors.Is(err, ErrBusy):
		return "overload"
	case errors.Is(err, errQueued):
		return "queue"
	case errors.Is(err, errStalled), errors.Is(err, ErrGivenUp):
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
	if errors.Is(err, store.ErrNoPrimary) {
		return "name"
	}
	// A Sentinel does not know GET and CLUSTER.
	for _, words := range []string{"cluster support disabled", "MOVED ", "CROSSSLOT ", "unknown command 'sentinel'", "unknown command 'get'", "unknown command 'cluster'"} {
		if strings.Contains(err.Error(), words) {
			return "scheme"
		}
	}
	for _, words := range []string{"unknown command", "running script", "compiling script", "user_script"} {
		if strings.Contains(err.Error(), words) {
			return "scripts"
		}
	}
	return "other"
}

// CountRefused counts checks that the store did not decide although no whole call to it failed.
func (g *Guard) CountRefused(err error) {
	g.metrics.StoreErrors.WithLabelValues("take", Reason(err)).Inc()
}

// errMayNotSpend: this daemon may not spend from the store yet.
var errMayNotSpend = errors.New("regional: another daemon of this region may be admitting without the store")

// OpRoster names the call to the store that reads the list of daemons.
const OpRoster = "roster"
