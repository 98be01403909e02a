package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	clusterstate "aliquot/cluster/state"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/coordinator/internal/audit"
	"aliquot/internal/ratelog"
)

const (
	// establishTimeout bounds Barrier and MintEpoch: longer than an fsync on a bad
	// day, shorter than anyone's patience.
	establishTimeout = 5 * time.Second
	// retryEstablish spaces attempts while raft says that this node leads.
	retryEstablish = 100 * time.Millisecond
)

// leadership runs a reign whenever this node leads the cluster. Its run is one
// goroutine; current may be read by any.
type Leadership struct {
	node    *cluster.Node
	now     func() budget.Instant
	log     *slog.Logger
	metrics *Metrics
	loop    atomic.Pointer[Loop]

	// What a reign leaves to the next one of this node.
	audit     *audit.Audit
	latencies latencyEstimator
	breaches  breachCounter
	breachLog ratelog.Limiter
}

// newLeadership returns the leadership of a node, which does nothing until its run is called.
func New(node *cluster.Node, now func() budget.Instant, log *slog.Logger, m *Metrics) *Leadership {
	l := &Leadership{node: node, now: now, log: log, metrics: m}
	l.breachLog.Every, l.breachLog.PerMinute = breachLogEvery, maxBreachLines
	return l
}

// Breaches returns how often the promise of a rule was broken while this node led.
func (l *Leadership) Breaches(rule uint32) uint64 { return l.breaches.of(rule) }

// current is the reign in progress, nil while this node does not hold one.
func (l *Leadership) Current() *Loop { return l.loop.Load() }

// run ends with ctx.
func (l *Leadership) Run(ctx context.Context) {
	leading := false
	for ctx.Err() == nil {
		if leading {
			leading = l.lead(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case leading = <-l.node.LeaderCh():
		}
	}
}

// rule takes charge and holds on until something ends it. It returns what raft said
// last: whether this node leads. If only the reign failed, it still does, and the
// next one begins after a pause.
func (l *Leadership) lead(ctx context.Context) (leading bool) {
	loop, err := l.establish(ctx)
	if err == nil {
		l.log.Info("took charge of the budgets", "epoch", loop.epoch)
		l.loop.Store(loop)
		leading, err = loop.run(ctx, l.node.LeaderCh())
		l.loop.Store(nil)
		l.audit.DropPromise() // it would keep the whole machine in memory until the next epoch
	}
	if errors.Is(err, ErrConfigChanged) {
		l.log.Info("the regions or their floors have changed; taking charge anew")
		return true
	}
	if errors.Is(err, ErrEpochSpent) {
		l.log.Info("half of the epoch's generations are used; taking charge with a new epoch", "epoch", loop.epoch)
		return true
	}
	if errors.Is(err, errRaftChanged) || ctx.Err() != nil {
		l.log.Info("gave up charge of the budgets", "reason", err)
		return leading
	}
	l.log.Warn("lost charge of the budgets; trying again while this node leads", "reason", err)
	select {
	case <-ctx.Done():
		return false
	case leading = <-l.node.LeaderCh():
		return leading
	case <-time.After(retryEstablish):
		return true
	}
}

// establish reads everything committed by earlier leaders, then starts an epoch of
// its own. A plan of an older epoch that is still on its way is refused from then
// on, so the copy of the ledger made here is the whole truth, for as long as this node
// leads in the same term: between two of its terms another leader may have changed it.
func (l *Leadership) establish(ctx context.Context) (*Loop, error) {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	term := l.node.Term()
	if err := l.node.Barrier(ctx); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	began := time.Now()
	epoch, err := l.node.MintEpoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("mint epoch: %w", err)
	}
	l.latencies.commitTook(time.Since(began))
	var ledger *budget.Ledger
	l.node.View(func(s *clusterstate.State) { ledger = s.Ledger.Clone() })
	if ledger.Epoch != epoch {
		return nil, errors.New("another leader has minted a later epoch")
	}
	return newLoop(l, ledger, term), nil
}

// Reasons for which a Loop does not answer a request, or ends.
var (
	// ErrConfigChanged ends an epoch: the regions, their floors or the timing have changed.
	ErrConfigChanged = errors.New("the regions, their floors or the lease have changed; every region says Hello again")
	// ErrEpochSpent ends an epoch whose generations are half used.
	ErrEpochSpent = errors.New("half of this epoch's generations are used, and a new epoch begins; every region says Hello again")
	// ErrLeadershipOver is the answer to a request that the loop had not answered when it ended.
	ErrLeadershipOver = errors.New("this coordinator stopped leading while it was working on the request; retry")
	// ErrOverloaded is the answer to a request for which the loop has no room.
	ErrOverloaded  = errors.New("too many requests are waiting for the leader; retry")
	errRaftChanged = errors.New("raft reports a change of leadership")
)

// stream names one session of one region.
type SessionID struct{ Epoch, Session uint64 }

// Metrics are counted by the loops of a node. Make them with NewMetrics.
type Metrics struct {
	seconds prometheus.Histogram // from a plan to its commit
	changes prometheus.Counter   // ledger entries that committed plans changed
}

// NewMetrics returns metrics that are registered with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_rebalance_duration_seconds", Help: "From a plan to its commit.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rebalance_changes_total", Help: "Ledger entries changed by committed plans.",
		}),
	}
	reg.MustRegister(m.seconds, m.changes)
	return m
}
