package coordinator

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/config"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// scrapePatience bounds what a scrape waits for the leader's loop.
const scrapePatience = time.Second

// metrics are what is counted as it happens. What is a state is read at the
// scrape, by collector.
type metrics struct {
	rebalanceSeconds prometheus.Histogram
	rebalanceChanges prometheus.Counter
	rulesFailures    prometheus.Counter
	reports          *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		rebalanceSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_rebalance_duration_seconds", Help: "From a plan to its commit.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}),
		rebalanceChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rebalance_changes_total", Help: "Ledger entries changed by committed plans.",
		}),
		rulesFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rules_reload_failures_total", Help: "Rules refused because they are invalid.",
		}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_reports_total", Help: "Reports taken here as the leader, by what became of them.",
		}, []string{"region", "result"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "aliquot_build_info", Help: "Always 1; the labels say what is running.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(config.Version(), runtime.Version()).Set(1)
	reg.MustRegister(m.rebalanceSeconds, m.rebalanceChanges, m.rulesFailures, m.reports, build)
	return m
}

// countReport counts one report of a declared region.
func (m *metrics) countReport(region string, res *aliquotv1.ReportResponse, err error) {
	result := "answered"
	switch {
	case err != nil:
		result = "refused"
	case res.GetRenew():
		result = "renewed"
	}
	m.reports.WithLabelValues(region, result).Inc()
}

// collector reads the state of the cluster at each scrape. Its labels are the
// rules in force and the declared regions, nothing else.
type collector struct {
	node       *cluster.Node
	leadership *leadership
	index      *keyIndex
	desc       descriptions
}

// descriptions of the metrics that collector reads.
type descriptions struct {
	hotKeys, version, share, bound, lease, admitted, utilisation, excess *prometheus.Desc
}

func newDescriptions() descriptions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("aliquot_"+name, help, labels, nil)
	}
	return descriptions{
		hotKeys:     desc("hot_keys", "Keys with shares of their own."),
		version:     desc("rules_version", "Version of the rules in force."),
		share:       desc("budget_share_ratio", "Mean share of the rate over the rule's hot keys; the floor if none is hot.", "rule", "region"),
		bound:       desc("excess_bound_tokens", "Tokens above capacity + rate x time that could ever be admitted for one key.", "rule"),
		lease:       desc("lease_remaining_seconds", "Of the region's lease, as the leader knows it.", "region"),
		admitted:    desc("global_admitted_total", "Cost admitted for hot keys, as reported to this leader.", "rule", "region"),
		utilisation: desc("global_limit_utilisation_ratio", "Cost admitted over the last 10 s, of what the limits of the rule's hot keys refill.", "rule"),
		excess:      desc("excess_observed_tokens", "Most that one key was ever seen above capacity + rate x time.", "rule"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	d := c.desc
	for _, d := range []*prometheus.Desc{d.hotKeys, d.version, d.share, d.bound, d.lease, d.admitted, d.utilisation, d.excess} {
		out <- d
	}
}

// scene is what one scrape reads of the replicated state.
type scene struct {
	hotKeys int
	version uint64
	regions []string
	floors  []float64
	numbers map[string]uint32
	shares  map[uint32][]float64 // by rule number, sums by region
	keys    map[uint32]float64
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.scene()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.desc.hotKeys, float64(s.hotKeys))
	gauge(c.desc.version, float64(s.version))
	for id, number := range s.numbers {
		gauge(c.desc.bound, 0, id) // every rule is strict so far
		for i, region := range s.regions {
			share := s.floors[i]
			if n := s.keys[number]; n > 0 {
				share = s.shares[number][i] / n
			}
			gauge(c.desc.share, share, id, region)
		}
	}
	c.collectLeader(s, out, gauge)
}

// collectLeader adds what only a leader knows.
func (c *collector) collectLeader(s scene, out chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64, ...string)) {
	reign := c.leadership.current()
	if reign == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	var regions []budget.RegionStatus
	sums := map[uint32]tallyRule{}
	err := reign.ask(ctx, func(m *budget.Leader, now budget.Instant) {
		for i := range s.regions {
			regions = append(regions, m.Region(i, now))
		}
		sums = reign.tally.sums()
	})
	if err != nil {
		return
	}
	for i, region := range s.regions {
		gauge(c.desc.lease, regions[i].LeaseRemaining.Seconds(), region)
	}
	for id, number := range s.numbers {
		sum := sums[number]
		gauge(c.desc.utilisation, sum.utilisation, id)
		gauge(c.desc.excess, sum.excess, id)
		for i, region := range s.regions {
			admitted := 0.0
			if i < len(sum.admitted) {
				admitted = sum.admitted[i]
			}
			out <- prometheus.MustNewConstMetric(c.desc.admitted, prometheus.CounterValue, admitted, id, region)
		}
	}
}

func (c *collector) scene() scene {
	s := scene{numbers: map[string]uint32{}, shares: map[uint32][]float64{}, keys: map[uint32]float64{}}
	c.node.View(func(state *cluster.State) {
		s.hotKeys, s.version = state.Ledger.Len(), state.Rules.Version
		for _, r := range state.Ledger.Config.Regions {
			s.regions, s.floors = append(s.regions, r.Name), append(s.floors, fraction(r.Floor.Rate))
		}
		for id, number := range state.Rules.Numbers {
			s.numbers[id] = number
			s.shares[number] = make([]float64, len(s.regions))
		}
		for key := range hotKeys(state, c.index.sorted(&state.Ledger), nil, nil) {
			s.keys[key.Rule]++
			for i, share := range state.Ledger.Shares(key) {
				s.shares[key.Rule][i] += fraction(share.Rate)
			}
		}
	})
	return s
}
