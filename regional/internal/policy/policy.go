// Package policy holds what decides checks: the rules and the cluster's configuration, by version.
package policy

import (
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/penalty"
	"aliquot/limit"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// RulesFile is the file name in positions in the rules.
const RulesFile = "rules.yaml"

// RuleText is one version of the rules as the coordinator sent it.
type RuleText struct {
	Version uint64            `json:"version"`
	YAML    string            `json:"yaml"`
	Numbers map[string]uint32 `json:"numbers"`
	// Entries are the entries that were set beside the file.
	Entries []rules.Entry `json:"entries,omitempty"`
}

// Policy decides checks: it is one version of the rules and of the cluster's configuration. It is
// immutable.
type Policy struct {
	Cluster Cluster
	// Epoch is the highest epoch of a leader that opened a session here.
	Epoch uint64
	Text  RuleText
	Set   *rules.Set // nil until the first rules arrive
	// None: a coordinator has said that there are no rules. set is empty then.
	None bool
	// Open lets requests pass while the daemon does not know whether there are rules.
	Open     bool
	Hasher   *rules.KeyHasher
	Numbers  map[string]uint32
	byNumber map[uint32]numbered
	// named returns the API keys that overrides name, by ClientHash.
	named  func() map[string]string
	Counts *telemetry.DecisionCounts // of this version of the rules; nil until the first one
	// former are the rules of earlier versions, by number. least is the smallest share of a limit
	// that a cold bucket of this region may have had since then.
	former map[uint32]formerRules
	least  budget.Share
	// unixMS is when this became the policy. From fromMS to before untilMS the same overrides apply
	// as at that time. All are Unix milliseconds.
	unixMS, fromMS, untilMS int64
	// OverridesEnded is how many overrides had ended then.
	OverridesEnded uint32
	// changedAt is when a limit last changed; 0 if none did.
	changedAt budget.Instant
}

// numbered holds the facts about a key that follow from its rule's number, without its client. The
// zero value belongs to an unknown rule.
type numbered struct {
	algorithm limit.Algorithm
	// least is the limit of a rule without overrides. With overrides it is the smallest limit that
	// the key could have, part by part, so that tokens are never invented. It is zero if the
	// windows differ, because the key's own window is then unknown, or if requests may bring a limit.
	least       limit.Limit
	Enforcement string
	// Forgives is as in rules.Rule.
	Forgives bool
	penalty  penalty.Terms
}

// IndependentBit in a rule's number names the buckets of the time in which the rule is independent. They
// differ from the buckets of the same keys under the budget protocol. So the records that carry
// shares stay as the leader believes them to be, whatever the region admits by itself and however
// often the rule changes.
const IndependentBit = 1 << 31

// withRules compiles a version of the rules. On an error the policy in force stays.
func (p *Policy) withRules(text RuleText) (*Policy, []rules.Warning, error) {
	set, warnings := p.Set, []rules.Warning(nil)
	if set == nil || p.None || text.YAML != p.Text.YAML { // otherwise only entries have changed
		var err error
		if set, warnings, err = rules.Parse(RulesFile, []byte(text.YAML)); err != nil {
			return nil, nil, err
		}
	}
	set = set.With(text.Entries)
	next := *p
	next.Text, next.Set, next.None, next.Counts = text, set, false, &telemetry.DecisionCounts{}
	next.Numbers, next.byNumber, next.named = maps.Clone(text.Numbers), map[uint32]numbered{}, namedBy(set, p.Hasher)
	for _, r := range set.Rules() {
		number, ok := text.Numbers[r.ID]
		if !ok {
			return nil, nil, fmt.Errorf("rules version %d: rule %q has no number", text.Version, r.ID)
		}
		if number >= IndependentBit {
			return nil, nil, fmt.Errorf("rules version %d: rule %q has number %d; it must be below %d", text.Version, r.ID, number, IndependentBit)
		}
		next.byNumber[number] = numbered{algorithm: r.Limit.Algorithm, least: leastLimit(r), Enforcement: r.Enforcement, Forgives: r.Forgives, penalty: TermsOf(r)}
	}
	return &next, warnings, nil
}

// TakesLimits reports whether a rule accepts the limit of a descriptor.
func (p *Policy) TakesLimits() bool { return p.Set != nil && p.Set.TakesLimits() }

// leastLimit returns the smallest of a rule's limits, part by part. It is zero if their windows
// differ, or if requests may bring limits that the rules do not say.
func leastLimit(r *rules.Rule) limit.Limit {
	if r.RequestLimit {
		return limit.Limit{}
	}
	l := r.Limit
	for _, o := range r.Overrides() {
		l.Capacity = min(l.Capacity, o.Limit.Capacity)
		l.Rate = l.Rate.Min(o.Limit.Rate)
		if o.Limit.Window != l.Window {
			return limit.Limit{}
		}
	}
	return l
}

// State says which limits the policy has.
func (p *Policy) State() budget.RulesState {
	return budget.RulesState{Version: p.Text.Version, Ended: p.OverridesEnded}
}

// Known reports whether the daemon knows its rules, or knows that there are none.
func (p *Policy) Known() bool { return p.Set != nil && p.Hasher != nil }

// withCluster returns the policy with another configuration of the cluster.
func (p *Policy) withCluster(c Cluster) *Policy {
	next := *p
	next.Cluster = c
	next.Hasher = rules.NewKeyHasher(c.Secret)
	next.named = namedBy(p.Set, next.Hasher)
	return &next
}

// Policies holds the policy in force. Checks read it without a lock; the session replaces it.
type Policies struct {
	region  string
	log     *slog.Logger
	metrics *telemetry.Metrics

	current atomic.Pointer[Policy]
	mu      sync.Mutex // of writers
	refused uint64     // the version of the rules that was refused last
	Changed chan struct{}
	now     func() budget.Instant
	seen    atomic.Int64 // when overrides were last checked, an Instant
}

// New returns policies without rules. open lets requests pass until there are some. now is
// the boot clock.
func New(region string, open bool, now func() budget.Instant, log *slog.Logger, m *telemetry.Metrics) *Policies {
	p := &Policies{region: region, now: now, log: log, metrics: m, Changed: make(chan struct{}, 1)}
	first := &Policy{Open: open}
	first.turnsAt(time.Now().UnixMilli())
	p.current.Store(first)
	return p
}

// Load returns the policy in force, never nil.
func (p *Policies) Load() *Policy { return p.current.Load() }

// VersionSeen returns the latest version of the rules that arrived, in force or refused. A Hello names it,
// so the leader does not send a refused version again with each session.
func (p *Policies) VersionSeen() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.Load().Text.Version, p.refused)
}

// SetCluster installs a configuration that was checked.
func (p *Policies) SetCluster(c Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Load(); !now.Cluster.equal(&c) {
		p.install(now.withCluster(c))
	}
}

// SetEpoch records the epoch of a leader that opens a session, and reports whether it is new.
func (p *Policies) SetEpoch(epoch uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Load()
	if epoch <= now.Epoch {
		return false
	}
	next := *now
	next.Epoch = epoch
	p.install(&next)
	return true
}

// SetRules installs a version of the rules. If the version is bad, the one in force stays: for a
// region old rules are better than none.
func (p *Policies) SetRules(text RuleText) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now().UnixMilli()
	before := p.updateLocked(now)
	next, warnings, err := before.withRules(text)
	if err != nil {
		if p.refused != text.Version {
			p.metrics.ReloadFailures.Inc()
			p.log.Error("rules refused; the last good version stays in force",
				"version", text.Version, "in_force", before.Text.Version, "error", err)
		}
		p.refused = text.Version
		return err
	}
	for _, w := range warnings {
		p.log.Warn("rules warning", "at", w.String())
	}
	p.refused = 0
	next.turnsAt(now)
	next.former = p.superseded(before, next)
	p.forget(before, next)
	p.install(next)
	p.metrics.RulesVersion.Set(float64(text.Version))
	p.log.Info("rules in force", "version", text.Version, "rules", len(next.Set.Rules()))
	return nil
}

// SetNone records that there are no rules. A region that has rules keeps them. Versions only rise,
// so a coordinator without rules knows less than the region.
func (p *Policies) SetNone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Load()
	if now.Set != nil {
		return
	}
	next := *now
	next.Set, next.None = emptySet(), true
	p.install(&next)
	p.log.Info("there are no rules: every request passes until some are applied")
}

// emptySet returns the set of a file without rules.
func emptySet() *rules.Set {
	set, _, err := rules.Parse(RulesFile, []byte("rules: []\n"))
	if err != nil {
		panic("regional: a file without rules cannot be read: " + err.Error()) // cannot happen: the text is a constant
	}
	return set
}

// install puts a policy in force.
func (p *Policies) install(next *Policy) {
	if self := next.Cluster.Index(p.region); self >= 0 {
		next.least = next.Cluster.Regions[self].Floor.Min(next.Cluster.Regions[self].Low)
	}
	p.current.Store(next)
	p.metrics.LeaseLength.Set(next.Cluster.Lease.Seconds())
	p.metrics.SetDegraded(telemetry.DegradedRules, !next.Known())
	p.Remind()
}

// Remind has the policy in force written to the state file.
func (p *Policies) Remind() {
	select {
	case p.Changed <- struct{}{}:
	default:
	}
}

// forget makes the metrics count the rules that are in force from now on. It drops the series of
// rules that are gone, so that labels stay within the configured set.
func (p *Policies) forget(before, next *Policy) {
	gone := map[string]bool{}
	for id := range before.Numbers {
		if next.Set.Rule(id) == nil {
			gone[id] = true
		}
	}
	ids := make([]string, 0, len(next.Set.Rules()))
	for _, r := range next.Set.Rules() {
		ids = append(ids, r.ID)
	}
	p.metrics.UseRules(ids, gone)
}

// limitOf returns the limit of a key: the limit that the protocol sends, or else the rule's. It
// returns false if the limit that was sent does not fit the rule's algorithm, or if neither gives
// one.
func (n *numbered) limitOf(k budget.KeyLimit) (limit.Limit, bool) {
	if k.Capacity == 0 {
		return n.least, n.least.Capacity > 0
	}
	return entitlement.Limit(k, n.algorithm)
}

// LimitOf returns the limit of a key by its rule's number and by what the protocol sends, with what
// the rules say of the number. It returns false if neither the rules here nor the protocol say how
// the limit counts.
func (p *Policy) LimitOf(rule uint32, k budget.KeyLimit) (numbered, limit.Limit, bool) {
	n, known := p.byNumber[rule]
	if !known {
		if n.algorithm, known = entitlement.AlgorithmOf(k); !known {
			return n, limit.Limit{}, false
		}
	}
	l, ok := n.limitOf(k)
	return n, l, ok
}

// TermsOf returns a rule's terms for clients that do not wait.
func TermsOf(r *rules.Rule) penalty.Terms {
	return penalty.Terms{
		CoolAfter: r.CoolDown.After, CoolMost: r.CoolDown.Most,
		BlockAfter: r.AutoBlock.After, BlockWithin: r.AutoBlock.Within, BlockFor: r.AutoBlock.For,
	}
}

// RuleNames returns the ids of rules by their numbers in keys.
func (p *Policy) RuleNames() map[uint32]string {
	out := make(map[uint32]string, len(p.Numbers))
	for id, number := range p.Numbers {
		out[number] = id
	}
	return out
}

// ConductTerms returns the terms of a rule by its number in keys. For a rule that is gone they are
// zero.
func (p *Policy) ConductTerms(number uint32) penalty.Terms {
	return p.byNumber[number&^IndependentBit].penalty
}
