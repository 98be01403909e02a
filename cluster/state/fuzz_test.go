package state

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// used is a cluster of three regions that has rules, a staged version, entries, addresses and hot keys.
func used(f *testing.F) *Machine {
	m := NewMachine()
	drive(f, m, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules), tierCmd("pro", 500), planCmd(1, third(1), third(2)),
		stageCmd(proStaged, "us"))
	return m
}

// fuzzedCommands are one command of each kind.
func fuzzedCommands() []*raftlogv1.Command {
	return []*raftlogv1.Command{
		bootstrapCmd("one"), rulesCmd(twoRules), planCmd(1, third(3)), planCmd(1, budget.Entry{Key: key(1)}), mintCmd(),
		timingCmd(5_000_000, 10_000), stageCmd(twoRules, "us"), endCmd(4, RolloutPromoted), tierCmd("pro", 7), tierCmd("pro", 0),
		{Kind: &raftlogv1.Command_ChangeRegion{ChangeRegion: &raftlogv1.ChangeRegion{Name: "us", Change: raftlogv1.ChangeRegion_CHANGE_UPDATE, Weight: 3}}},
		{Kind: &raftlogv1.Command_ChangeRegion{ChangeRegion: &raftlogv1.ChangeRegion{Name: "new", Change: raftlogv1.ChangeRegion_CHANGE_ADD, Weight: 1}}},
		{Kind: &raftlogv1.Command_AdvanceFloors{AdvanceFloors: &raftlogv1.AdvanceFloors{ConfigVersion: 1}}},
		{Kind: &raftlogv1.Command_EndEntries{EndEntries: &raftlogv1.EndEntries{UnixMs: 5}}},
		{Kind: &raftlogv1.Command_ChangeEntries{ChangeEntries: &raftlogv1.ChangeEntries{
			Put: []*raftlogv1.Entry{{Kind: "block", Name: "sk_1", UnixMs: 3}}, Author: "ann",
		}}},
		{Kind: &raftlogv1.Command_SetAddresses{SetAddresses: &raftlogv1.SetAddresses{}}},
		placeCmd("us", 9, 0), placeCmd("us", 9, 4), placeCmd("us", 0, 0),
		{Kind: &raftlogv1.Command_Noop{Noop: &raftlogv1.Noop{}}},
	}
}

// FuzzEntry: an entry of Raft's log that no coordinator wrote changes nothing, or leads to a state whose snapshot can
// be read; it ends no node.
func FuzzEntry(f *testing.F) {
	f.Add([]byte{})
	for _, c := range fuzzedCommands() {
		data, err := EncodeCommand(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	old := used(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := DecodeCommand(data); err != nil {
			return
		}
		grown := NewMachine()
		grown.state = *old.Copy()
		for _, m := range []*Machine{NewMachine(), grown} {
			before := m.state.AppliedIndex
			m.Apply(before+1, 1, data)
			if _, err := ReadSnapshot(bytes.NewReader(bytesOf(t, m))); m.state.ClusterID != "" && err != nil {
				t.Errorf("after the entry: %v", err)
			}
		}
	})
}

// FuzzSnapshot: a snapshot that no coordinator wrote, also one whose checksum is right, is refused or restored, and
// what is restored is written and read again.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte{})
	for _, m := range []*Machine{NewMachine(), used(f)} {
		f.Add(bytesOf(f, m))
		f.Add(bytesOf(f, m)[snapshotHeaderSize:])
	}
	for _, c := range fuzzedCommands() {
		m := used(f)
		drive(f, m, c)
		f.Add(bytesOf(f, m)[snapshotHeaderSize:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = NewMachine().Restore(bytes.NewReader(data))
		if proto.Unmarshal(data, &raftlogv1.Snapshot{}) != nil {
			return
		}
		header := snapshotHeader(data)
		m := NewMachine()
		if m.Restore(bytes.NewReader(append(header[:], data...))) != nil {
			return
		}
		if _, err := ReadSnapshot(bytes.NewReader(bytesOf(t, m))); err != nil {
			t.Errorf("restored, written and read again: %v", err)
		}
		m.Apply(1, 1, mustEncode(t, mintCmd()))
	})
}

func mustEncode(t *testing.T, c *raftlogv1.Command) []byte {
	t.Helper()
	data, err := EncodeCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
