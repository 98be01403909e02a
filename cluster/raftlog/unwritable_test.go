package raftlog

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// fullDisk is a file system that can be full.
type fullDisk struct {
	*fs.FS
	full atomic.Bool
}

type fullFile struct {
	types.WritableFile
	disk *fullDisk
}

func (d *fullDisk) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if d.full.Load() {
		return nil, syscall.ENOSPC
	}
	f, err := d.FS.Create(dir, name, size)
	return fullFile{f, d}, err
}

func (f fullFile) WriteAt(p []byte, at int64) (int, error) {
	if f.disk.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.WritableFile.WriteAt(p, at)
}

func TestADiskThatIsFullEndsTheNode(t *testing.T) {
	dir, disk, meta := t.TempDir(), &fullDisk{FS: fs.New()}, newSegmentList()
	store, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentFiler(segment.NewFiler(dir, disk)))
	if err != nil {
		t.Fatal(err)
	}
	var told []error
	log := &Log{WAL: store, segments: meta, unwritable: func(err error) { told = append(told, err) }}
	if err := log.StoreLogs([]*raft.Log{command(1, 1, "x")}); err != nil || len(told) > 0 {
		t.Fatalf("an entry that is written: %v, %v", err, told)
	}
	if err := log.StoreLog(command(7, 1, "x")); err == nil || len(told) > 0 {
		t.Fatalf("an entry after a hole, which is no fault of the disk: %v, %v", err, told)
	}
	disk.full.Store(true)
	for _, err := range []error{log.StoreLogs([]*raft.Log{command(2, 1, "x")}), log.StoreLog(command(2, 1, "x"))} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a full disk: %v", err)
		}
	}
	if len(told) != 2 || !errors.Is(told[0], ErrUnwritable) || !errors.Is(told[1], syscall.ENOSPC) {
		t.Errorf("the node was told: %v", told)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// Segments are made in their whole size, so a disk is mostly full when the next one is due.
func TestADiskWithoutRoomForTheNextSegmentEndsTheNode(t *testing.T) {
	dir, disk, meta := t.TempDir(), &fullDisk{FS: fs.New()}, newSegmentList()
	const segmentBytes, entryBytes = 4096, 900
	store, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentSize(segmentBytes), wal.WithSegmentFiler(segment.NewFiler(dir, disk)))
	if err != nil {
		t.Fatal(err)
	}
	var told []error
	log := &Log{WAL: store, segments: meta, unwritable: func(err error) { told = append(told, err) }}
	disk.full.Store(true) // for new segments, and this one has room
	for i := uint64(1); len(told) == 0; i++ {
		if err := log.StoreLogs([]*raft.Log{command(i, 1, strings.Repeat("x", entryBytes))}); (err == nil) != (len(told) == 0) {
			t.Fatalf("entry %d: %v, and the node was told %v", i, err, told)
		} else if i > segmentBytes/entryBytes+1 {
			t.Fatal("more was written than there is room for")
		}
	}
	if !errors.Is(told[0], ErrUnwritable) {
		t.Errorf("the node was told: %v", told)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
