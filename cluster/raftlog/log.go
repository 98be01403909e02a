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
	// ErrStale ends a follower whose Raft cannot go on from a snapshot it received.
	// Starting again mends it.
	ErrStale = errors.New("cluster: this node received a snapshot over a log that differs from it, and must start again")
)

// Log is the write-ahead log, with what hashicorp/raft 1.8.0 forgets when it
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
// CheckStale ends the node.
//
// It also holds Raft's term and vote. It is safe for concurrent use; make it with Open.
type Log struct {
	*wal.WAL
	dir        string
	segments   *segmentList
	unwritable func(error) // see Open

	mu       sync.Mutex
	snapshot EntryID
	held     uint64 // what keyHeld says
	// unsure: a cut failed, which the disk may have made all the same, or in part. The library
	// tells of the log as it was before.
	unsure bool
}

// EntryID names an entry of the log; the zero value is before the first.
type EntryID struct{ Index, Term uint64 }

var _ raft.MonotonicLogStore = (*Log)(nil)

// Open opens the log in a directory, or begins one there, in files of segmentBytes. unwritable is called, from any
// goroutine and more than once, when the disk takes nothing more; the node should end then. The error says what to do.
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
		// What the next entry follows. It cannot be taken for the entry itself: a leader
		// sends none without the one before, which is not here.
		*entry = raft.Log{Index: index, Term: last.Term, Type: raft.LogNoop}
		return nil
	case first == 0 && index > last.Index:
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
func (l *Log) DeleteRange(from, to uint64) error {
	first, last, err := l.Bounds()
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
	keep := l.snapshot.Index
	l.mu.Unlock()
	return l.written(l.WAL.DeleteRange(first, keep-1))
}

// cut deletes the log's end, after which it ends with last.
func (l *Log) cut(from, to, last uint64) error {
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

// NoteSnapshot must be told of each snapshot that is on disk, the latest last.
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
		err = l.reaches(entries[n-1].Index)
	}
	return l.written(err)
}

// written ends the node when its disk is full or broken. Raft steps down after such an error
// and stands for election again, which it wins as long as what that needs is written: it
// refuses most changes then, at each of which the cluster is without a leader for a second
// or more. And what a disk has failed to write once it may claim to have written the next
// time. A node that has ended leaves the others to go on, and somebody hears of it.
//
// A segment that no other could be made to follow stays sealed: the library says so at each
// write from then on, and what the disk said in its log only.
func (l *Log) written(err error) error {
	_, refused := errors.AsType[syscall.Errno](err)
	if (refused || errors.Is(err, wal.ErrSealed)) && l.unwritable != nil {
		l.unwritable(fmt.Errorf("%w: %w; see to the disk of --data-dir, and start this node again", ErrUnwritable, err))
	}
	return err
}

// CheckStale is ErrStale if raft, which runs on this log, believes in a last entry that is gone and that
// the snapshot in its place contradicts. The log is empty then, so that the next
// start goes on from the snapshot.
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
