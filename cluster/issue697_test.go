package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/raftlog"
	"aliquot/cluster/state"
)

// stores are the log stores that raft can be given over one write-ahead log.
var stores = map[string]func(*raftlog.Log) raft.LogStore{
	"ordinary":  func(l *raftlog.Log) raft.LogStore { return struct{ raft.LogStore }{l.WAL} }, // what issue 697 is about
	"monotonic": func(l *raftlog.Log) raft.LogStore { return l.WAL },                          // raft-wal as it comes
	"ours":      func(l *raftlog.Log) raft.LogStore { return l },
}

// snapshotAt is the index of the leader's snapshot, of term 3, in all these tests.
const snapshotAt = 4

// behind is a follower of a puppet with entries of term 2, which nobody else has.
type behind struct {
	t      *testing.T
	store  func(*raftlog.Log) raft.LogStore
	net    *wires
	leader *puppet
	self   raft.Server
	dir    string
	snaps  *raft.InmemSnapshotStore

	raft *raft.Raft
	wal  *raftlog.Log
	fsm  *recorder
}

// newBehind has a log up to entry last.
func newBehind(t *testing.T, store func(*raftlog.Log) raft.LogStore, last uint64) *behind {
	b := &behind{t: t, store: store, net: newWires(), dir: t.TempDir(), snaps: raft.NewInmemSnapshotStore(),
		self: raft.Server{ID: "f/00000001", Address: "f"}}
	b.leader = newPuppet(t, b.net.listen("p"), "p/00000002")
	b.start()
	t.Cleanup(func() { b.stop(); b.leader.stop() })
	var entries []*raft.Log
	for i := uint64(2); i <= last; i++ {
		entries = append(entries, command(i, 2, "uncommitted"))
	}
	if !b.leader.appendTo(b.self, 2, raft.Log{Index: 1, Term: 1}, 1, entries...).Success {
		t.Fatal("the follower refused its first entries")
	}
	return b
}

func (b *behind) config() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{b.self, b.leader.server}}
}

func (b *behind) start() {
	b.t.Helper()
	opened, err := raftlog.Open(b.dir, walSegmentBytes, newHclog(testLogger(), "raft-wal"), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.wal, b.fsm = opened, &recorder{}
	snaps, err := raftlog.NewSnapshots(b.snaps, b.wal)
	if err != nil {
		b.t.Fatal(err)
	}
	rc := quietRaft(b.self.ID)
	trans, logs := newTransport(b.net.listen("f")), b.store(b.wal)
	if existing, err := raft.HasExistingState(logs, opened, snaps); err != nil {
		b.t.Fatal(err)
	} else if !existing {
		if err := raft.BootstrapCluster(rc, logs, opened, snaps, trans, b.config()); err != nil {
			b.t.Fatal(err)
		}
	}
	if b.raft, err = raft.NewRaft(rc, b.fsm, logs, opened, snaps, trans); err != nil {
		b.t.Fatal(err)
	}
}

func (b *behind) stop() {
	b.t.Helper()
	if err := errors.Join(b.raft.Shutdown().Error(), b.wal.Close()); err != nil {
		b.t.Error(err)
	}
}

// install sends the leader's snapshot.
func (b *behind) install() {
	b.t.Helper()
	resp := &raft.InstallSnapshotResponse{}
	err := b.leader.InstallSnapshot(b.self.ID, b.self.Address, &raft.InstallSnapshotRequest{
		RPCHeader: b.leader.header(), SnapshotVersion: 1, Term: 3, LastLogIndex: snapshotAt, LastLogTerm: 3,
		Configuration: raft.EncodeConfiguration(b.config()), ConfigurationIndex: 1, Size: 1,
	}, resp, strings.NewReader("s"))
	if err != nil || !resp.Success {
		b.t.Fatalf("snapshot refused: %v", err)
	}
}

// next sends the entry after the snapshot, committed, as the leader goes on doing.
func (b *behind) next() (taken bool) {
	b.t.Helper()
	const next = snapshotAt + 1
	return b.leader.appendTo(b.self, 3, raft.Log{Index: snapshotAt, Term: 3}, next, command(next, 3, "committed")).Success
}

// quietRaft never stands for election by itself within a test.
func quietRaft(id raft.ServerID) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = id
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = time.Hour, time.Hour, time.Hour
	rc.TrailingLogs = trailingLogs
	rc.NoLegacyTelemetry = true
	rc.Logger = newHclog(testLogger(), "raft")
	return rc
}

// hashicorp/raft issue 697: a snapshot over a log that differs from it. The first
// two lines say what raft does with the stores that exist, so that a version of it
// that needs our mitigation no longer is noticed.
func TestSnapshotOverADivergentLog(t *testing.T) {
	for _, c := range []struct {
		store          string
		last           uint64
		taken, restart bool // whether the follower goes on, at once and after a restart
	}{
		{"ordinary", snapshotAt, false, false},
		{"ordinary", snapshotAt + 1, false, false},
		{"monotonic", snapshotAt, false, true},
		{"monotonic", snapshotAt + 1, false, true},
		{"ours", snapshotAt - 1, true, true},
		{"ours", snapshotAt + 1, true, true},
		{"ours", snapshotAt + 3, true, true},
		{"ours", snapshotAt, false, true}, // CheckStale's case
	} {
		b := newBehind(t, stores[c.store], c.last)
		for range 3 {
			b.install()
			if got := b.next(); got != c.taken {
				t.Errorf("%s log up to %d: the entry after the snapshot was taken: %v, want %v", c.store, c.last, got, c.taken)
			}
		}
		if err := b.wal.CheckStale(b.raft); c.store == "ours" && errors.Is(err, raftlog.ErrStale) != !c.taken {
			t.Errorf("log up to %d: CheckStale says %v", c.last, err)
		}
		b.stop()
		b.start()
		b.leader.CloseStreams()
		if got := b.next(); got != c.restart {
			t.Errorf("%s log up to %d: taken after a restart: %v, want %v", c.store, c.last, got, c.restart)
		}
		if c.restart {
			eventually(t, "the committed entry", func() bool { return b.fsm.last() == "committed" })
		}
	}
}

// A snapshot may come a second time, over entries that follow it, when an answer got
// lost. What the node has acknowledged must stay, and it must go on.
func TestSnapshotAgainKeepsAcknowledgedEntries(t *testing.T) {
	for store, kept := range map[string]bool{"monotonic": false, "ours": true} {
		b := newBehind(t, stores[store], snapshotAt-1)
		b.install()
		if !b.next() {
			t.Fatalf("%s: the entry after the snapshot was refused", store)
		}
		if got := b.next(); got != kept { // the leader did not hear the answer
			t.Errorf("%s: the same entry again was taken: %v, want %v", store, got, kept)
		}
		full := newBehind(t, stores[store], 1)
		var entries []*raft.Log
		for i := uint64(2); i <= snapshotAt+2; i++ {
			entries = append(entries, command(i, 3, "acknowledged"))
		}
		if !full.leader.appendTo(full.self, 3, raft.Log{Index: 1, Term: 1}, 1, entries...).Success {
			t.Fatal("the follower refused entries")
		}
		full.install()
		if last, err := full.wal.LastIndex(); err != nil || (last == snapshotAt+2) != kept {
			t.Errorf("%s: the log ends at %d after the snapshot (%v); kept should be %v", store, last, err, kept)
		}
		if !kept {
			continue // to commit them now would crash the process: raft finds no entry to apply
		}
		if !full.leader.appendTo(full.self, 3, raft.Log{Index: snapshotAt + 2, Term: 3}, snapshotAt+2).Success {
			t.Errorf("%s: what follows was refused", store)
		}
		eventually(t, "the acknowledged entries", func() bool { return full.fsm.last() == "acknowledged" })
	}
}

// The one case that cannot be repaired in place ends the node, and the next start
// goes on from the snapshot.
func TestNodeWithAStaleLogEndsAndStartsAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.config("c1")
	c.BootstrapExpect, c.Join = 0, []string{"127.0.0.1:1"}
	n := l.start(c)
	self := raft.Server{ID: n.serverID, Address: raft.ServerAddress(n.RaftAddress())}
	leader := newPuppet(t, newStreamLayerFor(t, "p/00000002"), "p/00000002")
	t.Cleanup(leader.stop)
	leader.mute.Store(true) // it grants the node no vote, however long the test takes
	config := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{self, leader.server}})
	entries := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: config}}
	for i := uint64(2); i <= snapshotAt; i++ {
		entries = append(entries, &raft.Log{Index: i, Term: 2, Type: raft.LogNoop})
	}
	if !leader.appendTo(self, 2, raft.Log{}, 1, entries...).Success {
		t.Fatal("the node refused its first entries")
	}
	var data bytes.Buffer
	n.View(func(s *state.State) {
		if err := state.WriteSnapshot(&data, s); err != nil {
			t.Fatal(err)
		}
	})
	resp := &raft.InstallSnapshotResponse{}
	if err := leader.InstallSnapshot(self.ID, self.Address, &raft.InstallSnapshotRequest{
		RPCHeader: leader.header(), SnapshotVersion: 1, Term: 3, LastLogIndex: snapshotAt, LastLogTerm: 3,
		Configuration: config, ConfigurationIndex: 1, Size: int64(data.Len()),
	}, resp, &data); err != nil || !resp.Success {
		t.Fatalf("snapshot refused: %v", err)
	}
	select {
	case err := <-n.Failed():
		if !errors.Is(err, raftlog.ErrStale) {
			t.Fatalf("failed with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the node goes on with a stale log")
	}
	n = l.start(l.stop(n))
	leader.CloseStreams()
	noop := &raft.Log{Index: snapshotAt + 1, Term: 3, Type: raft.LogNoop}
	if !leader.appendTo(self, 3, raft.Log{Index: snapshotAt, Term: 3}, snapshotAt+1, noop).Success {
		t.Error("the node refuses what follows the snapshot after a restart")
	}
	if _, err := os.Stat(filepath.Join(n.cfg.DataDir, identityFile)); err != nil {
		t.Error(err)
	}
}
