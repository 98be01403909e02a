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

// OpenSnapshots opens the snapshots in a data directory, keeps retained of them, and tells the log of the latest. The
// error says what to do.
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

// Snapshots tells a Log what is written through a snapshot store. It lists the latest
// one alone: raft goes on from an older one, without a word to anybody, if that cannot be
// read, though the log may begin behind it.
type Snapshots struct {
	raft.SnapshotStore
	log *Log
}

// NewSnapshots also tells of the latest one that is there already.
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

// check reads the latest snapshot through.
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
