package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// OpenSnapshots opens the snapshots in a data directory, of which retained are kept, and notes the latest in the
// log. The error says what to do.
func OpenSnapshots(dataDir string, retained int, logger hclog.Logger, log *Log) (Snapshots, error) {
	if err := removeUnfinished(dataDir); err != nil {
		return Snapshots{}, fmt.Errorf("--data-dir: %w", err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dataDir, retained, logger)
	if err != nil {
		return Snapshots{}, fmt.Errorf("--data-dir: open the snapshots: %w", err)
	}
	s, err := NewSnapshots(files, log)
	if err != nil {
		return Snapshots{}, fmt.Errorf("--data-dir: %w", err)
	}
	if err := s.check(); err != nil {
		return Snapshots{}, Damaged("the snapshots", filepath.Join(dataDir, "snapshots"), err)
	}
	return s, nil
}

// Snapshots is a snapshot store that notes in a Log each snapshot that is written. It lists the latest one only:
// raft would silently go on from an older one if the latest cannot be read, but the log may begin after the older
// one.
type Snapshots struct {
	raft.SnapshotStore
	log *Log
}

// NewSnapshots returns the snapshots of a store, and notes the latest in the log.
func NewSnapshots(store raft.SnapshotStore, log *Log) (Snapshots, error) {
	s := Snapshots{store, log}
	there, err := s.List()
	if err != nil {
		return Snapshots{}, fmt.Errorf("list the snapshots: %w", err)
	}
	if len(there) > 0 {
		log.NoteSnapshot(EntryID{there[0].Index, there[0].Term})
	}
	return s, nil
}

// List implements raft.SnapshotStore.
func (s Snapshots) List() ([]*raft.SnapshotMeta, error) {
	there, err := s.SnapshotStore.List()
	return there[:min(len(there), 1)], err
}

// check reads the latest snapshot to its end.
func (s Snapshots) check() error {
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
func (s Snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, c, configIndex, trans)
	if err != nil {
		return nil, err
	}
	return notedSink{sink, s.log, EntryID{index, term}}, nil
}

type notedSink struct {
	raft.SnapshotSink
	log *Log
	at  EntryID
}

// Close implements raft.SnapshotSink.
func (s notedSink) Close() error {
	err := s.SnapshotSink.Close()
	if err == nil {
		s.log.NoteSnapshot(s.at)
	}
	return err
}

// removeUnfinished removes snapshots that a crash or a full disk interrupted. The library writes a snapshot to a
// temporary directory and leaves that behind.
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
