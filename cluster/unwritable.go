package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// StoreLog implements raft.LogStore.
func (l *raftLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (l *raftLog) StoreLogs(entries []*raft.Log) error {
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
func (l *raftLog) written(err error) error {
	_, refused := errors.AsType[syscall.Errno](err)
	if (refused || errors.Is(err, wal.ErrSealed)) && l.unwritable != nil {
		l.unwritable(fmt.Errorf("%w: %w; see to the disk of --data-dir, and start this node again", ErrUnwritable, err))
	}
	return err
}

// removeUnfinished removes what is left of snapshots that a crash or a full disk has ended:
// the library writes one beside its place, and leaves it there.
func removeUnfinished(dataDir string) error {
	dir := filepath.Join(dataDir, "snapshots")
	there, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range there {
		if strings.HasSuffix(e.Name(), ".tmp") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
