package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// The library maps the list of segments into memory. Reading behind the end of a shorter file is a fault, which
// ended the process with a dump of all goroutines in place of an error that says what to do.
func TestAListOfSegmentsThatWasCutOffIsDamage(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	log, err := Open(whole, 1<<20, hclog.NewNullLogger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	list, err := os.ReadFile(filepath.Join(whole, "wal-meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "wal-meta.db"), list[:len(list)/4], 0o600); err != nil {
		t.Fatal(err)
	}
	if log, err := Open(dir, 1<<20, hclog.NewNullLogger(), nil); err == nil {
		closeLog(t, log)
		t.Error("a quarter of the list: opened")
	} else if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), startEmpty) {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestWhatIsNoInterruptedFirstStartStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(l *Log) error
		listed bool
		want   uint64
	}{
		"interrupted":    {func(*Log) error { return nil }, false, 0},
		"a later term":   {func(l *Log) error { return l.SetUint64(keyTerm, 2) }, false, 2},
		"a vote":         {func(l *Log) error { return l.SetUint64(keyVotedTerm, 1) }, false, 1},
		"an entry":       {func(l *Log) error { return l.StoreLog(command(1, 1, "x")) }, false, 1},
		"a snapshot":     {func(l *Log) error { l.NoteSnapshot(EntryID{1, 1}); return nil }, false, 1},
		"a known server": {func(*Log) error { return nil }, true, 1},
	} {
		l, _ := newSmall(t, 0)
		err := c.change(l)
		forgot, errForget := l.ForgetUnfinishedBootstrap(c.listed)
		err = errors.Join(err, errForget)
		if got, errGet := l.Term(); err != nil || errGet != nil || got != c.want || forgot != (c.want == 0) {
			t.Errorf("%s: term %d, want %d (%v, %v)", name, got, c.want, err, errGet)
		}
		closeLog(t, l)
	}
}
