package raftlog

import (
	"errors"
	"testing"
)

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
