package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/hashicorp/raft"
)

// startEmpty is what to do about a data directory that has lost or changed what was in it.
const startEmpty = "the disk or somebody has damaged it; start this node with an empty --data-dir, and it joins again as a new server, once most of the others run"

// checkWhole refuses a log that lacks what it held, as far as that shows. A server with its
// old name that has forgotten what it acknowledged could elect, with one that never had it,
// a leader without what was committed: two regions would hold the same share. The libraries
// take a log whose first segment is gone for a new one, and panic over an entry that cannot
// be read only when they come to it; a last segment that is gone they begin anew.
func (n *Node) checkWhole() error {
	first, last, err := n.logs.bounds()
	if err != nil {
		return err
	}
	held, errHeld := n.logs.GetUint64(keyHeld)
	relied, errRelied := n.logs.GetUint64(keyCovered)
	// Raft keeps its term and its vote beside the list of segments, before it keeps an entry
	// or a snapshot of that term. Without a list the library makes one at the first start,
	// and takes the first segment for the log at the next.
	term, errTerm := n.logs.GetUint64(keyTerm)
	if err := errors.Join(errHeld, errRelied, errTerm); err != nil {
		return err
	}
	covered := n.logs.snapshot.index // nobody else has the log yet
	switch {
	case term < n.logs.snapshot.term:
		return fmt.Errorf("it knows of term %d, and the latest snapshot is of term %d", term, n.logs.snapshot.term)
	case first == 0 && held != 0:
		return errors.New("there is no entry in it, though there was one when it was last written")
	case first == 0 && covered == 0 && n.dir.id.Listed:
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
		if err := n.logs.WAL.GetLog(i, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if term < entry.Term {
		return fmt.Errorf("it knows of term %d, and its last entry is of term %d", term, entry.Term)
	}
	n.logs.held = held
	return n.logs.reaches(last)
}

// damaged says what to do about a log, or snapshots, that cannot be used. What the operating system refuses,
// for want of room or of rights, is no damage; but that a segment is there which the log does
// not know of is, or that one is not which it does.
func damaged(what, path string, err error) error {
	if _, refused := errors.AsType[syscall.Errno](err); refused && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--data-dir: %s in %s: %w", what, path, err)
	}
	return fmt.Errorf("--data-dir: %s in %s: %w: %s", what, path, err, startEmpty)
}

// withoutPanic makes an error of a panic, which is how some of what is read there tells that
// it is not what it should be.
func withoutPanic(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	return do()
}
