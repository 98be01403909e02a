package regional

import (
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/abuse"
	"aliquot/limit"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// rulesFile is the file name in positions in the rules.
const rulesFile = "rules.yaml"

// ruleText is one version of the rules as the coordinator sent it.
type ruleText struct {
	Version uint64            `json:"version"`
	YAML    string            `json:"yaml"`
	Numbers map[string]uint32 `json:"numbers"`
	// Entries are the entries that were set beside the file.
	Entries []rules.Entry `json:"entries,omitempty"`
}

// policy decides checks: it is one version of the rules and of the cluster's configuration. It is
// immutable.
type policy struct {
	cluster clusterConfig
	// epoch is the highest epoch of a leader that opened a session here.
	epoch uint64
	text  ruleText
	set   *rules.Set // nil until the first rules arrive
	// none: a coordinator has said that there are no rules. set is empty then.
	none bool
	// open lets requests pass while the daemon does not know whether there are rules.
	open     bool
	hasher   *rules.KeyHasher
	numbers  map[string]uint32
	byNumber map[uint32]numbered
	counts   *telemetry.DecisionCounts // of this version of the rules; nil until the first one
	// former are the rules of earlier versions, by number. least is the smallest share of a limit
	// that a cold bucket of this region may have had since then.
	former map[uint32]formerRules
	least  budget.Share
	// unixMS is when this became the policy. From fromMS to before untilMS the same overrides apply
	// as at that time. All are Unix milliseconds.
	unixMS, fromMS, untilMS int64
	// changedAt is when a limit last changed; 0 if none did.
	changedAt budget.Instant
}

// numbered holds the facts about a key that follow from its rule's number, without its client. The
// zero value belongs to an unknown rule.
type numbered struct {
	algorithm limit.Algorithm
	// least is the limit of a rule without overrides. With overrides it is the smallest limit that
	// the key could have, part by part, so that tokens are never invented. It is zero if the
	// windows differ, because the key's own window is then unknown.
	least       limit.Limit
	enforcement string
	conduct     abuse.Terms
}

// aloneBit in a rule's number names the buckets of the time in which the rule is independent. They
// differ from the buckets of the same keys under the budget protocol. So the records that carry
// shares stay as the leader believes them to be, whatever the region admits by itself and however
// often the rule changes.
const aloneBit = 1 << 31

// withRules compiles a version of the rules. On an error the policy in force stays.
func (p *policy) withRules(text ruleText) (*policy, []rules.Warning, error) {
	set, warnings := p.set, []rules.Warning(nil)
	if set == nil || p.none || text.YAML != p.text.YAML { // otherwise only entries have changed
		var err error
		if set, warnings, err = rules.Parse(rulesFile, []byte(text.YAML)); err != nil {
			return nil, nil, err
		}
	}
	set = set.With(text.Entries)
	next := *p
	next.text, next.set, next.none, next.counts = text, set, false, &telemetry.DecisionCounts{}
	next.numbers, next.byNumber = maps.Clone(text.Numbers), map[uint32]numbered{}
	for _, r := range set.Rules() {
		number, ok := text.Numbers[r.ID]
		if !ok {
			return nil, nil, fmt.Errorf("rules version %d: rule %q has no number", text.Version, r.ID)
		}
		if number >= aloneBit {
			return nil, nil, fmt.Errorf("rules version %d: rule %q has number %d; it must be below %d", text.Version, r.ID, number, aloneBit)
		}
		next.byNumber[number] = numbered{algorithm: r.Limit.Algorithm, least: leastLimit(r), enforcement: r.Enforcement, conduct: termsOf(r)}
	}
	return &next, warnings, nil
}

// takesLimits reports whether a rule accepts the limit of a descriptor.
func (p *policy) takesLimits() bool { return p.set != nil && p.set.TakesLimits() }

// leastLimit returns the smallest of a rule's limits, part by part. It is zero if their windows
// differ.
func leastLimit(r *rules.Rule) limit.Limit {
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

// known reports whether the daemon knows its rules, or knows that there are none.
func (p *policy) known() bool { return p.set != nil && p.hasher != nil }

// withCluster returns the policy with another configuration of the cluster.
func (p *policy) withCluster(c clusterConfig) *policy {
	next := *p
	next.cluster = c
	next.hasher = rules.NewKeyHasher(c.Secret)
	return &next
}

// policies holds the policy in force. Checks read it without a lock; the reporter replaces it.
type policies struct {
	region  string
	log     *slog.Logger
	metrics *telemetry.Metrics

	current atomic.Pointer[policy]
	mu      sync.Mutex // of writers
	refused uint64     // the version of the rules that was refused last
	changed chan struct{}
	now     func() budget.Instant
	seen    atomic.Int64 // when overrides were last checked, an Instant
}

// newPolicies returns policies without rules. open lets requests pass until there are some. now is
// the boot clock.
func newPolicies(region string, open bool, now func() budget.Instant, log *slog.Logger, m *telemetry.Metrics) *policies {
	p := &policies{region: region, now: now, log: log, metrics: m, changed: make(chan struct{}, 1)}
	first := &policy{open: open}
	first.turnsAt(time.Now().UnixMilli())
	p.current.Store(first)
	return p
}

// load returns the policy in force, never nil.
func (p *policies) load() *policy { return p.current.Load() }

// versionSeen returns the latest version of the rules that arrived, in force or refused. The leader
// need not send a refused version again.
func (p *policies) versionSeen() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.load().text.Version, p.refused)
}

// setCluster installs a configuration that was checked.
func (p *policies) setCluster(c clusterConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.load(); !now.cluster.equal(&c) {
		p.install(now.withCluster(c))
	}
}

// setEpoch records the epoch of a leader that opens a session, and reports whether it is new.
func (p *policies) setEpoch(epoch uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.load()
	if epoch <= now.epoch {
		return false
	}
	next := *now
	next.epoch = epoch
	p.install(&next)
	return true
}

// setRules installs a version of the rules. If the version is bad, the one in force stays: for a
// region old rules are better than none.
func (p *policies) setRules(text ruleText) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now().UnixMilli()
	before := p.turn(now)
	next, warnings, err := before.withRules(text)
	if err != nil {
		if p.refused != text.Version {
			p.metrics.ReloadFailures.Inc()
			p.log.Error("rules refused; the last good version stays in force",
				"version", text.Version, "in_force", before.text.Version, "error", err)
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
	p.log.Info("rules in force", "version", text.Version, "rules", len(next.set.Rules()))
	return nil
}

// setNone records that there are no rules. A region that has rules keeps them. Versions only rise,
// so a coordinator without rules knows less than the region.
func (p *policies) setNone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.load()
	if now.set != nil {
		return
	}
	next := *now
	next.set, next.none = emptySet(), true
	p.install(&next)
	p.log.Info("there are no rules: every request passes until some are applied")
}

// emptySet returns the set of a file without rules.
func emptySet() *rules.Set {
	set, _, err := rules.Parse(rulesFile, []byte("rules: []\n"))
	if err != nil {
		panic("regional: a file without rules cannot be read: " + err.Error()) // cannot happen: the text is a constant
	}
	return set
}

// install puts a policy in force.
func (p *policies) install(next *policy) {
	if self := next.cluster.index(p.region); self >= 0 {
		next.least = next.cluster.Regions[self].Floor.Min(next.cluster.Regions[self].Low)
	}
	p.current.Store(next)
	p.metrics.LeaseLength.Set(next.cluster.Lease.Seconds())
	p.metrics.SetDegraded(telemetry.DegradedRules, !next.known())
	p.remind()
}

// remind has the policy in force written to the state file.
func (p *policies) remind() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// forget makes the metrics count the rules that are in force from now on. It drops the series of
// rules that are gone, so that labels stay within the configured set.
func (p *policies) forget(before, next *policy) {
	gone := map[string]bool{}
	for id := range before.numbers {
		if next.set.Rule(id) == nil {
			gone[id] = true
		}
	}
	ids := make([]string, 0, len(next.set.Rules()))
	for _, r := range next.set.Rules() {
		ids = append(ids, r.ID)
	}
	p.metrics.UseRules(ids, gone)
}
