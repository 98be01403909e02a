package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// raftLog is the write-ahead log, with what hashicorp/raft 1.8.0 forgets when it
// installs a snapshot over a log that is as long as the snapshot or longer. By
// Raft's own rules (figure 13 of the paper, 6 and 7) the log stays if it agrees
// with the snapshot's last entry, and goes whole if it does not.
//
// Issue 697: with an ordinary log store raft keeps a log that does not agree, finds
// the conflict with the next entries, refuses them and is sent the same snapshot
// again, for ever, restarts included. With a monotonic store, which this is because
// raft-wal must not have holes, raft deletes the log in any case, which has two
// faults of its own: entries that this node has acknowledged are lost, and raft
// goes on believing in a last entry that is no longer there, so that it refuses
// whatever follows the snapshot until the process starts anew.
//
// So a log that agrees is kept here, and one that was deleted is answered for as
// far as the snapshot tells. What remains is a log that ended exactly at the
// snapshot with another term: raft compares that with its memory alone, and
// checkLog ends the node. Raft's goroutines share it.
type raftLog struct {
	*wal.WAL
	segments *segmentList // nil: it has one segment
	// unwritable is told that the disk takes nothing more; nil: nobody is.
	unwritable func(error)

	mu       sync.Mutex
	snapshot entryID
	held     uint64 // what keyHeld says
	// unsure: a cut failed, which the disk may have made all the same, or in part. The library
	// tells of the log as it was before.
	unsure bool
}

// entryID names an entry of the log; the zero value is before the first.
type entryID struct{ index, term uint64 }

var _ raft.MonotonicLogStore = (*raftLog)(nil)

// GetLog implements raft.LogStore.
func (l *raftLog) GetLog(index uint64, entry *raft.Log) error {
	err := l.WAL.GetLog(index, entry)
	if !errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	first, firstErr := l.FirstIndex()
	if firstErr != nil {
		return firstErr
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch last := l.snapshot; {
	case last.index <= 1 || first != 0 && first != last.index+1:
		return err // there is no hole at the snapshot
	case index == last.index:
		// What the next entry follows. It cannot be taken for the entry itself: a leader
		// sends none without the one before, which is not here.
		*entry = raft.Log{Index: index, Term: last.term, Type: raft.LogNoop}
		return nil
	case first == 0 && index > last.index:
		// Only raft's memory still has it, and only if it was in conflict with the
		// snapshot: so it is with whatever a leader sends for it, and this node leads
		// nobody before it took that.
		*entry = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	return err
}

// DeleteRange implements raft.LogStore. Raft deletes all there is after it installed
// a snapshot, and at no other time if the log agrees with the snapshot: whatever
// the snapshot covers is committed and never in conflict.
func (l *raftLog) DeleteRange(from, to uint64) error {
	first, last, err := l.bounds()
	if err != nil {
		return err
	}
	switch {
	case to < last:
		return l.written(l.WAL.DeleteRange(from, to))
	case from > first:
		return l.cut(from, to, from-1)
	case !l.agrees(first, last):
		return l.cut(from, to, 0)
	}
	l.mu.Lock()
	keep := l.snapshot.index
	l.mu.Unlock()
	return l.written(l.WAL.DeleteRange(first, keep-1))
}

// cut deletes the log's end, after which it ends with last.
func (l *raftLog) cut(from, to, last uint64) error {
	if err := l.recedes(last); err != nil {
		return l.written(err)
	}
	err := l.WAL.DeleteRange(from, to)
	if err != nil {
		l.mu.Lock()
		l.unsure = true
		l.mu.Unlock()
	}
	return l.written(err)
}

// agrees reports whether the log from first to last holds the snapshot's last entry.
func (l *raftLog) agrees(first, last uint64) bool {
	l.mu.Lock()
	snapshot := l.snapshot
	l.mu.Unlock()
	if first == 0 || snapshot.index < first || snapshot.index > last {
		return false
	}
	var entry raft.Log
	return l.WAL.GetLog(snapshot.index, &entry) == nil && entry.Term == snapshot.term
}

func (l *raftLog) bounds() (first, last uint64, err error) {
	if first, err = l.FirstIndex(); err != nil {
		return 0, 0, err
	}
	last, err = l.LastIndex()
	return first, last, err
}

// noteSnapshot is told of each snapshot that is on disk, the latest last.
func (l *raftLog) noteSnapshot(at entryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshot = at
}

// notedSnapshots tells a raftLog what is written through a snapshot store. It lists the latest
// one alone: raft goes on from an older one, without a word to anybody, if that cannot be
// read, though the log may begin behind it.
type notedSnapshots struct {
	raft.SnapshotStore
	log *raftLog
}

// newNotedSnapshots also tells of the latest one that is there already.
func newNotedSnapshots(store raft.SnapshotStore, log *raftLog) (notedSnapshots, error) {
	s := notedSnapshots{store, log}
	there, err := s.List()
	if err != nil {
		return notedSnapshots{}, fmt.Errorf("list the snapshots: %w", err)
	}
	if len(there) > 0 {
		log.noteSnapshot(entryID{there[0].Index, there[0].Term})
	}
	return s, nil
}

// List implements raft.SnapshotStore.
func (s notedSnapshots) List() ([]*raft.SnapshotMeta, error) {
	there, err := s.SnapshotStore.List()
	return there[:min(len(there), 1)], err
}

// check reads the latest snapshot through.
func (s notedSnapshots) check() error {
	there, err := s.List()
	if err != nil || len(there) == 0 {
		return err
	}
	_, state, err := s.Open(there[0].ID)
	if err != nil {
		return fmt.Errorf("the latest one, %s: %w", there[0].ID, err)
	}
	return state.Close()
}

// Create implements raft.SnapshotStore.
func (s notedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, c, configIndex, trans)
	if err != nil {
		return nil, err
	}
	return notedSink{sink, s.log, entryID{index, term}}, nil
}

type notedSink struct {
	raft.SnapshotSink
	log *raftLog
	at  entryID
}

// Close implements raft.SnapshotSink.
func (s notedSink) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil {
		s.log.noteSnapshot(s.at)
	}
	return err
}

// checkLog is ErrLogStale if raft believes in a last entry that is gone and that
// the snapshot in its place contradicts. The log is empty then, so that the next
// start goes on from the snapshot.
func (n *Node) checkLog() error {
	last, err := n.logs.LastIndex()
	if err != nil || last != 0 {
		return err
	}
	stats := n.raft.Stats() // the only way to raft's memory
	believed, errLog := statID(stats, "last_log")
	snapshot, errSnapshot := statID(stats, "last_snapshot")
	if err := errors.Join(errLog, errSnapshot); err != nil {
		return err
	}
	if believed.index == snapshot.index && believed.term != snapshot.term {
		return fmt.Errorf("%w: entry %d is of term %d there, and was of %d here", ErrLogStale, snapshot.index, snapshot.term, believed.term)
	}
	return nil
}

func statID(stats map[string]string, name string) (entryID, error) {
	index, errIndex := strconv.ParseUint(stats[name+"_index"], 10, 64)
	term, errTerm := strconv.ParseUint(stats[name+"_term"], 10, 64)
	return entryID{index, term}, errors.Join(errIndex, errTerm)
}
