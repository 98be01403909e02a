package cluster

import (
	"encoding/json"
	"hash/crc64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// keepTrailing has a node keep that many entries behind its snapshots.
func keepTrailing(t *testing.T, n *Node, entries uint64) {
	t.Helper()
	if err := n.raft.ReloadConfig(raft.ReloadableConfig{
		TrailingLogs: entries, SnapshotInterval: snapshotInterval, SnapshotThreshold: snapshotThreshold,
		HeartbeatTimeout: n.cfg.electionTimeout(), ElectionTimeout: n.cfg.electionTimeout(),
	}); err != nil {
		t.Fatal(err)
	}
}

// twoSnapshots stops a node that has two of them and a log that goes back so many entries
// behind the newer one, whose directory it returns.
func twoSnapshots(t *testing.T, trailing uint64) (c Config, newest string) {
	t.Helper()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	keepTrailing(t, n, trailing)
	for range 2 {
		for range 3 {
			if _, err := n.CreateEpoch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
	}
	c = l.stop(n)
	states, err := filepath.Glob(filepath.Join(c.DataDir, "snapshots", "*", "state.bin"))
	if err != nil || len(states) != 2 {
		t.Fatalf("snapshots: %v, %v", states, err)
	}
	modified := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	return c, filepath.Dir(slices.MaxFunc(states, func(a, b string) int { return int(modified(a) - modified(b)) }))
}

// Raft would go on from the older one, and panic if the log does not go back that far.
func TestADamagedSnapshotIsNotReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	for _, trailing := range []uint64{trailingLogs, 1} {
		c, newest := twoSnapshots(t, trailing)
		change(t, filepath.Join(newest, "state.bin"), func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
		refused(t, c, filepath.Join(c.DataDir, "snapshots"))
	}
}

func TestASnapshotThatThisVersionDoesNotReadIsNotReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	c, newest := twoSnapshots(t, trailingLogs)
	other := []byte("of another version")
	change(t, filepath.Join(newest, "state.bin"), func([]byte) []byte { return other })
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	sum.Write(other)
	change(t, filepath.Join(newest, "meta.json"), func(data []byte) []byte {
		meta := map[string]any{}
		if err := json.Unmarshal(data, &meta); err != nil {
			t.Fatal(err)
		}
		meta["CRC"] = sum.Sum(nil)
		data, err := json.Marshal(meta)
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
	if n, err := Start(t.Context(), c); err == nil {
		t.Errorf("started from an older snapshot (shutdown: %v)", n.Shutdown())
	} else if !strings.Contains(err.Error(), "the version that wrote it") || !strings.Contains(err.Error(), c.DataDir) {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestWhatIsLeftOfASnapshotGoesAtTheNextStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c := l.stop(n)
	dir := filepath.Join(c.DataDir, "snapshots")
	left := filepath.Join(dir, "12-286-1795352503737.tmp")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "meta.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.leader(l.start(c))
	if there, err := os.ReadDir(dir); err != nil || len(there) != 1 || there[0].Name() == filepath.Base(left) {
		t.Errorf("in the directory of snapshots: %v, %v", there, err)
	}
}
