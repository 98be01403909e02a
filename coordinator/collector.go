package coordinator

import (
	"context"
	"time"

	clusterstate "aliquot/cluster/state"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/coordinator/internal/audit"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/service"
	"aliquot/rules"
)

// scrapeTimeout bounds how long a scrape waits for the leader's loop.
const scrapeTimeout = time.Second

// collector reads the state of the cluster at each scrape. Its labels are the rules in force, the
// declared regions and constants.
type collector struct {
	node       *cluster.Node
	leadership *leader.Leadership
	index      *service.KeyIndex
	desc       descriptions
}

// descriptions describe the metrics of collector. Only a leader knows those from lease on, and refused.
type descriptions struct {
	rollout, version, hotKeys, refused, epoch, leader *prometheus.Desc
	enforcement, capacity, refill, bound, ruleKeys    *prometheus.Desc // by rule
	violations                                        *prometheus.Desc // by rule
	share, pool, floor                                *prometheus.Desc
	lease, state                                      *prometheus.Desc // by region
	admitted, offered                                 *prometheus.Desc // by rule and region
	hotLimit, utilisation, gain, excess, shortfall    *prometheus.Desc // by rule
}

func newDescriptions() descriptions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("aliquot_"+name, help, labels, nil)
	}
	return descriptions{
		version: desc("rules_version", "Version of the rules in force."),
		rollout: desc("rules_rollout", "1 for the state of the staged roll-out, or of the last one until the rules change again: staged, promoted, halted or aborted.", "state"),
		hotKeys: desc("hot_keys", "Keys with shares of their own."),
		refused: desc("hot_keys_refused", "Keys that stay at their floors because the table of hot keys is full or crowded. Only the leader knows them."),
		epoch:   desc("leader_epoch", "Epoch of the latest leader of the budgets, as far as this node has applied it."),
		leader:  desc("leader", "1 while this node is in charge of the budgets."),

		enforcement: desc("rule_enforcement", "Always 1. The label says how the rule is enforced: strict, elastic or independent.", "rule", "enforcement"),
		capacity:    desc("limit_capacity_tokens", "Burst of the rule's limit, for a key without an override.", "rule"),
		refill:      desc("limit_refill_tokens_per_second", "Rate of the rule's limit, for a key without an override.", "rule"),
		bound:       desc("excess_bound_tokens", "Tokens above capacity + rate x time that could ever be admitted for one key. Independent rules, which are not coordinated, have none.", "rule"),
		ruleKeys:    desc("rule_hot_keys", "Keys of the rule with shares of their own.", "rule"),
		share:       desc("budget_share_ratio", "Mean share of the region in the rate over the rule's hot keys, or its floor if no key is hot.", "rule", "region"),
		pool:        desc("budget_pool_ratio", "Part of the rate that no region holds, as a mean over the rule's hot keys.", "rule"),
		floor:       desc("region_floor_ratio", "Part of any limit that the region enforces when it is cut off.", "region"),

		lease: desc("lease_remaining_seconds", "Time until the region's lease ends, as the leader knows it.", "region"),
		state: desc("region_state", "1 for the state of the region, as the leader sees it: live, silent (not heard for a lease), joining (without a floor "+
			"yet), leaving (drained, but not at its end) or gone.", "region", "state"),
		admitted:    desc("global_admitted_total", "Cost admitted for hot keys, as regions reported it to this leader.", "rule", "region"),
		offered:     desc("global_offered_total", "Cost that hot keys asked for, as regions reported it to this leader.", "rule", "region"),
		hotLimit:    desc("hot_limit_tokens_per_second", "Sum of the rates of the rule's hot keys that are in use.", "rule"),
		utilisation: desc("global_limit_utilisation_ratio", "Cost admitted over the last 10 s, divided by what the limits of the rule's hot keys refill.", "rule"),
		gain: desc("global_gain_ratio", "Admitted cost divided by capacity + rate x time, of the worst hot key of the rule and the worst interval of the last 10 "+
			"s. Only cost that was admitted in the interval for certain counts. Above 1 means more than the limit.", "rule"),
		excess: desc("excess_observed_tokens", "The most tokens by which one key was seen above capacity + rate x time in the last 5 to 10 minutes. It is a certain "+
			"lower bound: doubtful cost counts as within the limit, and cost from before the key became hot, or under another leader,"+
			" does not count.", "rule"),
		shortfall: desc("shortfall_observed_tokens", "The most tokens that one region refused one key within 30 s although the limit had them, in the last 5 to 10 minutes. "+
			"Only windows count in which the region refused all the time, every region was heard, and the share had had its promised "+
			"time to follow.", "rule"),
		violations: desc("bound_violations_total", "Times that one key was certainly seen beyond the promise of its rule while this node led: by a token, and again for each"+
			" further tenth of the capacity. The log has the evidence.", "rule"),
	}
}

// all returns the descriptions in the order of their declaration.
func (d *descriptions) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.rollout, d.version, d.hotKeys, d.refused, d.epoch, d.leader, d.enforcement, d.capacity, d.refill, d.bound, d.ruleKeys, d.share, d.pool, d.floor,
		d.lease, d.state, d.admitted, d.offered, d.hotLimit, d.utilisation, d.gain, d.excess, d.shortfall, d.violations,
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.desc.all() {
		out <- d
	}
}

// sink receives the samples of one scrape.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s, to := c.snapshot(), sink(out)
	to.gauge(c.desc.version, float64(s.version))
	for _, state := range clusterstate.RolloutStates() {
		value := 0.0
		if state == s.rollout {
			value = 1
		}
		to.gauge(c.desc.rollout, value, state)
	}
	to.gauge(c.desc.hotKeys, float64(s.hotKeys))
	to.gauge(c.desc.epoch, float64(s.epoch))
	for _, r := range s.regions {
		to.gauge(c.desc.floor, leader.Fraction(r.Told.Rate), r.Name)
	}
	for i := range s.rules {
		s.rules[i].violations = float64(c.leadership.Breaches(s.rules[i].number))
		c.collectRule(&s.rules[i], s.regions, to)
	}
	loop := c.leadership.Current()
	if loop == nil {
		to.gauge(c.desc.leader, 0)
		return
	}
	to.gauge(c.desc.leader, 1)
	c.collectLeader(loop, s, to)
}

// collectRule sends what every node knows of a rule.
func (c *collector) collectRule(r *ruleSnapshot, regions []budget.RegionConfig, to sink) {
	id := r.rule.ID
	to.gauge(c.desc.enforcement, 1, id, r.rule.Enforcement)
	to.gauge(c.desc.capacity, float64(r.rule.Limit.Capacity)/leader.MicroToken, id)
	to.gauge(c.desc.refill, leader.RatePerSecond(r.rule.Limit), id)
	if !r.coordinated() {
		return
	}
	to.gauge(c.desc.bound, r.bound, id)
	to.counter(c.desc.violations, r.violations, id)
	to.gauge(c.desc.ruleKeys, r.keys, id)
	pool := 1.0
	for i, region := range regions {
		share := leader.Fraction(region.Floor.Rate)
		if r.keys > 0 {
			share = r.shares[i] / r.keys
		}
		pool -= share
		to.gauge(c.desc.share, share, id, region.Name)
	}
	to.gauge(c.desc.pool, max(0, pool), id)
}

// collectLeader sends what only the leader knows.
func (c *collector) collectLeader(loop *leader.Loop, s snapshot, to sink) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	known, err := loop.Snapshot(ctx, len(s.regions))
	if err != nil {
		return
	}
	to.gauge(c.desc.refused, float64(known.Refused))
	for i, known := range known.Regions {
		to.gauge(c.desc.lease, known.LeaseRemaining.Seconds(), s.regions[i].Name)
		is := regionState(&s.regions[i], known.Live)
		for _, state := range regionStates {
			value := 0.0
			if state == is {
				value = 1
			}
			to.gauge(c.desc.state, value, s.regions[i].Name, state)
		}
	}
	for i := range s.rules {
		if r := &s.rules[i]; r.coordinated() {
			c.collectTotals(r.rule.ID, known.Totals[r.number], s.regions, to)
		}
	}
}

// collectTotals sends the sums of the audit for one rule.
func (c *collector) collectTotals(id string, sum audit.Totals, regions []budget.RegionConfig, to sink) {
	to.gauge(c.desc.hotLimit, sum.RefillRate, id)
	to.gauge(c.desc.utilisation, sum.Utilisation, id)
	to.gauge(c.desc.gain, sum.Gain, id)
	to.gauge(c.desc.excess, sum.Excess, id)
	to.gauge(c.desc.shortfall, sum.Shortfall, id)
	for i, region := range regions {
		var admitted, offered float64
		if i < len(sum.Admitted) {
			admitted, offered = sum.Admitted[i], sum.Offered[i]
		}
		to.counter(c.desc.admitted, admitted, id, region.Name)
		to.counter(c.desc.offered, offered, id, region.Name)
	}
}

// States of a region in region_state.
const (
	regionLive    = service.StateLive
	regionSilent  = service.StateSilent
	regionJoining = "joining"
	regionLeaving = "leaving"
	regionGone    = "gone"
)

// regionStates are the values of the label of region_state.
var regionStates = [...]string{regionLive, regionSilent, regionJoining, regionLeaving, regionGone}

func regionState(r *budget.RegionConfig, live bool) string {
	switch {
	case r.Takes() && !r.Joined:
		return regionJoining
	case r.Takes() && live:
		return regionLive
	case r.Takes():
		return regionSilent
	case r.Floor != budget.Share{} || r.Told != budget.Share{}:
		return regionLeaving
	}
	return regionGone
}

// snapshot is what one scrape reads of the replicated state.
type snapshot struct {
	hotKeys        int
	version, epoch uint64
	rollout        string // state of the roll-out; "" without one
	regions        []budget.RegionConfig
	rules          []ruleSnapshot
}

// ruleSnapshot is what one scrape reads of a rule.
type ruleSnapshot struct {
	rule   *rules.Rule
	number uint32
	bound  float64   // tokens
	keys   float64   // number of hot keys
	shares []float64 // sum over the hot keys, by region

	violations float64
}

func (r *ruleSnapshot) coordinated() bool { return r.rule.Enforcement != rules.Independent }

func (c *collector) snapshot() snapshot {
	var s snapshot
	c.node.View(func(state *clusterstate.State) {
		config := &state.Ledger.Config
		s.hotKeys, s.version, s.epoch = state.Ledger.Len(), state.Rules.Version, state.Ledger.Epoch
		if r := state.Rules.Rollout; r != nil {
			s.rollout = r.State
		}
		s.regions = append(s.regions, config.Regions...)
		at := map[uint32]int{}
		for id, number := range state.Rules.Numbers {
			rule := state.Rules.Set.Rule(id)
			if rule == nil {
				continue
			}
			at[number] = len(s.rules)
			s.rules = append(s.rules, ruleSnapshot{
				rule: rule, number: number, bound: excessBound(rule, config), shares: make([]float64, len(config.Regions)),
			})
		}
		for key := range service.HotKeys(state, c.index.Sorted(&state.Ledger), nil, nil) {
			r := &s.rules[at[key.Rule]]
			r.keys++
			for i, share := range state.Ledger.Shares(key) {
				r.shares[i] += leader.Fraction(share.Rate)
			}
		}
	})
	return s
}

// excessBound returns the promised excess of the rule's largest limit, in tokens: the observed excess
// is that of the worst key.
func excessBound(rule *rules.Rule, config *budget.Config) float64 {
	largest := rule.Limit
	for _, o := range rule.Overrides() {
		if o.Limit.Capacity > largest.Capacity {
			largest = o.Limit
		}
	}
	return leader.Tokens(leader.PromiseTerms(rule, leader.KeyLimit(rule, largest), config, leader.Conditions{}).Promise().Excess)
}
