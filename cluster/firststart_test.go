package cluster

import (
	"errors"
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
