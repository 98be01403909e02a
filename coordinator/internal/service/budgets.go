package service

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/promise"
	"aliquot/internal/leasewire"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Sizes of one page of budgets.
const (
	defaultPage = 100
	maxPage     = 1000
)

// maxValueBytes bounds one key attribute, as in a check.
const maxValueBytes = 4096

// budgetService implements BudgetService: how limits are divided. The shares come from the ledger
// applied here, the usage from the leader.
type budgetService struct {
	node       *cluster.Node
	leadership *leader.Leadership
	forward    *forwarder
	index      *KeyIndex
	watches    chan struct{} // one slot for each open watch
	stopping   <-chan struct{}
}

// GetBudget returns the budget of one rule and key.
func (s *budgetService) GetBudget(ctx context.Context, req *aliquotv1.GetBudgetRequest) (*aliquotv1.GetBudgetResponse, error) {
	var b budgetView
	var p *promise.Limit
	var err error
	s.node.View(func(state *clusterstate.State) { b, p, err = readBudget(state, req) })
	if err != nil {
		return nil, toRPC(err)
	}
	b.budget.Promise = p.ToWire(leader.Conditions{})
	promise.SetResidual(b.budget, b.limit, &b.older, b.shares, nil)
	known := s.addLeaderState(ctx, []budgetView{b}, s.getFromLeader(req))
	if known != nil {
		b.budget.Promise = p.ToWire(known.Conditions)
		promise.SetResidual(b.budget, b.limit, &b.older, b.shares, known.Regions)
	}
	return &aliquotv1.GetBudgetResponse{Budget: b.budget}, nil
}

// getFromLeader returns a function that asks the leader for the same budget.
func (s *budgetService) getFromLeader(req *aliquotv1.GetBudgetRequest) func(context.Context) ([]*aliquotv1.Budget, error) {
	return func(ctx context.Context) ([]*aliquotv1.Budget, error) {
		res, err := toLeader(ctx, s.forward, req, (*peer).GetBudget)
		return []*aliquotv1.Budget{res.GetBudget()}, err
	}
}

// readBudget reads one budget from the applied state, and the limit whose promise is to be described.
func readBudget(state *clusterstate.State, req *aliquotv1.GetBudgetRequest) (budgetView, *promise.Limit, error) {
	rule, err := findRule(state, req.GetRuleId())
	if err != nil {
		return budgetView{}, nil, err
	}
	hash, err := keyHashOf(state, rule, req)
	if err != nil {
		return budgetView{}, nil, err
	}
	key := budget.KeyID{Rule: state.Rules.Numbers[rule.ID], Hash: hash}
	apiKey := req.GetKey()["api_key"]
	nowMS := time.Now().UnixMilli()
	l, window := rule.LimitFor(apiKey, nowMS)
	b := viewOf(state, rule, key, l, window)
	b.limit, b.older, b.shares = leader.KeyLimit(rule, l), promise.NewOlderLimits(state, rule, apiKey, nowMS), promise.Enforceable(state, key)
	return b, promise.New(state, rule, l), nil
}

// keyHashOf returns the hash of the key in the request.
func keyHashOf(state *clusterstate.State, rule *rules.Rule, req *aliquotv1.GetBudgetRequest) (hash [leasewire.HashBytes]byte, err error) {
	switch given := req.GetKeyHash(); {
	case len(given) == 0:
	case len(given) != leasewire.HashBytes || len(req.GetKey()) > 0 || req.GetNamespace() != "":
		return hash, invalid("key_hash has %d bytes; give %d, and neither key nor namespace beside it", len(given), leasewire.HashBytes)
	default:
		return [leasewire.HashBytes]byte(given), nil
	}
	if err := checkKey(rule, req.GetKey()); err != nil {
		return hash, err
	}
	return rules.HashKey(state.HashSecret.Bytes(), req.GetNamespace(), rules.KeyValues(rule, rules.AttributesOf(req.GetKey()), nil)), nil
}

func findRule(s *clusterstate.State, id string) (*rules.Rule, error) {
	if s.Rules.Set != nil {
		if rule := s.Rules.Set.Rule(id); rule != nil {
			return rule, nil
		}
	}
	return nil, unknownRule(id, s.Rules.Version)
}

// checkKey requires exactly the attributes of the rule's key: a missing or misspelt one would silently
// show another key's budget.
func checkKey(rule *rules.Rule, key map[string]string) error {
	for _, name := range rule.Key {
		if _, given := key[name]; !given {
			return invalid("key attribute %q is missing; rule %q is keyed by %s", name, rule.ID, keyNames(rule))
		}
	}
	for name, value := range key {
		if !slices.Contains(rule.Key, name) {
			return invalid("rule %q does not use the key attribute %q; it is keyed by %s", rule.ID, shorten(name), keyNames(rule))
		}
		if len(value) > maxValueBytes {
			return invalid("key attribute %q has %d bytes, at most %d", name, len(value), maxValueBytes)
		}
	}
	return nil
}

func keyNames(rule *rules.Rule) string {
	if len(rule.Key) == 0 {
		return "nothing (one bucket for all): leave key empty"
	}
	return strings.Join(rule.Key, ", ")
}

// ListBudgets pages through the hot keys in the order of their numbers and hashes.
func (s *budgetService) ListBudgets(ctx context.Context, req *aliquotv1.ListBudgetsRequest) (*aliquotv1.ListBudgetsResponse, error) {
	page, err := s.page(req)
	if err != nil {
		return nil, toRPC(err)
	}
	var fromLeader map[string]*aliquotv1.Promise
	known := s.addLeaderState(ctx, page.budgets, func(ctx context.Context) ([]*aliquotv1.Budget, error) {
		res, err := toLeader(ctx, s.forward, req, (*peer).ListBudgets)
		fromLeader = res.GetPromises()
		return res.GetBudgets(), err
	})
	out := &aliquotv1.ListBudgetsResponse{Budgets: protosOf(page.budgets), NextPageToken: page.next, Promises: map[string]*aliquotv1.Promise{}}
	for id, limit := range page.promises {
		switch {
		case known != nil:
			out.Promises[id] = limit.ToWire(known.Conditions)
		case fromLeader[id] != nil:
			out.Promises[id] = fromLeader[id]
		default:
			out.Promises[id] = limit.ToWire(leader.Conditions{})
		}
	}
	return out, nil
}

// page is one page of budgets with the limits of its rules, by rule id, and the token of the next page.
type page struct {
	budgets  []budgetView
	promises map[string]*promise.Limit
	next     string
}

// page reads one page from the applied state.
func (s *budgetService) page(req *aliquotv1.ListBudgetsRequest) (p page, err error) {
	size := int(req.GetPageSize())
	if size < 0 || size > maxPage {
		return p, invalid("page_size %d: use 1 to %d, or 0 for %d", size, maxPage, defaultPage)
	}
	if size == 0 {
		size = defaultPage
	}
	after, err := parseToken(req.GetPageToken())
	if err != nil {
		return p, err
	}
	p.promises = map[string]*promise.Limit{}
	s.node.View(func(state *clusterstate.State) {
		var only *rules.Rule
		if req.GetRuleId() != "" {
			if only, err = findRule(state, req.GetRuleId()); err != nil {
				return
			}
		}
		for key, rule := range HotKeys(state, s.index.Sorted(&state.Ledger), only, after) {
			if len(p.budgets) == size {
				p.next = pageToken(p.budgets[size-1].key)
				return
			}
			p.budgets = append(p.budgets, viewOf(state, rule, key, rule.Limit, rule.Window))
			if p.promises[rule.ID] == nil {
				p.promises[rule.ID] = promise.New(state, rule, rule.Limit)
			}
		}
	})
	return p, err
}

// tokenBytes is the size of a page token before it is encoded in hex: the rule number (4 bytes) and the
// hash of the last key shown.
const tokenBytes = 4 + leasewire.HashBytes

func pageToken(k budget.KeyID) string {
	return hex.EncodeToString(append([]byte{byte(k.Rule >> 24), byte(k.Rule >> 16), byte(k.Rule >> 8), byte(k.Rule)}, k.Hash[:]...))
}

// parseToken returns the key in a page token; nil for the first page.
func parseToken(token string) (*budget.KeyID, error) {
	if token == "" {
		return nil, nil
	}
	b, err := hex.DecodeString(token)
	if err != nil || len(b) != tokenBytes {
		return nil, invalid("page_token: use the next_page_token of the page before, unchanged")
	}
	k := budget.KeyID{Rule: uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]), Hash: [leasewire.HashBytes]byte(b[4:])}
	return &k, nil
}

// budgetView is one budget that is prepared for a caller.
type budgetView struct {
	key    budget.KeyID
	budget *aliquotv1.Budget
	// Only for GetBudget: the limit in force, older limits, and what each region may be enforcing.
	limit  budget.KeyLimit
	older  promise.OlderLimits
	shares []budget.Share
}

// protosOf returns the messages of the views.
func protosOf(all []budgetView) []*aliquotv1.Budget {
	out := make([]*aliquotv1.Budget, len(all))
	for i, b := range all {
		out[i] = b.budget
	}
	return out
}

// viewOf returns the replicated part of a budget: the liabilities of a hot key, else the floors.
func viewOf(s *clusterstate.State, rule *rules.Rule, key budget.KeyID, l limit.Limit, window time.Duration) budgetView {
	shares := s.Ledger.Shares(key)
	b := &aliquotv1.Budget{
		RuleId: rule.ID, KeyHash: leader.HashText(key), Hot: shares != nil, AppliedIndex: s.AppliedIndex,
		Limit: &aliquotv1.Limit{
			Capacity: int64(l.Capacity / limit.Token), RefillRate: leader.RatePerSecond(l), Window: durationpb.New(window),
		},
	}
	promise.SetBounds(b, rule, l, &s.Ledger.Config)
	if rule.Enforcement == rules.Independent {
		b.Hot = false
	}
	pool := int32(budget.Unit)
	for i, r := range s.Ledger.Config.Regions {
		share, state := r.Floor, stateCold
		switch {
		case rule.Enforcement == rules.Independent:
			share, state = independentShare(&r), stateIndependent
		case shares != nil:
			share, state = shares[i], stateUnknown
		}
		pool -= share.Rate
		b.Regions = append(b.Regions, &aliquotv1.RegionBudget{
			Region: r.Name, Share: leader.Fraction(share.Rate), BurstShare: leader.Fraction(share.Burst),
			Rate:  leader.Fraction(share.Rate) * leader.RatePerSecond(l),
			Burst: leader.Fraction(share.Burst) * float64(l.Capacity) / leader.MicroToken,
			State: state, LeaseRemaining: durationpb.New(0),
		})
	}
	b.PoolShare = leader.Fraction(max(0, pool))
	return budgetView{key: key, budget: b}
}

// independentShare returns what a region enforces of a limit that is not coordinated: all of it, while
// its daemon runs.
func independentShare(r *budget.RegionConfig) budget.Share {
	if r.Fenced {
		return budget.Share{}
	}
	return budget.Share{Rate: budget.Unit, Burst: budget.Unit}
}

func unknownRule(id string, version uint64) error {
	return fmt.Errorf("%w %q in rules version %d", errUnknownRule, shorten(id), version)
}

// HotKeys iterates over the hot keys among the sorted keys, after the given key; only those of one rule
// if only is not nil. It skips keys whose rule is gone. A budget found this way shows the rule's own
// limit: overrides are by API key, which a coordinator does not have.
func HotKeys(s *clusterstate.State, keys []budget.KeyID, only *rules.Rule, after *budget.KeyID) iter.Seq2[budget.KeyID, *rules.Rule] {
	byNumber := leader.RulesByNumber(s, only)
	return func(yield func(budget.KeyID, *rules.Rule) bool) {
		if after != nil {
			i, found := slices.BinarySearchFunc(keys, *after, budget.KeyID.Compare)
			if found {
				i++
			}
			keys = keys[i:]
		}
		for _, key := range keys {
			rule := byNumber[key.Rule]
			if rule == nil || s.Ledger.Shares(key) == nil {
				continue
			}
			if !yield(key, rule) {
				return
			}
		}
	}
}

// addLeaderState adds what only the leader knows: from the state machine if it runs here, else from the
// answer of query, which may be nil. If neither is available the states stay unknown. It returns the
// status from the state machine; nil if that does not run here.
func (s *budgetService) addLeaderState(ctx context.Context, all []budgetView, query func(context.Context) ([]*aliquotv1.Budget, error)) *leader.BudgetStatus {
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaderQueryTimeout)
	defer cancel()
	if loop := s.leadership.Current(); loop != nil {
		keys := make([]budget.KeyID, len(all))
		for i := range all {
			keys[i] = all[i].key
		}
		known, err := loop.BudgetStatus(ctx, keys)
		if err != nil {
			return nil
		}
		addStatus(all, known)
		return known
	}
	if query == nil {
		return nil
	}
	if budgets, err := query(ctx); err == nil {
		addLeaderAnswer(all, budgets)
	}
	return nil
}

// addStatus adds the leader's status to the views. A key that only one of the ledger and the state
// machine has stays as it was read.
func addStatus(all []budgetView, known *leader.BudgetStatus) {
	for i, b := range all {
		b.budget.ExcessObserved = known.Excess[i]
		for j, region := range b.budget.GetRegions() {
			if j >= len(known.Regions) {
				break // declared since; the next loop knows it
			}
			region.LeaseRemaining = durationpb.New(known.Regions[j].LeaseRemaining)
			if !b.budget.GetHot() || !known.Hot[i] {
				continue
			}
			k := known.Keys[i].Regions[j]
			region.Tokens = float64(k.Tokens) / leader.MicroToken
			region.Admitted, region.Offered = k.Admitted/leader.MicroToken, k.Offered/leader.MicroToken
			region.Generation = leader.GenerationText(k.Gen)
			region.State = stateOf(k)
		}
	}
}

func stateOf(k budget.KeyRegionStatus) string {
	switch {
	case k.Silent:
		return StateSilent
	case k.Lent:
		return stateLent
	}
	return StateLive
}

// addLeaderAnswer adds the status that the leader answered, by key and region. The shares stay those
// that this node has applied.
func addLeaderAnswer(all []budgetView, known []*aliquotv1.Budget) {
	type part struct{ rule, hash, region string }
	parts := map[part]*aliquotv1.RegionBudget{}
	budgets := map[part]*aliquotv1.Budget{}
	for _, b := range known {
		budgets[part{rule: b.GetRuleId(), hash: b.GetKeyHash()}] = b
		for _, r := range b.GetRegions() {
			parts[part{b.GetRuleId(), b.GetKeyHash(), r.GetRegion()}] = r
		}
	}
	for _, b := range all {
		if fromLeader := budgets[part{rule: b.budget.GetRuleId(), hash: b.budget.GetKeyHash()}]; fromLeader != nil {
			b.budget.ExcessObserved = fromLeader.GetExcessObserved()
			if fromLeader.GetPromise() != nil {
				b.budget.Promise = fromLeader.GetPromise()
			}
			b.budget.ResidualExcess, b.budget.ResidualExcessRate = fromLeader.GetResidualExcess(), fromLeader.GetResidualExcessRate()
			b.budget.ResidualExcessUnknown = fromLeader.GetResidualExcessUnknown()
		}
		for _, r := range b.budget.GetRegions() {
			k := parts[part{b.budget.GetRuleId(), b.budget.GetKeyHash(), r.GetRegion()}]
			if k == nil {
				continue
			}
			r.LeaseRemaining = k.GetLeaseRemaining()
			if b.budget.GetHot() && k.GetState() != stateCold {
				r.Tokens, r.Admitted, r.Offered = k.GetTokens(), k.GetAdmitted(), k.GetOffered()
				r.Generation, r.State = k.GetGeneration(), k.GetState()
			}
		}
	}
}

// keyIndexCost sets for how long the sorted keys are used again: this many times the time that sorting
// took. Sorting 200,000 keys takes some 60 ms, in which nothing can be applied. So a caller that pages
// through all keys, and any number of scrapers, cost 5 % together. The keys of a small ledger are
// practically always fresh.
const keyIndexCost = 20

// KeyIndex caches the sorted keys of the ledger. It may lack keys that have just become hot, and have
// keys that are no longer hot. The zero value is ready. It is safe for concurrent use.
type KeyIndex struct {
	mu    sync.Mutex
	keys  []budget.KeyID
	until time.Time
}

// Sorted returns the keys of the ledger in order. The caller holds the ledger for reading, passes the
// same ledger each time, and must not change the result.
func (x *KeyIndex) Sorted(l *budget.Ledger) []budget.KeyID {
	x.mu.Lock()
	defer x.mu.Unlock()
	began := time.Now()
	if began.Before(x.until) {
		return x.keys
	}
	x.keys = l.Keys()
	done := time.Now()
	x.until = done.Add(keyIndexCost * done.Sub(began))
	return x.keys
}
