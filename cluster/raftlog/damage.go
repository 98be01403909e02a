package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"

	"github.com/hashicorp/raft"
)

// startEmpty is the advice for a data directory with lost or altered contents.
const startEmpty = "the disk failed or the file was changed; start this node with an empty --data-dir, and it joins again as a new server, once most of the others run"

// CheckWhole refuses a log that has lost entries which it held, as far as this can be detected. A server that lost
// what it acknowledged, and kept its name, could elect a leader without committed entries, together with another
// server that never had them: two regions would hold the same share. The libraries do not detect this. They mistake
// a log without its first segment for a new one, replace a missing last segment with an empty one, and panic over
// an unreadable entry only when they read it.
//
// listed says that this node was a server of its cluster before. Call it once, after the latest snapshot was noted
// and before Raft starts.
func (l *Log) CheckWhole(listed bool) error {
	if err := WithoutPanic(func() error { return l.checkWhole(listed) }); err != nil {
		return Damaged("the log", l.dir, err)
	}
	return nil
}

func (l *Log) checkWhole(listed bool) error {
	first, last, err := l.Bounds()
	if err != nil {
		return err
	}
	held, errReach := l.GetUint64(keyReach)
	emptiedFor, errEmptied := l.GetUint64(keyCovered)
	// Raft stores its term and its vote beside the list of segments, before it stores an entry
	// or a snapshot of that term. If the list is missing, the library makes one at the first start,
	// and reads the first segment as the whole log at the next.
	term, errTerm := l.GetUint64(keyTerm)
	if err := errors.Join(errReach, errEmptied, errTerm); err != nil {
		return err
	}
	covered := l.snapshot.Index // nobody else has the log yet
	switch {
	case term < l.snapshot.Term:
		return fmt.Errorf("it knows of term %d, and the latest snapshot is of term %d", term, l.snapshot.Term)
	case first == 0 && held != 0:
		return errors.New("there is no entry in it, though there was one when it was last written")
	case first == 0 && covered == 0 && listed:
		return errors.New("there is no entry in it, though this node was a server of its cluster")
	case covered < emptiedFor:
		return fmt.Errorf("it was emptied for a snapshot up to entry %d, and the latest one ends with %d", emptiedFor, covered)
	case last < held:
		return fmt.Errorf("it ends with entry %d, though it had entry %d: its last segment has changed", last, held)
	case first > covered+1:
		return fmt.Errorf("it begins with entry %d, and the latest snapshot ends with %d", first, covered)
	case first == 0:
		return nil
	}
	var entry raft.Log
	for i := first; i <= last; i++ {
		if err := l.WAL.GetLog(i, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if term < entry.Term {
		return fmt.Errorf("it knows of term %d, and its last entry is of term %d", term, entry.Term)
	}
	l.reach = held
	return l.noteReach(last)
}

// ForgetUnfinishedBootstrap resets the term after a first start that was interrupted, so that the bootstrap can be
// repeated. Raft stores term 1 before it stores an entry of it, and refuses to bootstrap a node that has a term.
// Only the bootstrapping node acts in term 1: the first election is for term 2. If there is a vote, nothing is
// reset.
//
// listed says that this node was a server of its cluster before. It reports whether there was something to forget.
func (l *Log) ForgetUnfinishedBootstrap(listed bool) (bool, error) {
	first, _, errLog := l.Bounds()
	term, errTerm := l.GetUint64(keyTerm)
	voted, errVoted := l.GetUint64(keyVotedTerm)
	if err := errors.Join(errLog, errTerm, errVoted); err != nil {
		return false, err
	}
	if first != 0 || l.snapshot.Index != 0 || listed || term != 1 || voted != 0 {
		return false, nil
	}
	return true, l.SetUint64(keyTerm, 0)
}

// Damaged returns an error for the command line that says what to do about a log, or about snapshots, that cannot
// be used. An error of the operating system, such as missing room or rights, is no damage. A segment is damage if
// it exists and the log does not list it, or the other way round.
func Damaged(what, path string, err error) error {
	if _, refused := errors.AsType[syscall.Errno](err); refused && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--data-dir: %s in %s: %w", what, path, err)
	}
	return fmt.Errorf("--data-dir: %s in %s: %w: %s", what, path, err, startEmpty)
}

// WithoutPanic calls do and returns a panic as an error. The libraries panic over some contents that they cannot
// read. They map the list of segments into memory, so a list that was cut off is a memory fault at the place where
// it ends.
func WithoutPanic(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	return do()
}
