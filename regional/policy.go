package regional

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rules"
)

// rulesFile is what positions in the rules are shown under.
const rulesFile = "rules.yaml"

// clusterConfig is what the coordinators say of the cluster, as the state file
// keeps it.
type clusterConfig struct {
	ClusterID string         `json:"cluster_id"`
	Lease     time.Duration  `json:"lease_ns"`
	RhoPPM    int32          `json:"rho_ppm"`
	Regions   []regionConfig `json:"regions"`
	// Version is of the floors and all else here; a lower one is out of date.
	Version uint64 `json:"config_version"`
	// InitialEpoch is the first store contents of this region, which started full.
	InitialEpoch string `json:"initial_redis_epoch"`
	// LeaderEpoch is the epoch of the leader that opened the last session: no
	// share older than it fences a floor that was taken back since.
	LeaderEpoch uint64 `json:"leader_epoch"`
	// Secret keys the hash of client attributes; never logged.
	Secret []byte `json:"hash_secret"`
}

// regionConfig is one declared region.
type regionConfig struct {
	Name string `json:"name"`
	// Floor is what the region is told to enforce when it is cut off.
	Floor budget.Share `json:"floor"`
	// Low is the smallest floor that a bucket of the region may remember, and
	// FloorVersion the change that made it matter. Without one (0, or a file from
	// before floors could change) Low is Floor.
	Low          budget.Share `json:"low"`
	FloorVersion uint64       `json:"floor_version"`
}

// normal gives Low its meaning where no change matters.
func (r regionConfig) normal() regionConfig {
	if r.FloorVersion == 0 {
		r.Low = r.Floor
	}
	return r
}

// check refuses floors that no bucket could be cut from.
func (r *regionConfig) check() error {
	whole := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	for _, s := range []budget.Share{r.Floor, r.Low} {
		if s.Rate < 0 || s.Burst < 0 || !s.Within(whole) {
			return fmt.Errorf("the floor of region %q is out of range", r.Name)
		}
	}
	if !r.Low.Within(r.Floor) {
		return fmt.Errorf("the smallest floor of region %q is above its present one", r.Name)
	}
	return nil
}

// protocol is the part of the configuration that the budget protocol needs.
func (c *clusterConfig) protocol() budget.Config {
	out := budget.Config{Lease: c.Lease, RhoPPM: c.RhoPPM, Version: c.Version}
	for _, r := range c.Regions {
		out.Regions = append(out.Regions, budget.RegionConfig{
			Name: r.Name, Floor: r.Floor, Told: r.Floor, Low: r.Low, FloorVersion: r.FloorVersion,
		})
	}
	return out
}

// index is the place of a region, or -1.
func (c *clusterConfig) index(region string) int {
	return slices.IndexFunc(c.Regions, func(r regionConfig) bool { return r.Name == region })
}

func (c *clusterConfig) equal(o *clusterConfig) bool {
	return c.ClusterID == o.ClusterID && c.Version == o.Version && c.Lease == o.Lease && c.RhoPPM == o.RhoPPM &&
		slices.Equal(c.Regions, o.Regions) && c.InitialEpoch == o.InitialEpoch && c.LeaderEpoch == o.LeaderEpoch &&
		slices.Equal(c.Secret, o.Secret)
}

// check refuses a configuration that nothing could be enforced with.
func (c *clusterConfig) check(region string) error {
	switch {
	case c.ClusterID == "":
		return fmt.Errorf("the cluster has no id")
	case len(c.Secret) == 0:
		return fmt.Errorf("there is no secret to hash keys with")
	case c.Lease <= 0 || c.RhoPPM < 0 || c.RhoPPM > million:
		return fmt.Errorf("lease %v or drift bound %d ppm out of range", c.Lease, c.RhoPPM)
	case c.index(region) < 0:
		return fmt.Errorf("region %q is not declared", region)
	}
	for _, r := range c.Regions {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// ruleText is one version of the rules as it came.
type ruleText struct {
	Version uint64            `json:"version"`
	YAML    string            `json:"yaml"`
	Numbers map[string]uint32 `json:"numbers"`
}

// policy is what checks are decided by: one version of the rules and the cluster's
// configuration. It is immutable.
type policy struct {
	cluster clusterConfig
	// epoch is the highest epoch of a leader that opened a session here.
	epoch    uint64
	text     ruleText
	set      *rules.Set // nil until the first rules arrive
	hasher   *rules.KeyHasher
	numbers  map[string]uint32
	byNumber map[uint32]numbered
}

// numbered is what can be said of a key by its rule's number, without its client.
// The zero value is said of an unknown rule.
type numbered struct {
	// least is exact where the rule has no overrides, else the least that the key
	// could have, part by part, so that tokens are never invented.
	least       limit.Limit
	enforcement string
}

// aloneBit in a rule's number names the buckets of the time in which the rule is
// independent. They are others than those of the same keys under the budget
// protocol: the records that carry shares stay what the leader believes them to
// be, whatever the region admits alone and however often the rule changes.
const aloneBit = 1 << 31

// withRules compiles a version of the rules. On an error the policy in force stays.
func (p *policy) withRules(text ruleText) (*policy, []rules.Warning, error) {
	set, warnings, err := rules.Parse(rulesFile, []byte(text.YAML))
	if err != nil {
		return nil, nil, err
	}
	next := *p
	next.text, next.set = text, set
	next.numbers, next.byNumber = maps.Clone(text.Numbers), map[uint32]numbered{}
	for _, r := range set.Rules() {
		number, ok := text.Numbers[r.ID]
		if !ok {
			return nil, nil, fmt.Errorf("rules version %d: rule %q has no number", text.Version, r.ID)
		}
		if number >= aloneBit {
			return nil, nil, fmt.Errorf("rules version %d: rule %q has number %d; it must be below %d", text.Version, r.ID, number, aloneBit)
		}
		next.byNumber[number] = numbered{least: leastLimit(r), enforcement: r.Enforcement}
	}
	return &next, warnings, nil
}

// leastLimit is the smallest of a rule's limits, part by part.
func leastLimit(r *rules.Rule) limit.Limit {
	l := r.Limit
	for _, o := range r.Overrides() {
		l.Capacity = min(l.Capacity, o.Limit.Capacity)
		l.Rate = l.Rate.Min(o.Limit.Rate)
	}
	return l
}

// withCluster takes a configuration.
func (p *policy) withCluster(c clusterConfig) *policy {
	next := *p
	next.cluster = c
	next.hasher = rules.NewKeyHasher(c.Secret)
	return &next
}

// policies holds the policy in force. Checks read it without a lock; the reporter
// replaces it.
type policies struct {
	region  string
	log     *slog.Logger
	metrics *metrics

	current atomic.Pointer[policy]
	mu      sync.Mutex // of writers
	refused uint64     // the version of the rules last refused
	changed chan struct{}
}

func newPolicies(region string, log *slog.Logger, m *metrics) *policies {
	p := &policies{region: region, log: log, metrics: m, changed: make(chan struct{}, 1)}
	p.current.Store(&policy{})
	return p
}

// load is the policy in force; never nil.
func (p *policies) load() *policy { return p.current.Load() }

// versionSeen is the latest version of the rules that came, in force or refused:
// the leader need not send again what is refused already.
func (p *policies) versionSeen() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.load().text.Version, p.refused)
}

// ready reports whether checks can be decided.
func (p *policies) ready() bool {
	now := p.load()
	return now.set != nil && now.hasher != nil
}

// setCluster takes a configuration that was checked.
func (p *policies) setCluster(c clusterConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.load(); !now.cluster.equal(&c) {
		p.install(now.withCluster(c))
	}
}

// setEpoch notes the epoch of a leader that opens a session, and reports whether it
// is a new one.
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

// setRules takes a version of the rules, or keeps the one in force if it is bad: a
// region would rather enforce old rules than none.
func (p *policies) setRules(text ruleText) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.load()
	next, warnings, err := before.withRules(text)
	if err != nil {
		if p.refused != text.Version {
			p.metrics.reloadFailures.Inc()
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
	p.install(next)
	p.forget(before, next)
	p.metrics.rulesVersion.Set(float64(text.Version))
	p.log.Info("rules in force", "version", text.Version, "rules", len(next.set.Rules()))
	return nil
}

// install makes a policy the one in force.
func (p *policies) install(next *policy) {
	p.current.Store(next)
	p.remind()
}

// remind has the policy in force written to the state file.
func (p *policies) remind() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// forget drops the series of rules that are gone, so that labels stay within what
// is configured.
func (p *policies) forget(before, next *policy) {
	gone := map[string]bool{}
	for id := range before.numbers {
		if next.set.Rule(id) == nil {
			gone[id] = true
		}
	}
	p.metrics.forgetRules(gone)
}
