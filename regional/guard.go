package regional

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
)

// Store keeps one record for each key of the region and decides atomically: Redis,
// or the embedded store. Safe for concurrent use.
type Store interface {
	// Epoch learns, or mints, the identity of the store's contents.
	Epoch(ctx context.Context) (string, error)
	// Take decides groups in order. now is the store's clock, microseconds.
	Take(ctx context.Context, epoch string, groups []lua.Group) (results []lua.Result, now int64, err error)
	// Apply makes share changes, any number of them.
	Apply(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error)
	Close() error
}

const (
	// storeDeadline bounds one store call: a stalled store must not cost more than
	// a check is worth waiting for.
	storeDeadline = 50 * time.Millisecond
	// applyDeadline bounds the application of one directive, up to 8,192 changes.
	applyDeadline = time.Second
	// maxWaiting bounds the checks that wait for the store: 512 calls of 50 ms are
	// 10,000 a second, beyond which a slow store is as good as none.
	maxWaiting = 512
	// The breaker opens after tripAfter failures in a row, or when half of at
	// least tripSample calls of tripWindow failed, for openFor.
	tripAfter  = 5
	tripSample = 20
	tripWindow = time.Second
	openFor    = 500 * time.Millisecond
)

// errBusy: too many calls are waiting for the store already.
var errBusy = errors.New("regional: too many calls wait for the store")

// guard stands before the store: deadline, breaker, a cap on waiting calls, the
// clock's samples, and metrics. Safe for concurrent use.
type guard struct {
	store   Store
	auth    *authority
	breaker *gobreaker.CircuitBreaker[[]lua.Result]
	waiting chan struct{}
	metrics *metrics
	now     func() budget.Instant
}

func newGuard(s Store, auth *authority, m *metrics, onChange func(open bool)) *guard {
	g := &guard{store: s, auth: auth, metrics: m, now: auth.now, waiting: make(chan struct{}, maxWaiting)}
	g.breaker = gobreaker.NewCircuitBreaker[[]lua.Result](gobreaker.Settings{
		Name:         "store",
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= tripAfter ||
				c.Requests >= tripSample && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: func(_ string, _, to gobreaker.State) { onChange(to != gobreaker.StateClosed) },
		IsSuccessful:  answered,
	})
	return g
}

// answered tells whether the store is well: other contents than expected are an
// answer, and wrong arguments are our fault.
func answered(err error) bool {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	return err == nil || otherContents || errors.Is(err, lua.ErrInvalid)
}

// take decides groups under the contents named by epoch. A caller that goes away
// does not take the call with it: a connection would be lost for nothing.
func (g *guard) take(ctx context.Context, epoch string, groups []lua.Group) ([]lua.Result, error) {
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		g.metrics.storeErrors.WithLabelValues("take", "busy").Inc()
		return nil, errBusy
	}
	results, err := g.breaker.Execute(func() ([]lua.Result, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeDeadline)
		defer cancel()
		sent := g.now()
		results, now, err := g.store.Take(ctx, epoch, groups)
		g.done("take", epoch, sent, now, err)
		return results, err
	})
	if err != nil {
		g.metrics.storeErrors.WithLabelValues("take", reason(err)).Inc()
		return nil, err
	}
	return results, nil
}

// apply makes share changes. It does not pass the breaker: a directive is rare,
// and failing it costs the session.
func (g *guard) apply(ctx context.Context, epoch string, changes []lua.Change) ([]limit.Applied, error) {
	ctx, cancel := context.WithTimeout(ctx, applyDeadline)
	defer cancel()
	sent := g.now()
	applied, now, err := g.store.Apply(ctx, epoch, changes)
	g.done("apply", epoch, sent, now, err)
	if err != nil {
		g.metrics.storeErrors.WithLabelValues("apply", reason(err)).Inc()
	}
	return applied, err
}

// learn asks which contents the store has and tells the machine.
func (g *guard) learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*storeDeadline)
	defer cancel()
	sent := g.now()
	epoch, err := g.store.Epoch(ctx)
	g.metrics.storeSeconds.WithLabelValues("epoch").Observe(g.now().Sub(sent).Seconds())
	if err != nil {
		g.metrics.storeErrors.WithLabelValues("epoch", reason(err)).Inc()
		return err
	}
	g.auth.storeEpoch(epoch)
	return nil
}

func (g *guard) done(op, epoch string, sent budget.Instant, now int64, err error) {
	received := g.now()
	g.metrics.storeSeconds.WithLabelValues(op).Observe(received.Sub(sent).Seconds())
	if err == nil {
		g.auth.sample(epoch, sample{store: now, sent: sent, received: received})
	}
}

// redisReasons are the error prefixes of Redis that are worth a label of their own.
var redisReasons = [...]string{
	"OOM", "READONLY", "NOREPLICAS", "BUSY", "LOADING", "MISCONF", "CLUSTERDOWN",
	"TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM",
}

// reason is a label for an error of the store, from a fixed set.
func reason(err error) string {
	_, otherContents := errors.AsType[*lua.EpochError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case otherContents:
		return "epoch"
	case errors.Is(err, lua.ErrInvalid):
		return "invalid"
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return "breaker"
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return "timeout"
	case isNet:
		return "connection"
	}
	for _, prefix := range redisReasons {
		if strings.Contains(err.Error(), prefix+" ") {
			return strings.ToLower(prefix)
		}
	}
	return "other"
}
