package coordinator

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/coordinator/internal/leader"
	"aliquot/internal/leasewire"
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
	index      *keyIndex
	watches    chan struct{} // one slot for each open watch
	stopping   <-chan struct{}
}

// GetBudget returns the budget of one rule and key.
func (s *budgetService) GetBudget(ctx context.Context, req *aliquotv1.GetBudgetRequest) (*aliquotv1.GetBudgetResponse, error) {
	var b budgetView
	var p *limitPromise
	var err error
	s.node.View(func(state *clusterstate.State) { b, p, err = readBudget(state, req) })
	if err != nil {
		return nil, toRPC(err)
	}
	b.budget.Promise = p.toWire(leader.Conditions{})
	known := s.addLeaderState(ctx, []budgetView{b}, s.getFromLeader(req))
	if known != nil {
		b.budget.Promise = p.toWire(known.Conditions)
		residual(b.budget, b.limit, b.older, b.shares, known.Regions)
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
func readBudget(state *clusterstate.State, req *aliquotv1.GetBudgetRequest) (budgetView, *limitPromise, error) {
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
	b.limit, b.older, b.shares = leader.KeyLimit(rule, l), olderLimits(state, rule, apiKey, nowMS), enforceable(state, key)
	return b, newLimitPromise(state, rule, l), nil
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
			out.Promises[id] = limit.toWire(known.Conditions)
		case fromLeader[id] != nil:
			out.Promises[id] = fromLeader[id]
		default:
			out.Promises[id] = limit.toWire(leader.Conditions{})
		}
	}
	return out, nil
}

// page is one page of budgets with the limits of its rules, by rule id, and the token of the next page.
type page struct {
	budgets  []budgetView
	promises map[string]*limitPromise
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
	p.promises = map[string]*limitPromise{}
	s.node.View(func(state *clusterstate.State) {
		var only *rules.Rule
		if req.GetRuleId() != "" {
			if only, err = findRule(state, req.GetRuleId()); err != nil {
				return
			}
		}
		for key, rule := range hotKeys(state, s.index.sorted(&state.Ledger), only, after) {
			if len(p.budgets) == size {
				p.next = pageToken(p.budgets[size-1].key)
				return
			}
			p.budgets = append(p.budgets, viewOf(state, rule, key, rule.Limit, rule.Window))
			if p.promises[rule.ID] == nil {
				p.promises[rule.ID] = newLimitPromise(state, rule, rule.Limit)
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
