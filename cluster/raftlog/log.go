// Package raftlog is what a coordinator keeps of Raft on its disk: the log, the term and the vote, and the snapshots.
// It repairs what a crash can leave behind, refuses what a disk has lost, and ends the node when the disk takes nothing
// more. The state machine and the network are no concern of it.
package raftlog

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

var (
	// ErrUnwritable ends a node whose disk is full or broken.
	ErrUnwritable = errors.New("cluster: the log of this node cannot be written")
	// ErrStale ends a follower whose Raft cannot continue after a snapshot that it received. A restart repairs it.
	ErrStale = errors.New("cluster: this node received a snapshot over a log that differs from it, and must start again")
)

// Log is the write-ahead log. It repairs a fault of hashicorp/raft 1.8.0, which installs a snapshot over a log that
// is as long as the snapshot or longer. By Raft's rules (figure 13 of the paper, 6 and 7) the log must stay if it
// agrees with the snapshot's last entry, and must be deleted as a whole if it does not.
//
// Issue 697: with an ordinary log store, raft keeps a log that does not agree. It finds the conflict with the next
// entries, refuses them and receives the same snapshot again, forever and after restarts too. With a monotonic
// store raft deletes the log in any case; this store is monotonic because raft-wal must not have holes. That has
// two faults of its own: entries that this node has acknowledged are lost, and raft remembers a last entry that no
// longer exists, so that it refuses whatever follows the snapshot until the process restarts.
//
// So Log keeps a log that agrees with the snapshot. For a log that was deleted it answers with what the snapshot
// says. One case remains, a log that ended exactly at the snapshot with another term: raft compares its own memory
// only. CheckStale finds it, and the node ends.
//
// Log also keeps Raft's term and vote. It is safe for concurrent use; make it with Open.
type Log struct {
	*wal.WAL
	dir        string
	segments   *segmentList
	unwritable func(error) // see Open

	mu       sync.Mutex
	snapshot EntryID
	reach    uint64 // what keyReach says
	// uncertain: a truncation failed, which the disk may have made in whole or in part. The library still reports the
	// log as it was before.
	uncertain bool
}

// EntryID names an entry of the log; the zero value is before the first.
type EntryID struct{ Index, Term uint64 }

var _ raft.MonotonicLogStore = (*Log)(nil)

// Open opens the log in a directory, or creates one, in files of segmentBytes. It calls unwritable, from any
// goroutine and possibly more than once, when the disk accepts no more writes; the node should end then. The error
// says what to do.
func Open(dir string, segmentBytes int, logger hclog.Logger, unwritable func(error)) (*Log, error) {
	l := &Log{dir: dir, segments: newSegmentList(), unwritable: unwritable}
	err := WithoutPanic(func() (err error) {
		l.WAL, err = wal.Open(dir, wal.WithMetaStore(l.segments), wal.WithSegmentSize(segmentBytes), wal.WithLogger(logger))
		return err
	})
	if err != nil {
		return nil, errors.Join(Damaged("the log", dir, err), l.segments.Close())
	}
	return l, nil
}

// Close closes the log's files. raft-wal 0.4.0 closes its segments, but not the list of them, whose file lock would
// outlive the node.
func (l *Log) Close() error { return errors.Join(l.WAL.Close(), l.segments.Close()) }

// Term returns the term that Raft keeps; 0 before the first.
func (l *Log) Term() (uint64, error) { return l.GetUint64(keyTerm) }

// GetLog implements raft.LogStore.
func (l *Log) GetLog(index uint64, entry *raft.Log) error {
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
	case last.Index <= 1 || first != 0 && first != last.Index+1:
		return err // there is no hole at the snapshot
	case index == last.Index:
		// Raft asks for the entry before the next one. It cannot mistake this for the entry itself: a leader
		// sends no entry without the one before it, which does not exist here.
		*entry = raft.Log{Index: index, Term: last.Term, Type: raft.LogNoop}
		return nil
	case first == 0 && index > last.Index:
		// Only raft's memory still has this entry, and only if it conflicted with the snapshot. It conflicts with
		// every entry that a leader sends at this index, too; this node cannot lead before it accepts that one.
		*entry = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	return err
}

// DeleteRange implements raft.LogStore. Raft deletes the whole log after it installed a snapshot, and never
// otherwise if the log agrees with the snapshot: everything that a snapshot covers is committed and cannot
// conflict.
func (l *Log) DeleteRange(from, to uint64) error {
	first, last, err := l.Bounds()
	if err != nil {
		return err
	}
	switch {
	case to < last:
		return l.written(l.WAL.DeleteRange(from, to))
	case from > first:
		return l.truncate(from, to, from-1)
	case !l.agrees(first, last):
		return l.truncate(from, to, 0)
	}
	l.mu.Lock()
	keep := l.snapshot.Index
	l.mu.Unlock()
	return l.written(l.WAL.DeleteRange(first, keep-1))
}

// truncate deletes the end of the log, which then ends with entry last; 0: the whole log.
func (l *Log) truncate(from, to, last uint64) error {
	if err := l.noteTruncation(last); err != nil {
		return l.written(err)
	}
	err := l.WAL.DeleteRange(from, to)
	if err != nil {
		l.mu.Lock()
		l.uncertain = true
		l.mu.Unlock()
	}
	return l.written(err)
}

// agrees reports whether the log from first to last holds the snapshot's last entry.
func (l *Log) agrees(first, last uint64) bool {
	l.mu.Lock()
	snapshot := l.snapshot
	l.mu.Unlock()
	if first == 0 || snapshot.Index < first || snapshot.Index > last {
		return false
	}
	var entry raft.Log
	return l.WAL.GetLog(snapshot.Index, &entry) == nil && entry.Term == snapshot.Term
}

// Bounds returns the indices of the first and the last entry; both are 0 for an empty log.
func (l *Log) Bounds() (first, last uint64, err error) {
	if first, err = l.FirstIndex(); err != nil {
		return 0, 0, err
	}
	last, err = l.LastIndex()
	return first, last, err
}

// NoteSnapshot records the latest snapshot on disk. Snapshots calls it for each one.
func (l *Log) NoteSnapshot(at EntryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshot = at
}

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	err := l.WAL.StoreLogs(entries)
	if n := len(entries); err == nil && n > 0 {
		err = l.noteReach(entries[n-1].Index)
	}
	return l.written(err)
}

// written ends the node when its disk is full or broken, and returns err. Raft steps down after such an error and
// stands for election again. It wins as long as the few writes of an election succeed, and then refuses most
// changes; after each of these the cluster has no leader for a second or more. A disk may also claim later that it
// has written what it failed to write before. When the node ends, the others go on and its supervisor notices.
//
// A segment without room for a successor stays sealed. The library then returns ErrSealed for each write; the error
// of the disk is in its log only.
func (l *Log) written(err error) error {
	_, refused := errors.AsType[syscall.Errno](err)
	if (refused || errors.Is(err, wal.ErrSealed)) && l.unwritable != nil {
		l.unwritable(fmt.Errorf("%w: %w; check the disk of --data-dir, and start this node again", ErrUnwritable, err))
	}
	return err
}

// CheckStale returns ErrStale if raft, which runs on this log, remembers a last entry that no longer exists and
// that the snapshot in its place contradicts. The log is empty then, so that the next start goes on from the
// snapshot.
func (l *Log) CheckStale(r *raft.Raft) error {
	last, err := l.LastIndex()
	if err != nil || last != 0 {
		return err
	}
	stats := r.Stats() // the only way to raft's memory
	believed, errLog := statID(stats, "last_log")
	snapshot, errSnapshot := statID(stats, "last_snapshot")
	if err := errors.Join(errLog, errSnapshot); err != nil {
		return err
	}
	if believed.Index == snapshot.Index && believed.Term != snapshot.Term {
		return fmt.Errorf("%w: entry %d is of term %d there, and was of %d here", ErrStale, snapshot.Index, snapshot.Term, believed.Term)
	}
	return nil
}

func statID(stats map[string]string, name string) (EntryID, error) {
	index, errIndex := strconv.ParseUint(stats[name+"_index"], 10, 64)
	term, errTerm := strconv.ParseUint(stats[name+"_term"], 10, 64)
	return EntryID{index, term}, errors.Join(errIndex, errTerm)
}
