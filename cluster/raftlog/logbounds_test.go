package raftlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// smallSegment holds four or five entries of largeEntry.
const (
	smallSegment = 4096
	largeEntry   = 900
)

// openSmall opens a log of small segments as a start of a node does; the error is the check's.
func openSmall(t *testing.T, dir string, snapshot uint64) (*Log, error) {
	t.Helper()
	l, err := Open(dir, smallSegment, hclog.NewNullLogger(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	l.NoteSnapshot(EntryID{snapshot, 0})
	if err := l.CheckWhole(true); err != nil {
		closeLog(t, l)
		return nil, err
	}
	return l, nil
}

// closeLog leaves a log as kill -9 does.
func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// command is a log entry.
func command(index, term uint64, text string) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: []byte(text)}
}

// change rewrites a file.
func change(t *testing.T, file string, how func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, how(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// append writes that many entries, each by itself.
func (l *Log) append(t *testing.T, entries int) {
	t.Helper()
	_, last, err := l.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	last = max(last, l.snapshot.Index)
	for i := range uint64(entries) {
		if err := l.StoreLog(command(last+1+i, 1, strings.Repeat("x", largeEntry))); err != nil {
			t.Fatal(err)
		}
	}
}

// newSmall is a log with some entries.
func newSmall(t *testing.T, entries int) (*Log, string) {
	t.Helper()
	dir := t.TempDir()
	l, err := Open(dir, smallSegment, hclog.NewNullLogger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetUint64(keyTerm, 1); err != nil {
		t.Fatal(err)
	}
	l.append(t, entries)
	return l, dir
}

func lastSegment(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(files) < 2 {
		t.Fatalf("segments: %v, %v", files, err)
	}
	return slices.Max(files)
}

// A cut that the disk could not make whole leaves a shorter log there than in memory: the
// orderly end that follows notes nothing that is gone.
func TestALogWhoseCutFailedIsTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, snapshot uint64 }{
		"a new leader's": {from: 2}, "a snapshot's": {from: 1, snapshot: 20},
	} {
		l, dir := newSmall(t, 3)
		l.NoteSnapshot(EntryID{c.snapshot, 0})
		if err := l.NoteEnd(); err != nil {
			t.Fatal(err)
		}
		var inTheWay []string // of the segment that is to follow
		for base := range uint64(5) {
			inTheWay = append(inTheWay, filepath.Join(dir, fmt.Sprintf("%020d-%016x.wal", base, 1)))
			if err := os.Mkdir(inTheWay[base], 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.DeleteRange(c.from, 3); err == nil {
			t.Fatalf("%s: the cut did not fail", name)
		}
		if err := l.NoteEnd(); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		for _, dir := range inTheWay {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if l, err := openSmall(t, dir, c.snapshot); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			closeLog(t, l)
		}
	}
}

// The library takes a last segment that is not there for one that was to be made.
func TestALogWithoutItsLastSegmentIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, file string){
		"gone": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"empty": func(t *testing.T, file string) { change(t, file, func([]byte) []byte { return nil }) },
		"zeros": func(t *testing.T, file string) {
			change(t, file, func(data []byte) []byte { return make([]byte, len(data)) })
		},
	} {
		for _, entries := range []int{6, 12, 18} {
			for _, restarted := range []bool{false, true} {
				l, dir := newSmall(t, entries)
				if restarted {
					closeLog(t, l)
					var err error
					if l, err = openSmall(t, dir, 0); err != nil {
						t.Fatal(err)
					}
				}
				closeLog(t, l)
				spoil(t, lastSegment(t, dir))
				if l, err := openSmall(t, dir, 0); err == nil {
					_, last, _ := l.Bounds()
					t.Errorf("%s, restarted %v: of %d entries the log has %d, and was taken", name, restarted, entries, last)
					closeLog(t, l)
				} else if !strings.Contains(err.Error(), "last segment") {
					t.Errorf("%s: the error does not say what is missing: %v", name, err)
				}
			}
		}
	}
}

// A log that was closed in order knows each entry.
func TestALogThatWasClosedInOrderMissesItsLastEntry(t *testing.T) {
	t.Parallel()
	l, dir := newSmall(t, 7)
	if err := l.NoteEnd(); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	change(t, lastSegment(t, dir), func(data []byte) []byte {
		clear(data[bytes.LastIndexByte(data, 'x'):])
		return data
	})
	if _, err := openSmall(t, dir, 0); err == nil || !strings.Contains(err.Error(), "it had entry 7") {
		t.Errorf("a log without its last entry: %v", err)
	}
}

func TestAWholeLogIsTaken(t *testing.T) {
	t.Parallel()
	const entries = 12
	mark := func(held uint64) func(*testing.T, *Log) {
		return func(t *testing.T, l *Log) {
			if err := l.WAL.SetUint64(keyReach, held); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(from, to uint64) func(*testing.T, *Log) {
		return func(t *testing.T, l *Log) {
			if err := l.DeleteRange(from, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		snapshot, last uint64
		then           func(*testing.T, *Log)
	}{
		"as it was":                        {last: entries},
		"of a version without the mark":    {last: entries, then: mark(0)},
		"of a version with another mark":   {last: entries, then: mark(1)},
		"without some of its beginning":    {last: entries, snapshot: 11, then: cut(1, 10)},
		"without an entry":                 {last: entries - 1, then: cut(entries, entries)},
		"without its last segments":        {last: 3, then: cut(4, entries)},
		"without any, behind a snapshot":   {last: 0, snapshot: 20, then: cut(1, entries)},
		"shorter than its snapshot, still": {last: entries, snapshot: 20},
		"cut, and longer again": {last: 14, then: func(t *testing.T, l *Log) {
			cut(3, entries)(t, l)
			l.append(t, entries)
		}},
		"emptied, and written to again": {last: 23, snapshot: 20, then: func(t *testing.T, l *Log) {
			cut(1, entries)(t, l)
			l.append(t, 3)
		}},
		"about to be cut": {last: entries, then: func(t *testing.T, l *Log) {
			if err := l.noteTruncation(3); err != nil {
				t.Fatal(err)
			}
		}},
		"about to be emptied": {last: entries, snapshot: 20, then: func(t *testing.T, l *Log) {
			if err := l.noteTruncation(0); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, inOrder := range []bool{false, true} {
			l, dir := newSmall(t, entries)
			l.NoteSnapshot(EntryID{c.snapshot, 0})
			if c.then != nil {
				c.then(t, l)
			}
			if inOrder {
				if err := l.NoteEnd(); err != nil {
					t.Fatal(err)
				}
			}
			closeLog(t, l)
			for range 3 {
				l, err := openSmall(t, dir, c.snapshot)
				if err != nil {
					t.Errorf("%s, closed in order %v: %v", name, inOrder, err)
					break
				}
				if last, err := l.LastIndex(); err != nil || last != c.last {
					t.Errorf("%s: the log ends with %d, want %d (%v)", name, last, c.last, err)
				}
				closeLog(t, l)
			}
		}
	}
}

// An entry whose writing was interrupted was never acknowledged.
func TestALogWithATornEntryIsTaken(t *testing.T) {
	t.Parallel()
	for entries := range 12 {
		l, dir := newSmall(t, entries+1)
		held := l.reach
		closeLog(t, l)
		files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
		if err != nil {
			t.Fatal(err)
		}
		change(t, slices.Max(files), func(data []byte) []byte {
			const header, frame = 32, 8
			end := max(header, (len(bytes.TrimRight(data, "\x00"))+frame-1)/frame*frame)
			begun := append([]byte{1, 0, 0, 0, largeEntry & 0xff, largeEntry >> 8, 0, 0}, "yyy"...)
			return append(data[:end:end], append(begun, make([]byte, largeEntry)...)...)
		})
		l, err = openSmall(t, dir, 0)
		if err != nil {
			t.Fatalf("%d entries, %d noted: %v", entries+1, held, err)
		}
		closeLog(t, l)
	}
}

// The log is empty then, and what the snapshot held is nowhere else.
func TestALogThatWasEmptiedForASnapshotNeedsIt(t *testing.T) {
	t.Parallel()
	l, dir := newSmall(t, 3)
	l.NoteSnapshot(EntryID{20, 0})
	if err := l.DeleteRange(1, 3); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if _, err := openSmall(t, dir, 10); err == nil || !strings.Contains(err.Error(), "up to entry 20") {
		t.Errorf("with an older snapshot: %v", err)
	}
	l, err := openSmall(t, dir, 20)
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
}
