package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// Raft's warnings at every start of a cluster are no warnings; the same lines of a cluster that had a leader are.
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

// TestRaftSaysOnceThatAPeerIsDown: not several times a second for as long as it is down, of each peer
// and each failure by itself, and other loggers say all.
func TestRaftSaysOnceThatAPeerIsDown(t *testing.T) {
	t.Parallel()
	var out logged
	log := newHclog(out.logger(slog.LevelWarn), "raft").bounded(newLimiter().Allow)
	for range 100 {
		log.Error("failed to heartbeat to", "peer", "h:1", "error", "connection refused")
		log.Error("failed to heartbeat to", "peer", "h:2", "error", "connection refused")
		log.With("a", 1).Error("failed to appendEntries to", "peer", "h:1", "error", "connection refused")
	}
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("%d lines for three peers and failures:\n%s", got, out.String())
	}
}

// TestANodeSaysForWhomItWaits: the first coordinator of three names what it has found and expects.
func TestANodeSaysForWhomItWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var out logged
	c := l.config("c1")
	c.BootstrapExpect, c.Logger = 3, out.logger(slog.LevelInfo)
	l.start(c)
	eventually(t, "a line that says so", func() bool {
		return strings.Contains(out.String(), "waiting for the other coordinators") && strings.Contains(out.String(), "found=[c1] bootstrap_expect=3")
	})
}

// Raft tells a disk's error also of an entry that was stored: it may be committed later.
func TestADiskErrorLeavesTheOutcomeOpen(t *testing.T) {
	full := errors.New("no space left on device")
	if err := (&Node{}).outcome(full); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, full) {
		t.Error(err)
	}
	if err := (&Node{}).outcome(raft.ErrEnqueueTimeout); errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrBehind) {
		t.Error(err) // raft did not get it
	}
	if err := (&Node{}).outcome(raft.ErrLeadershipLost); !errors.Is(err, ErrUnknownOutcome) || strings.Count(err.Error(), "may or may not") != 1 {
		t.Error(err)
	}
}
