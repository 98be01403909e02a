package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// segmentOf is the one file of a small log.
func segmentOf(t *testing.T, dataDir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, "wal", "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("segments: %v, %v", files, err)
	}
	return files[0]
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

// A server that came back under its old name without what it acknowledged could elect a
// leader that lacks it, too. What a log of several segments may lack is in package raftlog's tests.
func TestANodeWithADamagedLogRefusesToStart(t *testing.T) {
	t.Parallel()
	empty := func([]byte) []byte { return nil }
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"the log is gone": func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "wal")); err != nil {
				t.Fatal(err)
			}
		},
		"its only segment is gone": func(t *testing.T, dir string) {
			if err := os.Remove(segmentOf(t, dir)); err != nil {
				t.Fatal(err)
			}
		},
		"its only segment is empty": func(t *testing.T, dir string) { change(t, segmentOf(t, dir), empty) },
		"its only segment is zeros": func(t *testing.T, dir string) {
			change(t, segmentOf(t, dir), func(data []byte) []byte { return make([]byte, len(data)) })
		},
		"its segment is another's": func(t *testing.T, dir string) {
			change(t, segmentOf(t, dir), func(data []byte) []byte { data[9] ^= 1; return data })
		},
		"its last entries are gone": func(t *testing.T, dir string) {
			change(t, segmentOf(t, dir), func(data []byte) []byte {
				clear(data[len(bytes.TrimRight(data, "\x00"))-100:])
				return data
			})
		},
		"an entry is other bytes": func(t *testing.T, dir string) {
			change(t, segmentOf(t, dir), func(data []byte) []byte {
				const header, frame = 32, 8
				copy(data[header+frame:], bytes.Repeat([]byte{0xff}, 40))
				return data
			})
		},
		"the list of segments is empty": func(t *testing.T, dir string) { change(t, filepath.Join(dir, "wal", "wal-meta.db"), empty) },
		"the list of segments is gone": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "wal", "wal-meta.db")); err != nil {
				t.Fatal(err)
			}
		},
		"the list of segments is noise": func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, "wal", "wal-meta.db"), func(data []byte) []byte { return bytes.Repeat([]byte("no"), len(data)/2) })
		},
	} {
		for _, snapshot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/snapshot %v", name, snapshot), func(t *testing.T) {
				t.Parallel()
				refusesToStart(t, snapshot, spoil)
			})
		}
	}
}

func refusesToStart(t *testing.T, snapshot bool, spoil func(t *testing.T, dir string)) {
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	eventually(t, "the node on disk as a server", func() bool {
		data, err := os.ReadFile(filepath.Join(l.dir, "c1", identityFile))
		return err == nil && bytes.Contains(data, []byte(`"listed": true`))
	})
	if snapshot {
		if err := n.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
	}
	c := l.stop(n)
	spoil(t, c.DataDir)
	refused(t, c, filepath.Join(c.DataDir, "wal"))
}

// refused starts a node twice, since the libraries repair what they take for unfinished.
func refused(t *testing.T, c Config, where string) {
	t.Helper()
	for range 2 {
		n, err := Start(t.Context(), c)
		if err == nil {
			t.Fatalf("started (shutdown: %v)", n.Shutdown())
		}
		if !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), "empty --data-dir") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
}

func TestALogWithoutItsSnapshotRefusesToStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	keepTrailing(t, n, 1)
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c := l.stop(n)
	again := l.start(c) // it is well with it
	l.leader(again)
	c = l.stop(again)
	if err := os.RemoveAll(filepath.Join(c.DataDir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	if n, err := Start(t.Context(), c); err == nil {
		t.Errorf("started (shutdown: %v)", n.Shutdown())
	} else if !strings.Contains(err.Error(), "the latest snapshot ends with 0") {
		t.Errorf("the error does not say what is missing: %v", err)
	}
}
