package raftlog

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

// What is kept beside the list of segments. keyHeld: an entry that the log reaches at least;
// 0 while it is empty, and 1 once an older version wrote into it. keyCovered: where the
// snapshot ended that an emptied log left everything to. The other two are raft's own.
var (
	keyHeld, keyCovered   = []byte("aliquot-log-held"), []byte("aliquot-snapshot-covered")
	keyTerm, keyVotedTerm = []byte("CurrentTerm"), []byte("LastVoteTerm")
)

// segmentList is raft-wal's list of segments, and tells where the last one begins.
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

// reaches notes, once in each segment, that the log has entries up to last. The library takes
// a last segment that is gone for one that was never written, and every write ends in the
// last one: so its first is noted after it is on disk, and nothing is noted that may yet go.
func (l *Log) reaches(last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.segments.tail.Load()
	if l.held == 0 || l.held < tail && tail <= last {
		return l.setHeld(last)
	}
	return nil
}

// recedes notes, before the log's end goes, that it ends with last, or holds nothing more, 0.
func (l *Log) recedes(last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last == 0 {
		if err := l.WAL.SetUint64(keyCovered, l.snapshot.Index); err != nil {
			return err
		}
	}
	if last != 0 && last >= l.held {
		return nil
	}
	return l.setHeld(last)
}

// settle notes exactly how far the log reaches: nothing more is written until the next start.
func (l *Log) Settle() error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last <= l.held || l.unsure {
		return nil
	}
	return l.setHeld(last)
}

// setHeld is called with the lock held.
func (l *Log) setHeld(index uint64) error {
	if err := l.WAL.SetUint64(keyHeld, index); err != nil {
		return fmt.Errorf("note how far the log reaches: %w", err)
	}
	l.held = index
	return nil
}
