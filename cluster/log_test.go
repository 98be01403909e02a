package cluster

import (
	"log/slog"
	"testing"
)

// What raft warns of at every start of a cluster is no warning; the same of a cluster that had a leader is one.
func TestAnOrdinaryStartWarnsOfNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		message string
		args    []any
		warns   bool
	}{
		{"heartbeat timeout reached, starting election", []any{"last-leader-addr", "", "last-leader-id", ""}, false},
		{"heartbeat timeout reached, starting election", []any{"last-leader-addr", "h:1", "last-leader-id", "c1/00000001"}, true},
		{"failed to get previous log", []any{"previous-index", 1, "last-index", 0}, false},
		{"failed to get previous log", []any{"previous-index", 9, "last-index", 7}, true},
		{"appendEntries rejected, sending older logs", []any{"peer", "c2", "next", 1}, false},
		{"appendEntries rejected, sending older logs", []any{"peer", "c2", "next", 5}, true},
		{"no known peers, aborting election", nil, false},
		{"failed to contact", []any{"server-id", "c2"}, true},
	} {
		var out logged
		newHclog(out.logger(slog.LevelWarn), "raft").Warn(c.message, c.args...)
		if got := out.String(); (got != "") != c.warns {
			t.Errorf("%s %v: %q, want a warning: %v", c.message, c.args, got, c.warns)
		}
	}
}
