package regional

import (
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sony/gobreaker/v2"

	"aliquot/budget"
)

// metrics are the daemon's own metrics, under the names that dashboards rely on. A nil metrics
// counts no decisions. Labels come from configured sets only: fixed words, and the ids of the rules
// in force.
type metrics struct {
	rulesMu   sync.RWMutex
	goneRules map[string]bool // the rules that the latest change removed
	// rules holds the counters of the rules in force, by rule id.
	rules atomic.Pointer[map[string]*ruleCounters]

	region          string
	decisions       *prometheus.CounterVec
	offered         *prometheus.CounterVec
	admitted        *prometheus.CounterVec
	localHits       prometheus.Counter
	decisionSeconds prometheus.Histogram
	storeSeconds    *prometheus.HistogramVec
	storeErrors     *prometheus.CounterVec
	callGroups      prometheus.Histogram
	breaker         prometheus.Gauge
	circuits        *prometheus.GaugeVec
	openShards      openShards
	degraded        *prometheus.GaugeVec
	reports         *prometheus.CounterVec
	borrows         *prometheus.CounterVec
	rulesVersion    prometheus.Gauge
	leaseLength     prometheus.Gauge
	reloadFailures  prometheus.Counter
	unknownTier     prometheus.Counter
	panics          prometheus.Counter
	overload        prometheus.Counter
	coolDowns       *prometheus.CounterVec
	autoBlocks      *prometheus.CounterVec
	throttled       prometheus.Counter
	throttleEnds    prometheus.Counter
	streamWaits     prometheus.Counter
	streamsEnded    map[string]prometheus.Counter // by reason
}

// The reasons for which the daemon is degraded.
const (
	degradedStore = "store"    // the breaker is open
	degradedShard = "shard"    // the breaker of one node of a Redis Cluster is open
	degradedLease = "lease"    // there is no lease, so shares do not hold
	degradedRules = "no_rules" // the daemon does not know yet whether there are rules
	degradedWaits = "waits"    // another daemon of the region may be admitting without the store
	// There is no session although coordinators answer: the lease will end, and no usage is
	// reported.
	degradedSession = "session"
)

// seconds are histogram buckets, from the time that memory takes to the time of a stalled store.
var seconds = []float64{
	.000_02, .000_05, .000_1, .000_2, .000_35, .000_5, .000_75, .001, .0015, .002, .003, .005, .01, .025, .05, .1, .25,
}

func newMetrics(region, version string, reg prometheus.Registerer) *metrics {
	m := &metrics{
		region: region,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_decisions_total",
			Help: "Decisions by limit: what came out and what decided. The rule is empty where none was asked.",
		}, []string{"region", "rule", "outcome", "mode"}),
		offered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_offered_tokens_total",
			Help: "Cost asked of a rule's limits. A cost above the capacity, which can never be admitted, is left out.",
		}, []string{"region", "rule"}),
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_admitted_tokens_total",
			Help: "Cost that a rule's limits admitted. What another rule denied consumes nothing and is left out.",
		}, []string{"region", "rule"}),
		localHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_local_cache_hits_total",
			Help: "Limits decided from what was borrowed of the store, or known of it, without asking it.",
		}),
		decisionSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_decision_duration_seconds", Help: "Time to answer one Check or CheckBatch.", Buckets: seconds,
		}),
		storeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aliquot_store_duration_seconds", Help: "Time of one call to the regional store.", Buckets: seconds,
		}, []string{"op"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_store_errors_total", Help: "Calls to the regional store that failed.",
		}, []string{"op", "reason"}),
		callGroups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aliquot_store_call_groups", Help: "Checks that one call to the regional store decided.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
		breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_store_breaker_state",
			Help: "The breaker before the regional store: 0 closed, 1 half open (one call tries), 2 open.",
		}),
		circuits: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aliquot_store_circuit_open",
			Help: "1 while a breaker is open and each rule's on_redis_failure decides: of the whole store, or of a node of a Redis Cluster, which is there while its is open.",
		}, []string{"shard"}),
		degraded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aliquot_degraded", Help: "1 while the region is degraded for this reason.",
		}, []string{"reason"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_reports_total", Help: "Hellos and reports sent to the coordinators, by outcome.",
		}, []string{"region", "result"}),
		borrows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_borrow_waits_total",
			Help: "Checks that waited for the share of a limit that has a home: it moved here, or its time expired, too many waited (full), the caller left (gone).",
		}, []string{"region", "result"}),
		leaseLength: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_lease_seconds", Help: "How long a lease of this region lasts from its renewal; 0 before a coordinator has told it.",
			ConstLabels: prometheus.Labels{"region": region},
		}),
		rulesVersion: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_rules_version", Help: "Version of the rules in force here.",
		}),
		reloadFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_rules_reload_failures_total", Help: "Versions of the rules that were refused here.",
		}),
		unknownTier: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_unknown_tier_total",
			Help: "Decisions on requests that name a tier which neither a rule nor the tiers of the file know: it counts as none named.",
		}),
		overload: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_overload_total", Help: "Calls that found no turn to be decided: refused, or over Envoy's protocol decided by on_redis_failure.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aliquot_panics_total", Help: "Calls that failed by a bug: they panicked, and the log tells where.",
		}),
	}
	m.circuits.WithLabelValues(wholeStore).Set(0)
	m.conduct(reg)
	m.streams(reg)
	m.useRules(nil, nil)
	m.degraded.WithLabelValues(degradedStore).Set(0)
	m.degraded.WithLabelValues(degradedShard).Set(0)
	m.degraded.WithLabelValues(degradedLease).Set(1)
	m.degraded.WithLabelValues(degradedRules).Set(1)
	m.degraded.WithLabelValues(degradedWaits).Set(0)
	m.degraded.WithLabelValues(degradedSession).Set(0)
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "aliquot_build_info", Help: "Always 1; the labels say what runs.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	reg.MustRegister(m.decisions, m.offered, m.admitted, m.localHits, m.decisionSeconds, m.storeSeconds, m.storeErrors, m.callGroups,
		m.breaker, m.circuits, m.degraded, m.reports, m.borrows, m.rulesVersion, m.leaseLength, m.reloadFailures, m.unknownTier, m.panics, m.overload, build,
		goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// goCollector exports Go's own metrics of a process, and the size of its live heap. The heap in use
// also contains garbage, whose amount says nothing about the daemon.
func goCollector() prometheus.Collector {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live))
}

// watch exports the values of the state machine and of the chunks, which are read at each scrape.
func (m *metrics) watch(auth *authority, reg prometheus.Registerer) {
	lease := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_lease_remaining_seconds", Help: "Until this region's lease ends; 0 without one.",
		ConstLabels: prometheus.Labels{"region": m.region},
	}, func() float64 { return auth.info().LeaseRemaining.Seconds() })
	hot := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_hot_keys", Help: "Keys with a share of their own in this region.",
	}, func() float64 { return float64(auth.info().HotKeys) })
	lost := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "aliquot_chunks_lost_total",
		Help: "Chunks, or rests of them, that ended before they were spent or back in the store: a call failed, or this process had no CPU.",
	}, func() float64 { return float64(auth.local.lost.Load()) })
	borrowed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_local_keys_active", Help: "Keys of which something is borrowed, or was decided from memory just now.",
	}, func() float64 { return float64(auth.local.activeKeys()) })
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_local_keys", Help: "Keys that can be decided from memory; at most 65,536.",
	}, func() float64 { return float64(auth.local.keys()) })
	reg.MustRegister(lease, hot, lost, borrowed, known)
	for _, phase := range []budget.Phase{budget.Live, budget.Limbo, budget.CutOff} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "aliquot_phase",
			Help:        "1 for what the region enforces: live: its shares; limbo: the smaller of share and floor; floor: its floor.",
			ConstLabels: prometheus.Labels{"region": m.region, "phase": phase.String()},
		}, func() float64 {
			if auth.info().Phase == phase {
				return 1
			}
			return 0
		}))
	}
}

// watchSession exports for how long the region has been heard without a session. It also exports
// how far the application of shares in the store has come.
func (m *metrics) watchSession(r *reporter, reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "aliquot_session_seconds_without",
		Help:        "For how long this region has had no session though coordinators answer it; 0 with a session, and while none answers.",
		ConstLabels: prometheus.Labels{"region": m.region},
	}, func() float64 { return r.without().Seconds() }))
	for state, keys := range map[string]func(budget.RegionInfo) int{
		"told":    func(i budget.RegionInfo) int { return i.Applying },
		"applied": func(i budget.RegionInfo) int { return i.Applied },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "aliquot_apply_keys",
			Help:        "Keys of the directive that is being applied in the store: those it tells a share of, and those that have it. 0 while none is.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(keys(r.auth.info())) }))
	}
}

// setDegraded sets or clears one reason.
func (m *metrics) setDegraded(reason string, on bool) {
	value := 0.0
	if on {
		value = 1
	}
	m.degraded.WithLabelValues(reason).Set(value)
}

// breakerIs records the breaker's state. The metric's values are gobreaker's numbers.
func (m *metrics) breakerIs(s gobreaker.State) {
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

// shardIs records the state of a node's breaker. The nodes come from the cluster's own
// configuration. A node has a series only while its breaker is open.
func (m *metrics) shardIs(node string, open bool) {
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
	m.setDegraded(degradedShard, len(m.openShards.set) > 0)
}

// borrowed counts a check that waited for a share, or that found no room to wait.
func (m *metrics) borrowed(result string) { m.borrows.WithLabelValues(m.region, result).Inc() }

// turnedAway counts checks that the store did not decide although no call to it failed as a whole.
func (m *metrics) turnedAway(err error) { m.storeErrors.WithLabelValues("take", reason(err)).Inc() }
