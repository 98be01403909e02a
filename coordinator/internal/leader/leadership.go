// Package leader runs the leader's side of the budget protocol while a node leads the cluster. A
// Leadership takes charge of the budgets and starts a Loop for each epoch. The Loop drives the state
// machine of package budget: it carries out the effects, and answers the Hellos and reports of the
// regions.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
	// establishTimeout bounds Barrier and the commit that creates an epoch. It is longer than a slow fsync
	// and shorter than a caller's deadline.
	establishTimeout = 5 * time.Second
	// retryEstablish is the pause between two attempts to take charge while raft says that this node
	// leads.
	retryEstablish = 100 * time.Millisecond
)

// Leadership runs a Loop whenever this node leads the cluster. Make one with New and call Run once. The
// other exported methods may be called by any goroutine.
type Leadership struct {
	node    *cluster.Node
	now     func() budget.Instant
	log     *slog.Logger
	metrics *Metrics
	loop    atomic.Pointer[Loop]

	mu       sync.Mutex
	replaced chan struct{} // closed when another Loop is in charge, or none

	// These outlive an epoch: the next Loop of this node goes on with them.
	audit     *audit.Audit
	latencies latencyEstimator
	breaches  breachCounter
	breachLog ratelog.Limiter
}

// New returns the Leadership of a node. It does nothing until Run is called. now reads the node's clock
// and must not go back.
func New(node *cluster.Node, now func() budget.Instant, log *slog.Logger, m *Metrics) *Leadership {
	l := &Leadership{node: node, now: now, log: log, metrics: m, replaced: make(chan struct{})}
	l.breachLog.Every, l.breachLog.PerMinute = breachLogEvery, maxBreachLines
	return l
}

// Breaches returns how often the promise of a rule was broken while this node led, by the rule's number
// in force.
func (l *Leadership) Breaches(rule uint32) uint64 { return l.breaches.of(rule) }

// Current returns the Loop of the current epoch; nil while this node is not in charge of the budgets.
func (l *Leadership) Current() *Loop { return l.loop.Load() }

// watch returns what Current returns, and a channel that is closed when that changes.
func (l *Leadership) watch() (*Loop, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loop.Load(), l.replaced
}

// setLoop puts a Loop in charge; nil: none.
func (l *Leadership) setLoop(loop *Loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loop.Store(loop)
	close(l.replaced)
	l.replaced = make(chan struct{})
}

// Run takes charge whenever this node leads, until ctx ends.
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

// lead takes charge and runs a Loop until it ends. It returns whether this node still leads, as raft
// last reported. If only the Loop failed, the node still leads, and lead returns after a pause so that
// the next Loop can start.
func (l *Leadership) lead(ctx context.Context) (leading bool) {
	loop, err := l.establish(ctx)
	if err == nil {
		l.log.Info("took charge of the budgets", "epoch", loop.epoch)
		l.setLoop(loop)
		leading, err = loop.run(ctx, l.node.LeaderCh())
		l.setLoop(nil)
		l.audit.DropPromise() // it would keep the whole state machine in memory until the next epoch
	}
	if errors.Is(err, ErrConfigChanged) {
		l.log.Info("the regions or their floors have changed; taking charge again")
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

// establish applies everything that earlier leaders committed, then creates a new epoch. From then on
// the ledger refuses plans of older epochs. So the copy of the ledger made here is complete for as long
// as this node leads in the same term. Between two terms of this node another leader may have changed
// the ledger.
func (l *Leadership) establish(ctx context.Context) (*Loop, error) {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	term := l.node.Term()
	if err := l.node.Barrier(ctx); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	began := time.Now()
	epoch, err := l.node.CreateEpoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("create an epoch: %w", err)
	}
	l.latencies.commitTook(time.Since(began))
	var ledger *budget.Ledger
	l.node.View(func(s *clusterstate.State) { ledger = s.Ledger.Clone() })
	if ledger.Epoch != epoch {
		return nil, errors.New("another leader has created a later epoch")
	}
	return newLoop(l, ledger, term), nil
}

// Reasons for which a Loop does not answer a request, or ends.
var (
	// ErrConfigChanged ends an epoch because the regions, their floors or the timing have changed.
	ErrConfigChanged = errors.New("the regions, their floors or the lease have changed; every region says Hello again")
	// ErrEpochSpent ends an epoch because half of its generations are used.
	ErrEpochSpent = errors.New("half of this epoch's generations are used, and a new epoch begins; every region says Hello again")
	// ErrLeadershipOver is the answer to a request that was open when the Loop ended.
	ErrLeadershipOver = errors.New("this coordinator stopped leading while it was working on the request; retry")
	// ErrOverloaded is the answer to a request when the queue of the Loop is full.
	ErrOverloaded  = errors.New("too many requests are waiting for the leader; retry")
	errRaftChanged = errors.New("raft reports a change of leadership")
)

// SessionID names one session of one region.
type SessionID struct{ Epoch, Session uint64 }

// Metrics are the metrics of a node's Loops. Make them with NewMetrics.
type Metrics struct {
	seconds prometheus.Histogram // from a plan to its commit
	changes prometheus.Counter   // ledger entries that committed plans changed
}

// NewMetrics returns Metrics and registers them with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_rebalance_duration_seconds", Help: "Time from a plan to its commit.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rebalance_changes_total", Help: "Entries of the ledger that committed plans changed.",
		}),
	}
	reg.MustRegister(m.seconds, m.changes)
	return m
}
