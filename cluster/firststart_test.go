package cluster

import (
	"errors"
	"log/slog"
	"testing"
)

// bare opens the log of a node as it is before raft.
func bare(t *testing.T, dir string) *raftLog {
	t.Helper()
	l, err := openLog(dir, newSegmentList(), walSegmentBytes, newHclog(testLogger(), "raft-wal"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

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
	log := bare(t, path)
	if err := errors.Join(log.SetUint64(keyTerm, 1), dir.close()); err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	l.leader(l.start(c))
}

func TestWhatIsNoInterruptedFirstStartStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(n *Node) error
		want   uint64
	}{
		"interrupted":    {func(*Node) error { return nil }, 0},
		"a later term":   {func(n *Node) error { return n.store.SetUint64(keyTerm, 2) }, 2},
		"a vote":         {func(n *Node) error { return n.store.SetUint64(keyVotedTerm, 1) }, 1},
		"an entry":       {func(n *Node) error { return n.logs.StoreLog(command(1, 1, "x")) }, 1},
		"a snapshot":     {func(n *Node) error { n.logs.noteSnapshot(entryID{1, 1}); return nil }, 1},
		"a known server": {func(n *Node) error { n.dir.id.Listed = true; return nil }, 1},
	} {
		log := bare(t, t.TempDir())
		n := &Node{logs: log, store: log.WAL, dir: &dataDir{}, log: slog.New(slog.DiscardHandler)}
		err := errors.Join(n.store.SetUint64(keyTerm, 1), c.change(n), n.forgetUnfinishedBootstrap())
		if got, errGet := n.store.GetUint64(keyTerm); err != nil || errGet != nil || got != c.want {
			t.Errorf("%s: term %d, want %d (%v, %v)", name, got, c.want, err, errGet)
		}
		closeLog(t, log)
	}
}
