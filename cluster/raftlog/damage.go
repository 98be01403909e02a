package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/hashicorp/raft"
)

// startEmpty is what to do about a data directory that has lost or changed what was in it.
const startEmpty = "the disk or somebody has damaged it; start this node with an empty --data-dir, and it joins again as a new server, once most of the others run"

// CheckWhole refuses a log that lacks what it held, as far as that shows. A server with its
// old name that has forgotten what it acknowledged could elect, with one that never had it,
// a leader without what was committed: two regions would hold the same share. The libraries
// take a log whose first segment is gone for a new one, and panic over an entry that cannot
// be read only when they come to it; a last segment that is gone they begin anew.
//
// listed says that this node was a server of its cluster before. It must be called once, after the latest snapshot was
// noted and before Raft starts.
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
	held, errHeld := l.GetUint64(keyHeld)
	relied, errRelied := l.GetUint64(keyCovered)
	// Raft keeps its term and its vote beside the list of segments, before it keeps an entry
	// or a snapshot of that term. Without a list the library makes one at the first start,
	// and takes the first segment for the log at the next.
	term, errTerm := l.GetUint64(keyTerm)
	if err := errors.Join(errHeld, errRelied, errTerm); err != nil {
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
	case covered < relied:
		return fmt.Errorf("it was emptied for a snapshot up to entry %d, and the latest one ends with %d", relied, covered)
	case last < held:
		return fmt.Errorf("it ends with entry %d, though it had entry %d: its last segment is not what it was", last, held)
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
	l.held = held
	return l.reaches(last)
}

// ForgetUnfinishedBootstrap lets a first start that was interrupted be done again: raft keeps
// that it is in term 1 before it has an entry of it, and bootstraps nothing that is in a term.
// Nobody acted in that term but whoever bootstrapped, since the first election is for term 2;
// a vote, which nobody can have had, would have to stay all the same.
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

// Damaged returns an error for the command line that says what to do about a log, or snapshots, that cannot be used. What the operating system refuses,
// for want of room or of rights, is no damage; but that a segment is there which the log does
// not know of is, or that one is not which it does.
func Damaged(what, path string, err error) error {
	if _, refused := errors.AsType[syscall.Errno](err); refused && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--data-dir: %s in %s: %w", what, path, err)
	}
	return fmt.Errorf("--data-dir: %s in %s: %w: %s", what, path, err, startEmpty)
}

// WithoutPanic makes an error of a panic, which is how some of what is read there tells that
// it is not what it should be.
func WithoutPanic(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	return do()
}
