package raftlog

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// A deposed leader deletes what it alone has from the end of its log. raft-wal 0.4.0
// could not read such a log after the next start (its issue 31), and the node
// panicked at every start from then on.
func TestLogWithoutItsTailOpensAgain(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		log, err := Open(dir, 64<<20, hclog.NewNullLogger(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, last, err := log.Bounds()
		if err != nil || last != uint64(7*round) {
			t.Fatalf("round %d: the log ends at %d (%v)", round, last, err)
		}
		for i := uint64(1); i <= last; i++ {
			var entry raft.Log
			if err := log.GetLog(i, &entry); err != nil || entry.Index != i {
				t.Fatalf("round %d: entry %d: %+v, %v", round, i, entry, err)
			}
		}
		for i := range uint64(10) {
			if err := log.StoreLog(command(last+1+i, 1, "x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.DeleteRange(last+8, last+10); err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// hashicorp/raft issue 697: what Log makes of a deletion rests on it.
func TestLogStoreIsMonotonic(t *testing.T) {
	if !(&Log{WAL: &wal.WAL{}}).IsMonotonic() {
		t.Error("raft would keep old logs when it installs a snapshot")
	}
}
