package raftlog

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

// Keys that are stored beside the list of segments. keyReach: the log has at least the entries up to this one; 0
// while it is empty, and 1 after an older version wrote into it. keyCovered: the last entry of the snapshot for
// which the log was emptied. The other two are raft's own.
var (
	keyReach, keyCovered  = []byte("aliquot-log-held"), []byte("aliquot-snapshot-covered")
	keyTerm, keyVotedTerm = []byte("CurrentTerm"), []byte("LastVoteTerm")
)

// segmentList is raft-wal's list of segments, and records where the last one begins.
type segmentList struct {
	*metadb.BoltMetaDB
	tail atomic.Uint64
}

func newSegmentList() *segmentList { return &segmentList{BoltMetaDB: &metadb.BoltMetaDB{}} }

// Load implements types.MetaStore.
func (s *segmentList) Load(dir string) (types.PersistentState, error) {
	state, err := s.BoltMetaDB.Load(dir)
	if err != nil {
		return state, err
	}
	if changed, err := finishSeal(dir, &state); err != nil {
		return state, fmt.Errorf("finish the last segment: %w", err)
	} else if changed {
		return state, s.CommitState(state)
	}
	s.note(state)
	return state, nil
}

// CommitState implements types.MetaStore.
func (s *segmentList) CommitState(state types.PersistentState) error {
	err := s.BoltMetaDB.CommitState(state)
	if err == nil {
		s.note(state)
	}
	return err
}

func (s *segmentList) note(state types.PersistentState) {
	if n := len(state.Segments); n > 0 {
		s.tail.Store(state.Segments[n-1].BaseIndex)
	}
}

// noteReach records, once for each segment, that the log has entries up to last. The library mistakes a missing last
// segment for one that was never written, and all writes go to the last segment. So the first write to a segment is
// recorded once it is on disk; no entry is recorded that could still be lost.
func (l *Log) noteReach(last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.segments.tail.Load()
	if l.reach == 0 || l.reach < tail && tail <= last {
		return l.setReach(last)
	}
	return nil
}

// noteTruncation records, before the end of the log is deleted, that the log will end with entry last; 0: it will be
// empty.
func (l *Log) noteTruncation(last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last == 0 {
		if err := l.WAL.SetUint64(keyCovered, l.snapshot.Index); err != nil {
			return err
		}
	}
	if last != 0 && last >= l.reach {
		return nil
	}
	return l.setReach(last)
}

// NoteEnd records exactly how far the log reaches. It must be called after the last write and before Close.
func (l *Log) NoteEnd() error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last <= l.reach || l.uncertain {
		return nil
	}
	return l.setReach(last)
}

// setReach stores and keeps an index under keyReach. The caller holds the lock.
func (l *Log) setReach(index uint64) error {
	if err := l.WAL.SetUint64(keyReach, index); err != nil {
		return fmt.Errorf("note how far the log reaches: %w", err)
	}
	l.reach = index
	return nil
}
