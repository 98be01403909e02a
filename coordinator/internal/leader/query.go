package leader

import (
	"context"
	"errors"
	"math"
	"time"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
	"aliquot/coordinator/internal/audit"
)

// DaemonLeft tells the state machine that a daemon of a region has stopped.
func (l *Loop) DaemonLeft(region int, id budget.DaemonID) error {
	return l.post(func(loopCtx context.Context) { l.step(loopCtx, budget.DaemonLeft{Region: region, Daemon: id}) })
}

// EndSession ends a session if it is open, in the way that a gap in its reports ends it.
func (l *Loop) EndSession(region int, of SessionID) error {
	gap := budget.Report{Region: region, Epoch: of.Epoch, Session: of.Session, Seq: math.MaxUint64}
	return l.post(func(loopCtx context.Context) { l.step(loopCtx, budget.ReportReceived{Report: gap}) })
}

// RegionStatus returns what the state machine knows of the first n regions, and whether this node leads. A change of
// the regions ends the state machine. RegionStatus waits for the one of the present regions until ctx ends, and then
// knows of none.
func (l *Leadership) RegionStatus(ctx context.Context, n int) (known []budget.RegionStatus, leads bool) {
	var version uint64
	l.node.View(func(state *clusterstate.State) { version = state.Ledger.Config.Version })
	for {
		loop, replaced := l.watch()
		if loop == nil && !l.node.Leads() {
			return nil, false
		}
		if loop != nil && loop.ConfigVersion() >= version {
			known, err := loop.regionStatus(ctx, n)
			if err == nil || !errors.Is(err, ErrConfigChanged) {
				return known, true
			}
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return nil, true
		}
	}
}

// regionStatus returns what the state machine knows of the first n regions.
func (l *Loop) regionStatus(ctx context.Context, n int) ([]budget.RegionStatus, error) {
	var out []budget.RegionStatus
	err := l.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		for i := range min(n, len(l.ledger.Config.Regions)) {
			out = append(out, m.Region(i, now, l.floors.steps.Tail()))
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// LiveRegions returns the names of all declared regions by index, "" for a fenced one, and the indices
// of the live regions.
func (l *Loop) LiveRegions(ctx context.Context) ([]string, []int, error) {
	var names []string
	var live []int
	err := l.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		for i, region := range l.ledger.Config.Regions {
			if region.Fenced {
				names = append(names, "")
				continue
			}
			names = append(names, region.Name)
			if m.Region(i, now, 0).Live {
				live = append(live, i)
			}
		}
	})
	if err != nil {
		return nil, nil, err // the loop may still write to both
	}
	return names, live, nil
}

// BudgetStatus is what the leader knows of some keys.
type BudgetStatus struct {
	Regions    []budget.RegionStatus
	Keys       []budget.KeyStatus // in the order of the keys asked for
	Hot        []bool
	Excess     []float64 // observed, tokens
	Conditions Conditions
}

// BudgetStatus returns what the leader knows of the keys.
func (l *Loop) BudgetStatus(ctx context.Context, keys []budget.KeyID) (*BudgetStatus, error) {
	out := &BudgetStatus{Keys: make([]budget.KeyStatus, len(keys)), Hot: make([]bool, len(keys)), Excess: make([]float64, len(keys))}
	err := l.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		for i := range l.ledger.Config.Regions {
			out.Regions = append(out.Regions, m.Region(i, now, l.floors.steps.Tail()))
		}
		for i, key := range keys {
			out.Keys[i], out.Hot[i] = m.Key(key)
			out.Excess[i] = l.audit.MaxExcess(key)
		}
		out.Conditions = l.conditions(now)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Snapshot is what a scrape of the metrics reads of the leader.
type Snapshot struct {
	Regions []budget.RegionStatus   // at most as many as were asked for
	Totals  map[uint32]audit.Totals // by rule number
	Refused int                     // keys that found no place among the hot keys
}

// Snapshot returns the metrics of the loop, with the status of the first regions of the configuration.
func (l *Loop) Snapshot(ctx context.Context, regions int) (*Snapshot, error) {
	out := &Snapshot{}
	err := l.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		// Regions that were declared since belong to the next epoch.
		for i := range min(regions, len(l.ledger.Config.Regions)) {
			out.Regions = append(out.Regions, m.Region(i, now, l.floors.steps.Tail()))
		}
		out.Totals, out.Refused = l.audit.Totals(), m.Refused()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// DecisionsBefore returns what the named regions decide under the rules in force.
func (l *Loop) DecisionsBefore(ctx context.Context, regions []string) ([]clusterstate.Decisions, error) {
	var before []clusterstate.Decisions
	err := l.Query(ctx, func(*budget.Leader, budget.Instant) {
		before = l.rollout.decisionsBefore(&l.ledger.Config, regions)
	})
	if err != nil {
		return nil, err
	}
	return before, nil
}

// Sessionless is what a leader tells a daemon without a session.
type Sessionless struct {
	// Vouched says whether the daemon with the session knows of this one.
	Vouched bool
	// Others are the region's other daemons that the leader knows of.
	Others []budget.DaemonID
}

// SessionlessHello counts what a daemon without a session has spent, with ages from the answer to its
// Hello with the nonce since, and returns what the daemon is to be told.
func (l *Loop) SessionlessHello(ctx context.Context, h budget.Hello, since uint64, spent []budget.Spent) (*Sessionless, error) {
	told := &Sessionless{}
	err := l.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		told.Vouched, told.Others = m.Vouches(h.Region, h.Daemon), m.Beside(h.Region, h.Daemon, now)
		l.audit.AddSessionless(audit.Daemon{Region: h.Region, Incarnation: h.Incarnation}, h.Nonce, since, spent, now, l.isHot)
		l.logBreaches()
	})
	if err != nil {
		return nil, err
	}
	return told, nil
}

// Now returns the instant of the leader's clock.
func (l *Loop) Now() budget.Instant { return l.now() }

// Epoch returns the epoch of the budgets. Sessions are numbered within it.
func (l *Loop) Epoch() uint64 { return l.epoch }

// StartedAt returns the instant at which the epoch began on this node.
func (l *Loop) StartedAt() budget.Instant { return l.startedAt }

// ConfigVersion returns the version of the configuration that the epoch is for.
func (l *Loop) ConfigVersion() uint64 { return l.floors.version }

// FloorAfterUse returns how long a region must be silent before every other region has made room for
// its floor.
func (l *Loop) FloorAfterUse() time.Duration { return l.ledger.Config.FloorAfterUse(0) }

// Done returns a channel that is closed when the epoch is over: no request is taken after that.
func (l *Loop) Done() <-chan struct{} { return l.done }

// Ended returns why no request is taken any more, once Done is closed; else nil.
func (l *Loop) Ended() error {
	select {
	case <-l.done:
		return l.endError()
	default:
		return nil
	}
}

// VerifyLeader returns nil if this node still leads in the term of the epoch.
func (l *Loop) VerifyLeader(ctx context.Context) error { return l.node.VerifyLeader(ctx, l.term) }
