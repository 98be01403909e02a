package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkFailover stops the leader of three and measures the time to the first
// commit on the next; then the old one comes back. Nothing is handed over (see
// Shutdown), so to the others a stop looks like a kill. It reports seconds.
func BenchmarkFailover(b *testing.B) {
	l := newLab(b)
	nodes := l.three()
	var took []time.Duration
	for b.Loop() {
		leader := l.leader(nodes...)
		rest := slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool { return n == leader })
		began := time.Now()
		config := make(chan Config, 1)
		go func() { config <- l.stop(leader) }() // raft ends first, gossip takes its time
		eventually(b, "a commit on the next leader", func() bool {
			return slices.ContainsFunc(rest, func(n *Node) bool {
				if n.raft.State() != raft.Leader {
					return false
				}
				_, err := n.CreateEpoch(b.Context())
				return err == nil
			})
		})
		took = append(took, time.Since(began))
		back := l.start(<-config)
		nodes = append(rest, back)
		next := l.leader(nodes...)
		eventually(b, "the old leader to catch up", func() bool {
			return back.raft.AppliedIndex() >= next.raft.AppliedIndex() && next.raft.State() == raft.Leader
		})
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
	b.ReportMetric(took[len(took)*9/10].Seconds(), "p90-s")
	b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
	b.ReportMetric(0, "ns/op") // most of an iteration is the way back
}
