package cluster

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/cluster/raftnet"
	"aliquot/cluster/state"
)

// intruder sends a node of one voter what only its leader should send, under the node's own name: a broken or a hostile
// peer, with the library's own bytes.
type intruder struct {
	*puppet
	node *Node
}

func newIntruder(t *testing.T, n *Node) *intruder {
	p := newPuppet(t, newStreamLayerFor(t, "x/00000009"), "x/00000009")
	t.Cleanup(p.stop)
	return &intruder{p, n}
}

// header names a voter of the cluster at the intruder's address.
func (i *intruder) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(i.node.serverID), Addr: []byte(i.server.Address)}
}

func (i *intruder) append(term uint64, entries ...*raft.Log) error {
	last := i.last()
	return i.AppendEntries(i.node.serverID, raft.ServerAddress(i.node.RaftAddress()), &raft.AppendEntriesRequest{
		RPCHeader: i.header(), Term: term, PrevLogEntry: last.Index, PrevLogTerm: last.Term, Entries: entries, LeaderCommitIndex: math.MaxUint64,
	}, &raft.AppendEntriesResponse{})
}

// last is the last entry of the node's log.
func (i *intruder) last() (last raft.Log) {
	i.t.Helper()
	index, err := i.node.logs.LastIndex()
	if err == nil {
		err = i.node.logs.GetLog(index, &last)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return last
}

func (i *intruder) vote(term uint64, transfer bool) error {
	last := i.last()
	return i.RequestVote(i.node.serverID, raft.ServerAddress(i.node.RaftAddress()), &raft.RequestVoteRequest{
		RPCHeader: i.header(), Term: term, LastLogIndex: last.Index, LastLogTerm: last.Term, LeadershipTransfer: transfer,
	}, &raft.RequestVoteResponse{})
}

func (i *intruder) preVote(term uint64) error {
	return i.RequestPreVote(i.node.serverID, raft.ServerAddress(i.node.RaftAddress()), &raft.RequestPreVoteRequest{
		RPCHeader: i.header(), Term: term,
	}, &raft.RequestPreVoteResponse{})
}

func (i *intruder) snapshot(term, index uint64, data []byte) error {
	servers := raft.EncodeConfiguration(i.node.configuration())
	return i.InstallSnapshot(i.node.serverID, raft.ServerAddress(i.node.RaftAddress()), &raft.InstallSnapshotRequest{
		RPCHeader: i.header(), SnapshotVersion: raft.SnapshotVersionMax, Term: term, LastLogIndex: index, LastLogTerm: term,
		Configuration: servers, ConfigurationIndex: 1, Size: int64(len(data)),
	}, &raft.InstallSnapshotResponse{}, bytes.NewReader(data))
}

// leads fails the test unless the node leads, in the term given, and commits.
func leads(t *testing.T, n *Node, term uint64) {
	t.Helper()
	if got := n.Term(); got != term || !n.Leads() {
		t.Errorf("after what was sent: term %d, leads %v; before: term %d, leads", got, n.Leads(), term)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := n.CreateEpoch(ctx); err != nil {
		t.Errorf("the cluster no longer commits: %v", err)
	}
}

func startLeader(t *testing.T) (*lab, *Node) {
	l := newLab(t)
	n := l.leader(l.start(l.config("c1")))
	settled(t, n)
	return l, n
}

// settled waits until the leader, of these nodes or alone, writes nothing more by itself that changes its state: an
// idle leader goes on writing entries that change nothing.
func settled(t *testing.T, leader *Node, nodes ...*Node) {
	t.Helper()
	eventually(t, "the addresses in the log", func() bool {
		known := leader.addresses()
		return known[leader.serverID] != "" && !slices.ContainsFunc(nodes, func(n *Node) bool { return known[n.serverID] == "" })
	})
}

// idle fails the test unless all that the node wrote after an entry is what an idle leader of this term writes.
func (i *intruder) idle(after, term uint64) {
	i.t.Helper()
	for at := after + 1; at <= i.last().Index; at++ {
		var entry raft.Log
		if err := i.node.logs.GetLog(at, &entry); err != nil {
			i.t.Fatal(err)
		}
		cmd, err := state.DecodeCommand(entry.Data)
		if err != nil || entry.Type != raft.LogCommand || entry.Term != term || cmd.GetNoop() == nil {
			i.t.Errorf("entry %d after %d is %v of term %d: %q", at, after, entry.Type, entry.Term, entry.Data)
		}
	}
}

func TestATermThatNoElectionReachesIsRefused(t *testing.T) {
	t.Parallel()
	_, n := startLeader(t)
	i, term := newIntruder(t, n), n.Term()
	for _, far := range []uint64{math.MaxUint64, term + 1_000_000 + 1} {
		for kind, send := range map[string]func(uint64) error{
			"AppendEntries":   func(term uint64) error { return i.append(term) },
			"RequestVote":     func(term uint64) error { return i.vote(term, false) },
			"RequestPreVote":  i.preVote,
			"InstallSnapshot": func(term uint64) error { return i.snapshot(term, 1, []byte("any")) },
		} {
			if err := send(far); err == nil || !strings.Contains(err.Error(), "no election leads there") {
				t.Errorf("%s of term %d: %v", kind, far, err)
			}
		}
	}
	leads(t, n, term)
}

// Raft keeps the term of an answer to a vote as it keeps that of a message.
func TestAnAnswerOfATermThatNoElectionReachesIsRefused(t *testing.T) {
	t.Parallel()
	b := newPuppet(t, newStreamLayerFor(t, "b/00000002"), "b/00000002")
	defer b.stop()
	b.term.Store(math.MaxUint64)
	refused := make(chan string, 8)
	guard := raftnet.NewGuard(func() uint64 { return 3 }, nil, nil, func(reason string, _ error) { refused <- reason })
	a := raftnet.NewTransport(newStreamLayerFor(t, "a/00000001"), guard, newHclog(testLogger(), "raft-net"))
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
	id, address := b.server.ID, b.server.Address
	for kind, err := range map[string]error{
		"AppendEntries":  a.AppendEntries(id, address, &raft.AppendEntriesRequest{RPCHeader: header, Term: 3}, &raft.AppendEntriesResponse{}),
		"RequestVote":    a.RequestVote(id, address, &raft.RequestVoteRequest{RPCHeader: header, Term: 3}, &raft.RequestVoteResponse{}),
		"RequestPreVote": a.RequestPreVote(id, address, &raft.RequestPreVoteRequest{RPCHeader: header, Term: 3}, &raft.RequestPreVoteResponse{}),
	} {
		if err == nil {
			t.Errorf("the answer to %s was taken", kind)
		}
	}
	p, err := a.AppendEntriesPipeline(id, address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AppendEntries(&raft.AppendEntriesRequest{RPCHeader: header, Term: 3}, &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	if resp := (<-p.Consumer()).Response(); resp.Term != 0 || resp.Success {
		t.Errorf("the answer on a pipeline was taken: %+v", resp)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if len(refused) != 4 {
		t.Errorf("%d answers were counted as refused, want 4", len(refused))
	}
}

// Nothing here transfers leadership, so nothing may ask for it.
func TestLeadershipIsNotTakenByATransfer(t *testing.T) {
	t.Parallel()
	_, n := startLeader(t)
	i, term := newIntruder(t, n), n.Term()
	if err := i.TimeoutNow(n.serverID, raft.ServerAddress(n.RaftAddress()), &raft.TimeoutNowRequest{RPCHeader: i.header()}, &raft.TimeoutNowResponse{}); err == nil {
		t.Error("TimeoutNow was accepted")
	}
	if err := i.vote(term+1, true); err == nil {
		t.Error("a vote with the transfer flag was accepted")
	}
	leads(t, n, term)
}

func TestALogEntryThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.config("c1")
	registry := prometheus.NewPedanticRegistry()
	c.Registerer = registry
	n := l.leader(l.start(c))
	settled(t, n)
	i, term, last, answered := newIntruder(t, n), n.Term(), newIntruder(t, n).last().Index, 0.
	for name, entry := range map[string]*raft.Log{
		"a command":       {Index: last + 1, Term: term, Type: raft.LogCommand, Data: []byte("\xff\xff not a command")},
		"another format":  {Index: last + 1, Term: term, Type: raft.LogCommand, Data: []byte{8, 99}},
		"a configuration": {Index: last + 1, Term: term, Type: raft.LogConfiguration, Data: []byte("\xc1 no configuration")},
		"no voter":        {Index: last + 1, Term: term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{})},
		"an old kind":     {Index: last + 1, Term: term, Type: raft.LogAddPeerDeprecated, Data: []byte("x")},
		"a gap":           {Index: last + 9, Term: term, Type: raft.LogNoop},
		"nothing":         nil,
	} {
		err := i.append(term+1, entry)
		if err == nil {
			t.Errorf("%s was accepted", name)
		} else if !strings.Contains(err.Error(), "timeout") { // of a node that stands still for seconds
			answered++
		}
	}
	i.idle(last, term)
	leads(t, n, term)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "aliquot_raft_refused_total" && m.GetLabel()[0].GetValue() == raftnet.RefusedEntry && (m.GetCounter().GetValue() < answered || m.GetCounter().GetValue() > 7) {
				t.Errorf("%v messages were counted, %v were answered", m.GetCounter().GetValue(), answered)
			}
		}
	}
}

// A snapshot that was taken over unread would be the latest on disk: the node would never start again, or as a member
// of another cluster.
func TestASnapshotIsVerifiedBeforeItCounts(t *testing.T) {
	t.Parallel()
	l, n := startLeader(t)
	i, term := newIntruder(t, n), n.Term()
	last := i.last().Index + 1000 // above whatever it writes meanwhile
	own := n.fsm.Copy()
	written := func(change func(*state.State)) []byte {
		s := *own
		change(&s)
		var b bytes.Buffer
		if err := state.WriteSnapshot(&b, &s); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	damaged := written(func(*state.State) {})
	damaged[len(damaged)/2] ^= 1
	for name, data := range map[string][]byte{
		"noise":             []byte("no snapshot"),
		"a damaged one":     damaged,
		"half of one":       damaged[:len(damaged)/2],
		"another cluster's": written(func(s *state.State) { s.ClusterID = "0123456789abcdef" }),
		"an empty one":      written(func(s *state.State) { *s = state.State{Rules: state.RuleBook{NextNumber: 1}} }),
		"one from later":    written(func(s *state.State) { s.AppliedIndex = last + 100 }),
	} {
		if err := i.snapshot(term+1, last+1, data); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if err := i.snapshot(term+1, own.AppliedIndex-1, written(func(*state.State) {})); err == nil {
		t.Error("one from before what is applied was accepted")
	}
	leads(t, n, term)
	id := clusterOf(n)
	again, err := Start(t.Context(), l.stop(n))
	if err != nil {
		t.Fatalf("the node does not start again: %v", err)
	}
	defer func() {
		if err := again.Shutdown(); err != nil {
			t.Error(err)
		}
	}()
	l.leader(again)
	if got := clusterOf(again); got != id {
		t.Errorf("cluster %q, before %q", got, id)
	}
}

// A whole snapshot still comes through.
func TestASnapshotThatIsWholeIsTaken(t *testing.T) {
	t.Parallel()
	_, n := startLeader(t)
	i, term := newIntruder(t, n), n.Term()
	last := i.last().Index + 1000 // above whatever it writes meanwhile
	own := n.fsm.Copy()
	own.Ledger.Epoch = 77
	var b bytes.Buffer
	if err := state.WriteSnapshot(&b, own); err != nil {
		t.Fatal(err)
	}
	if err := i.snapshot(term+1, last+1, b.Bytes()); err != nil {
		t.Fatal(err)
	}
	var ledger budget.Ledger
	n.View(func(s *state.State) { ledger = s.Ledger })
	if ledger.Epoch != 77 {
		t.Errorf("epoch %d, the snapshot has 77", ledger.Epoch)
	}
}
