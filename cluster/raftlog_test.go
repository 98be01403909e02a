package cluster

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// A deposed leader deletes what it alone has from the end of its log. raft-wal 0.4.0
// could not read such a log after the next start (its issue 31), and the node
// panicked at every start from then on.
func TestLogWithoutItsTailOpensAgain(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		meta := &metadb.BoltMetaDB{}
		store, err := wal.Open(dir, wal.WithMetaStore(meta))
		if err != nil {
			t.Fatal(err)
		}
		log := &raftLog{WAL: store}
		_, last, err := log.bounds()
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
		if err := errors.Join(log.Close(), meta.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
