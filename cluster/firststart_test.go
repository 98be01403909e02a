package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"aliquot/cluster/raftlog"
)

// Raft bootstraps nothing that is in a term, and keeps the term before the first entry.
func TestAFirstStartThatWasInterruptedIsDoneAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.config("c1")
	dir, err := openDataDir(c.DataDir, c.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	path, err := dir.sub("wal")
	if err != nil {
		t.Fatal(err)
	}
	log, err := raftlog.Open(path, walSegmentBytes, newHclog(testLogger(), "raft-wal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.SetUint64([]byte("CurrentTerm"), 1), log.Close(), dir.close()); err != nil {
		t.Fatal(err)
	}
	l.leader(l.start(c))
}

// A new cluster takes rules that deny every request, as one that was lost had them, and says so in its log.
func TestFirstRulesMayDenyEverything(t *testing.T) {
	c := DefaultConfig()
	c.NodeID, c.DataDir, c.Regions = "c1", t.TempDir(), []string{"us"}
	c.RulesYAML = "rules: [{id: shut, params: {limit: 0, window: 60}}]\n"
	var told bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&told, nil))
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	n := &Node{cfg: c, log: c.Logger}
	if err := n.checkFirstBoot(true); err != nil || !strings.Contains(told.String(), "rule shut denies every request") {
		t.Errorf("%v; the log says %q", err, told.String())
	}
}
