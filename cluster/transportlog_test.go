package cluster

import (
	"log/slog"
	"strings"
	"testing"

	"aliquot/internal/testlog"
)

// logged collects what a node logs. It is safe for concurrent use.
type logged struct{ testlog.Buffer }

// logger returns a logger that keeps lines of this level and above.
func (l *logged) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// A clean stop is no error: neither to the node that stops nor to those that lose
// a connection by it.
func TestCleanStopLogsNoTransportError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var out logged
	var nodes []*Node
	var seeds []string
	for _, id := range []string{"c1", "c2", "c3"} {
		c := l.config(id)
		c.BootstrapExpect, c.Join, c.Logger = 3, seeds, out.logger(slog.LevelDebug)
		if id == "c1" {
			c.Join = []string{"127.0.0.1:1"}
		}
		n := l.start(c)
		seeds = append(seeds, n.GossipAddress())
		nodes = append(nodes, n)
	}
	leader := l.leader(nodes...)
	for _, n := range nodes {
		eventually(t, "the cluster everywhere", func() bool { return clusterOf(n) != "" })
	}
	for _, n := range nodes {
		if n != leader {
			l.stop(n) // the leader's connections to it are closed on this side
		}
	}
	// The goroutines of closed connections may speak a moment later.
	eventually(t, "the ends of connections", func() bool {
		return strings.Contains(out.String(), "failed to decode incoming command")
	})
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "raft-net") && strings.Contains(line, "level=ERROR") {
			t.Error(line)
		}
	}
}
