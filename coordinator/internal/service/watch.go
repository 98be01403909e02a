package service

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"connectrpc.com/connect"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

const (
	// watchPause joins changes: a viewer needs the movement, not each step.
	watchPause = 50 * time.Millisecond
	// watchCost sets the pause between two readings of the ledger: at least this many times the time that
	// the reading took. So a watch of a large ledger costs a few percent of a core.
	watchCost = 20
	// watchHeartbeat is the time between empty messages, which let both ends notice a dead peer.
	watchHeartbeat = 10 * time.Second
	// maxWatches bounds the streams of one coordinator.
	maxWatches = 64
	// watchChunk bounds the budgets in one message.
	watchChunk = 500
)

// WatchBudgets sends every budget that the request selects, then each one that changes, until the
// caller leaves or the daemon stops. It includes what only the leader knows if this coordinator leads,
// or if the request names a single key.
func (s *budgetService) WatchBudgets(ctx context.Context, req *aliquotv1.WatchBudgetsRequest, stream *connect.ServerStream[aliquotv1.WatchBudgetsResponse]) error {
	select {
	case s.watches <- struct{}{}:
		defer func() { <-s.watches }()
	default:
		return toRPC(fmt.Errorf("%w: %d are open on this coordinator; close one or ask another coordinator", errTooManyWatches, maxWatches))
	}
	if req.GetRuleId() == "" && (len(req.GetKey()) > 0 || req.GetNamespace() != "") {
		return toRPC(invalid("key and namespace need a rule_id beside them"))
	}
	w := &watch{service: s, req: req, stream: stream, sent: map[budget.KeyID]string{}}
	return toRPC(w.run(ctx))
}

// watch is one open stream.
type watch struct {
	service *budgetService
	req     *aliquotv1.WatchBudgetsRequest
	stream  *connect.ServerStream[aliquotv1.WatchBudgetsResponse]
	sent    map[budget.KeyID]string // what was last sent of each key
}

func (w *watch) run(ctx context.Context) error {
	heartbeat := time.NewTicker(watchHeartbeat)
	defer heartbeat.Stop()
	// The first message is sent at once, even if nothing is hot: a caller waits for the headers.
	if err := w.stream.Send(&aliquotv1.WatchBudgetsResponse{}); err != nil {
		return err
	}
	for {
		changed := w.service.node.Changed()
		began := time.Now()
		if err := w.sendChanges(ctx); err != nil {
			return err
		}
		pause := time.After(max(watchPause, watchCost*time.Since(began)))
		for changed != nil || pause != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-w.service.stopping:
				return errStopping
			case <-heartbeat.C:
				if err := w.stream.Send(&aliquotv1.WatchBudgetsResponse{}); err != nil {
					return err
				}
			case <-changed:
				changed = nil
			case <-pause:
				pause = nil
			}
		}
	}
}

// sendChanges sends the budgets that differ from what was last sent.
func (w *watch) sendChanges(ctx context.Context) error {
	get := &aliquotv1.GetBudgetRequest{RuleId: w.req.GetRuleId(), Key: w.req.GetKey(), Namespace: w.req.GetNamespace()}
	var news []budgetView
	var err error
	w.service.node.View(func(state *clusterstate.State) {
		var only *rules.Rule
		if w.req.GetRuleId() != "" {
			if only, err = findRule(state, w.req.GetRuleId()); err != nil {
				return
			}
		}
		if only != nil && (len(get.GetKey()) > 0 || len(only.Key) == 0) {
			news, err = w.changedBudget(state, get)
			return
		}
		news = w.changedHotKeys(state, only)
	})
	if err != nil {
		return err
	}
	return w.send(ctx, get, news)
}

// changedBudget returns the one watched budget if it has changed.
func (w *watch) changedBudget(state *clusterstate.State, get *aliquotv1.GetBudgetRequest) ([]budgetView, error) {
	b, _, err := readBudget(state, get)
	if err != nil || !w.changed(state, b.key, b.budget.GetLimit().GetCapacity(), b.budget.GetLimit().GetRefillRate()) {
		return nil, err
	}
	return []budgetView{b}, nil
}

// changedHotKeys returns the hot keys that have changed. A key that is no longer hot is returned once,
// as a cold one.
func (w *watch) changedHotKeys(state *clusterstate.State, only *rules.Rule) []budgetView {
	var news []budgetView
	for key, rule := range HotKeys(state, state.Ledger.Keys(), only, nil) {
		if w.changed(state, key, int64(rule.Limit.Capacity), leader.RatePerSecond(rule.Limit)) {
			news = append(news, viewOf(state, rule, key, rule.Limit, rule.Window))
		}
	}
	byNumber := leader.RulesByNumber(state, only)
	for key := range w.sent {
		if state.Ledger.Shares(key) != nil {
			continue
		}
		delete(w.sent, key)
		if rule := byNumber[key.Rule]; rule != nil {
			news = append(news, viewOf(state, rule, key, rule.Limit, rule.Window))
		}
	}
	return news
}

// changed reports whether a key differs from what was last sent, and stores its new state.
func (w *watch) changed(state *clusterstate.State, key budget.KeyID, capacity int64, rate float64) bool {
	shares := state.Ledger.Shares(key)
	now := make([]byte, 0, 16+8*len(shares))
	now = binary.BigEndian.AppendUint64(now, uint64(capacity))
	now = binary.BigEndian.AppendUint64(now, math.Float64bits(rate))
	for _, s := range shares {
		now = binary.BigEndian.AppendUint32(now, uint32(s.Rate))
		now = binary.BigEndian.AppendUint32(now, uint32(s.Burst))
	}
	if shares == nil { // every region has its floor, which changes with the configuration
		now = binary.BigEndian.AppendUint64(now, state.Ledger.Config.Version)
	}
	before, known := w.sent[key]
	if known && before == string(now) {
		return false
	}
	w.sent[key] = string(now)
	return true
}

func (w *watch) send(ctx context.Context, get *aliquotv1.GetBudgetRequest, news []budgetView) error {
	var query func(context.Context) ([]*aliquotv1.Budget, error)
	if len(get.GetKey()) > 0 {
		query = w.service.getFromLeader(get)
	}
	for part := range slices.Chunk(news, watchChunk) {
		w.service.addLeaderState(ctx, part, query)
		if err := w.stream.Send(&aliquotv1.WatchBudgetsResponse{Budgets: protosOf(part)}); err != nil {
			return err
		}
	}
	return nil
}
