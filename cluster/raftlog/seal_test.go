package raftlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/types"
)

// frozen is a list of segments that a crash or a full disk keeps as it is.
type frozen struct {
	*segmentList
	now bool
}

func (f *frozen) CommitState(state types.PersistentState) error {
	if f.now {
		return errors.New("killed")
	}
	return f.segmentList.CommitState(state)
}

// sealedOnly is a log whose segment is full, and has no successor in the list.
func sealedOnly(t *testing.T) (dir string, entries uint64) {
	t.Helper()
	dir = t.TempDir()
	list := &frozen{segmentList: newSegmentList()}
	store, err := wal.Open(dir, wal.WithMetaStore(list), wal.WithSegmentSize(smallSegment), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	l := &Log{WAL: store, segments: list.segmentList}
	if err := l.SetUint64(keyTerm, 1); err != nil {
		t.Fatal(err)
	}
	list.now = true
	for err == nil {
		entries++
		err = l.StoreLog(command(entries, 1, string(bytes.Repeat([]byte("x"), largeEntry))))
	}
	if !errors.Is(err, wal.ErrSealed) {
		t.Fatal(err)
	}
	closeLog(t, l)
	return dir, entries - 1
}

// raft-wal 0.4.1 takes no entry into such a log, after any number of starts.
func TestALogThatWasCutOffBetweenTwoSegmentsGoesOn(t *testing.T) {
	t.Parallel()
	dir, entries := sealedOnly(t)
	goesOn(t, dir, entries, entries)
}

// The write that ends a segment may be on disk in part: then nothing of it was acknowledged.
func TestALogThatWasCutOffAtTheEndOfASegmentGoesOn(t *testing.T) {
	t.Parallel()
	dir, entries := sealedOnly(t)
	file := filepath.Join(dir, "00000000000000000001-0000000000000000.wal")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(whole, "\x00"))
	for missing := 1; missing < largeEntry; missing += 3 {
		torn := t.TempDir()
		if err := os.CopyFS(torn, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		change(t, filepath.Join(torn, filepath.Base(file)), func(data []byte) []byte {
			clear(data[end-missing : end])
			return data
		})
		goesOn(t, torn, entries-1, entries-1)
	}
}

// goesOn starts a log twice that has some entries, and writes to it each time.
func goesOn(t *testing.T, dir string, least, most uint64) {
	t.Helper()
	for range 2 {
		l, err := openSmall(t, dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		last, err := l.LastIndex()
		if err != nil || last < least || last > most {
			t.Fatalf("the log ends with %d, want %d to %d (%v)", last, least, most, err)
		}
		const more = 7
		l.append(t, more)
		for i := uint64(1); i <= last+more; i++ {
			var entry raft.Log
			if err := l.GetLog(i, &entry); err != nil || entry.Index != i || len(entry.Data) < largeEntry {
				t.Fatalf("entry %d: %d of %d bytes, %v", i, entry.Index, len(entry.Data), err)
			}
		}
		least, most = last+more, last+more
		closeLog(t, l)
	}
}
