package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/cluster/raftnet"
)

// raftStates are the values of the state label.
var raftStates = [...]raft.RaftState{raft.Follower, raft.Candidate, raft.Leader, raft.Shutdown}

// metrics are a node's own. A nil *metrics counts nothing.
type metrics struct {
	registerer      prometheus.Registerer
	registered      []prometheus.Collector
	apply           prometheus.Histogram
	snapshotSeconds prometheus.Histogram
	snapshotBytes   prometheus.Gauge
	refused         *prometheus.CounterVec
}

// newMetrics returns nil for no registerer.
func newMetrics(registerer prometheus.Registerer) *metrics {
	if registerer == nil {
		return nil
	}
	m := &metrics{
		registerer: registerer,
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "aliquot_raft_apply_seconds",
			Help:    "Time from proposing a command on the leader to its application.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14), // 0.5 ms to 4 s
		}),
		snapshotSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "aliquot_raft_snapshot_seconds",
			Help:    "Time to write a snapshot, the leader's own or one received.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8), // 1 ms to 16 s
		}),
		snapshotBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aliquot_raft_snapshot_bytes", Help: "Size of the latest snapshot written.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aliquot_raft_refused_total", Help: "Raft messages and answers of other servers that were refused, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range raftnet.RefusedReasons {
		m.refused.WithLabelValues(reason)
	}
	return m
}

// register registers all metrics. Raft must be running.
func (m *metrics) register(n *Node) error {
	if m == nil {
		return nil
	}
	for _, c := range append(gauges(n), m.apply, m.snapshotSeconds, m.snapshotBytes, m.refused) {
		if err := m.registerer.Register(c); err != nil {
			return fmt.Errorf("cluster: register metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

func gauges(n *Node) []prometheus.Collector {
	var out []prometheus.Collector
	add := func(name, help string, labels prometheus.Labels, read func() float64) {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aliquot_raft_" + name, Help: help, ConstLabels: labels}, read))
	}
	for _, state := range raftStates {
		add("state", "1 for the state this node is in.", prometheus.Labels{"state": strings.ToLower(state.String())}, func() float64 {
			if n.raft.State() == state {
				return 1
			}
			return 0
		})
	}
	add("term", "Current Raft term.", nil, func() float64 { return float64(n.raft.CurrentTerm()) })
	add("applied_index", "Last log index handed to the state machine.", nil, func() float64 { return float64(n.raft.AppliedIndex()) })
	add("commit_index", "Last committed log index.", nil, func() float64 { return float64(n.raft.CommitIndex()) })
	add("last_contact_seconds", "Seconds since a follower heard from its leader; 0 on the leader, -1 for never.", nil, func() float64 {
		if last := n.lastContact(); last >= 0 {
			return last.Seconds()
		}
		return -1
	})
	add("voters", "Voters in the latest configuration.", nil, func() float64 {
		voters := 0
		for _, s := range n.configuration().Servers {
			if s.Suffrage == raft.Voter {
				voters++
			}
		}
		return float64(voters)
	})
	return out
}

func (m *metrics) observeApply(d time.Duration) {
	if m != nil {
		m.apply.Observe(d.Seconds())
	}
}

// countRefused counts a message that the guard refused.
func (m *metrics) countRefused(reason string) {
	if m != nil {
		m.refused.WithLabelValues(reason).Inc()
	}
}

// unregister permits another node in this process to register the same metrics.
func (m *metrics) unregister() {
	if m == nil {
		return
	}
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}

// meteredSnapshots measures the snapshots that are written to a store.
type meteredSnapshots struct {
	raft.SnapshotStore
	metrics *metrics
}

// Create implements raft.SnapshotStore.
func (s meteredSnapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, c, configIndex, trans)
	if err != nil || s.metrics == nil {
		return sink, err
	}
	return &meteredSink{SnapshotSink: sink, metrics: s.metrics, start: time.Now()}, nil
}

type meteredSink struct {
	raft.SnapshotSink
	metrics *metrics
	start   time.Time
	bytes   int
	closed  bool
}

// Write implements raft.SnapshotSink.
func (s *meteredSink) Write(p []byte) (int, error) {
	n, err := s.SnapshotSink.Write(p)
	s.bytes += n
	return n, err
}

// Close implements raft.SnapshotSink; raft closes a second time what Persist closed.
func (s *meteredSink) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil && !s.closed {
		s.closed = true
		s.metrics.snapshotSeconds.Observe(time.Since(s.start).Seconds())
		s.metrics.snapshotBytes.Set(float64(s.bytes))
	}
	return err
}
