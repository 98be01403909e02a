// Package telemetry has the metrics of a regional daemon.
package telemetry

import (
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sony/gobreaker/v2"
)

// Metrics are the daemon's own metrics, under the names that dashboards rely on. A nil metrics
// counts no decisions. Labels come from configured sets only: fixed words, and the ids of the rules
// in force.
type Metrics struct {
	rulesMu   sync.RWMutex
	goneRules map[string]bool // the rules that the latest change removed
	// rules holds the counters of the rules in force, by rule id.
	rules atomic.Pointer[map[string]*ruleCounters]

	Region          string
	decisions       *prometheus.CounterVec
	offered         *prometheus.CounterVec
	admitted        *prometheus.CounterVec
	localHits       prometheus.Counter
	DecisionSeconds prometheus.Histogram
	StoreSeconds    *prometheus.HistogramVec
	StoreErrors     *prometheus.CounterVec
	CallGroups      prometheus.Histogram
	breaker         prometheus.Gauge
	circuits        *prometheus.GaugeVec
	openShards      openShards
	degraded        *prometheus.GaugeVec
	Reports         *prometheus.CounterVec
	borrows         *prometheus.CounterVec
	RulesVersion    prometheus.Gauge
	LeaseLength     prometheus.Gauge
	ReloadFailures  prometheus.Counter
	UnknownTier     prometheus.Counter
	Panics          prometheus.Counter
	Overload        prometheus.Counter
	coolDowns       *prometheus.CounterVec
	autoBlocks      *prometheus.CounterVec
	Throttled       prometheus.Counter
	ThrottleEnds    prometheus.Counter
	StreamWaits     prometheus.Counter
	StreamsEnded    map[string]prometheus.Counter // by reason
}

// The reasons for which the daemon is degraded.
const (
	DegradedStore = "store"    // the breaker is open, or the store answers too late for its callers
	degradedShard = "shard"    // the breaker of one node of a Redis Cluster is open
	DegradedLease = "lease"    // there is no lease, so shares do not hold
	DegradedRules = "no_rules" // the daemon does not know yet whether there are rules
	DegradedWaits = "waits"    // another daemon of the region may be admitting without the store
	// There is no session although coordinators answer: the lease will end, and no usage is
	// reported.
	DegradedSession = "session"
)

// seconds are histogram buckets, from the time that memory takes to the time of a stalled store.
var seconds = []float64{
	.000_02, .000_05, .000_1, .000_2, .000_35, .000_5, .000_75, .001, .0015, .002, .003, .005, .01, .025, .05, .1, .25,
}

// New creates and registers the metrics of a region's daemon.
func New(region, version string, reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		Region: region,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_decisions_total",
			Help: "Decisions of limits, by outcome and by what decided. The rule is empty if no rule was asked.",
		}, []string{"region", "rule", "outcome", "mode"}),
		offered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_offered_tokens_total",
			Help: "Cost that the limits of a rule were asked for. A cost above the capacity, which can never be admitted, does not count.",
		}, []string{"region", "rule"}),
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_admitted_tokens_total",
			Help: "Cost that the limits of a rule admitted. A request that another rule denied consumes nothing and does not count.",
		}, []string{"region", "rule"}),
		localHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_local_cache_hits_total",
			Help: "Decisions from memory, without a call of the store.",
		}),
		DecisionSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_decision_duration_seconds", Help: "Time to answer one Check or CheckBatch.", Buckets: seconds,
		}),
		StoreSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aliquot_store_duration_seconds", Help: "Time of one call of the regional store.", Buckets: seconds,
		}, []string{"op"}),
		StoreErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_store_errors_total", Help: "Calls of the regional store that failed, by reason.",
		}, []string{"op", "reason"}),
		CallGroups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_store_call_groups", Help: "Checks that one call of the regional store decided.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
		breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_store_breaker_state",
			Help: "State of the breaker before the regional store: 0 closed, 1 half open (one call tries), 2 open.",
		}),
		circuits: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aliquot_store_circuit_open",
			Help: "1 while a breaker is open and each rule's on_redis_failure decides. The shard is store, or a node of a Redis Cluster, which is listed only while its breaker is open.",
		}, []string{"shard"}),
		degraded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aliquot_degraded", Help: "1 while the region is degraded for this reason.",
		}, []string{"reason"}),
		Reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_reports_total", Help: "Hellos and reports sent to the coordinators, by outcome.",
		}, []string{"region", "result"}),
		borrows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_borrow_waits_total",
			Help: "Checks that waited for a share to move here, by result: the share moved, the time ended, too many waited (full) or the caller left (gone).",
		}, []string{"region", "result"}),
		LeaseLength: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_lease_seconds", Help: "How long a lease of this region lasts from its renewal. 0 until a coordinator has told it.",
			ConstLabels: prometheus.Labels{"region": region},
		}),
		RulesVersion: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_rules_version", Help: "Version of the rules in force here.",
		}),
		ReloadFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rules_reload_failures_total", Help: "Versions of the rules that were refused here.",
		}),
		UnknownTier: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_unknown_tier_total",
			Help: "Decisions on requests that name a tier which the rules do not know. Such a request counts as one without a tier.",
		}),
		Overload: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_overload_total", Help: "Calls that were refused because too many were waiting. Over Envoy's protocol on_redis_failure decided them.",
		}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_panics_total", Help: "Calls that failed because of a bug. The log has the place.",
		}),
	}
	m.circuits.WithLabelValues(wholeStore).Set(0)
	m.newPenaltyMetrics(reg)
	m.newStreamMetrics(reg)
	m.UseRules(nil, nil)
	m.degraded.WithLabelValues(DegradedStore).Set(0)
	m.degraded.WithLabelValues(degradedShard).Set(0)
	m.degraded.WithLabelValues(DegradedLease).Set(1)
	m.degraded.WithLabelValues(DegradedRules).Set(1)
	m.degraded.WithLabelValues(DegradedWaits).Set(0)
	m.degraded.WithLabelValues(DegradedSession).Set(0)
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "aliquot_build_info", Help: "Always 1. The labels have the versions of the program and of Go.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	reg.MustRegister(m.decisions, m.offered, m.admitted, m.localHits, m.DecisionSeconds, m.StoreSeconds, m.StoreErrors, m.CallGroups,
		m.breaker, m.circuits, m.degraded, m.Reports, m.borrows, m.RulesVersion, m.LeaseLength, m.ReloadFailures, m.UnknownTier, m.Panics, m.Overload, build,
		goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// goCollector exports Go's own metrics of a process, and the size of its live heap. The heap in use
// also contains garbage, whose amount says nothing about the daemon.
func goCollector() prometheus.Collector {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live))
}

// SetDegraded sets or clears one reason.
func (m *Metrics) SetDegraded(reason string, on bool) {
	value := 0.0
	if on {
		value = 1
	}
	m.degraded.WithLabelValues(reason).Set(value)
}

// SetBreaker records the breaker's state. The metric's values are gobreaker's numbers.
func (m *Metrics) SetBreaker(s gobreaker.State) {
	m.breaker.Set(float64(s))
	open := 0.0
	if s != gobreaker.StateClosed {
		open = 1
	}
	m.circuits.WithLabelValues(wholeStore).Set(open)
}

// wholeStore is the label of the breaker for the whole store.
const wholeStore = "store"

// openShards are the nodes of a Redis Cluster whose breaker is open.
type openShards struct {
	mu  sync.Mutex
	set map[string]bool
}

// SetShard records the state of a node's breaker. The nodes come from the cluster's own
// configuration. A node has a series only while its breaker is open.
func (m *Metrics) SetShard(node string, open bool) {
	m.openShards.mu.Lock()
	defer m.openShards.mu.Unlock()
	if open {
		if m.openShards.set == nil {
			m.openShards.set = map[string]bool{}
		}
		m.openShards.set[node] = true
		m.circuits.WithLabelValues(node).Set(1)
	} else {
		delete(m.openShards.set, node)
		m.circuits.DeleteLabelValues(node)
	}
	m.SetDegraded(degradedShard, len(m.openShards.set) > 0)
}

// CountBorrow counts a check that waited for a share, or that found no room to wait.
func (m *Metrics) CountBorrow(result string) { m.borrows.WithLabelValues(m.Region, result).Inc() }
