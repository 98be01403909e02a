package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
	"aliquot/internal/testaddr"
)

// gossiped is what a stranger learns by gossip of the coordinators: their Raft servers by their node ids, and the
// cluster's id.
func (p *peers) gossiped(t *testing.T) (servers map[string]raft.ServerID, cluster string) {
	t.Helper()
	host, _, _ := net.SplitHostPort(testaddr.Free())
	c := memberlist.DefaultLocalConfig()
	c.Name, c.Label, c.BindAddr, c.BindPort, c.AdvertisePort = "stranger", "aliquot", host, 0, 0
	c.Logger = log.New(io.Discard, "", 0)
	list, err := memberlist.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = list.Shutdown() }()
	servers = map[string]raft.ServerID{}
	p.until(t, "a stranger hears who is in the cluster", func() bool {
		_, _ = list.Join([]string{p.nodes[0].gossip})
		for _, m := range list.Members() {
			if node, _, ok := strings.Cut(m.Name, "/"); ok {
				servers[node] = raft.ServerID(m.Name)
			}
			var meta struct {
				Cluster string `json:"c"`
			}
			if json.Unmarshal(m.Meta, &meta) == nil && meta.Cluster != "" {
				cluster = meta.Cluster
			}
		}
		return len(servers) == 3 && cluster != ""
	})
	return servers, cluster
}

// greeter dials a coordinator's Raft port with the greeting of a server of its cluster, which anybody can write.
type greeter struct {
	net.Listener
	server  raft.ServerID // that is greeted
	cluster string
}

func greeting(magic string, server raft.ServerID, cluster string) []byte {
	out := append([]byte(magic), byte(len(server)))
	out = append(append(out, server...), byte(len(cluster)))
	return append(out, cluster...)
}

// Dial implements raft.StreamLayer.
func (g *greeter) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", string(address), timeout)
	if err == nil {
		_, err = conn.Write(greeting("AQR2", g.server, g.cluster))
	}
	return conn, err
}

// intruder sends Raft messages to one coordinator.
type intruder struct {
	*raft.NetworkTransport
	id     raft.ServerID
	at     raft.ServerAddress
	header raft.RPCHeader
}

func intrude(t *testing.T, v *voter, server, as raft.ServerID, cluster string) *intruder {
	t.Helper()
	l, err := net.Listen("tcp", testaddr.Free())
	if err != nil {
		t.Fatal(err)
	}
	tr := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: &greeter{l, server, cluster}, MaxPool: 1, Timeout: 2 * time.Minute, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() { _ = tr.Close() })
	return &intruder{tr, server, raft.ServerAddress(v.raft), raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(as), Addr: []byte(l.Addr().String())}}
}

func (i *intruder) append(term, after uint64, entries ...*raft.Log) error {
	return i.AppendEntries(i.id, i.at, &raft.AppendEntriesRequest{RPCHeader: i.header, Term: term, PrevLogEntry: after, Entries: entries, LeaderCommitIndex: math.MaxUint64}, &raft.AppendEntriesResponse{})
}

func (i *intruder) vote(term uint64, transfer bool) error {
	return i.RequestVote(i.id, i.at, &raft.RequestVoteRequest{RPCHeader: i.header, Term: term, LastLogIndex: math.MaxInt64, LastLogTerm: math.MaxInt64, LeadershipTransfer: transfer}, &raft.RequestVoteResponse{})
}

func (i *intruder) preVote(term uint64) error {
	return i.RequestPreVote(i.id, i.at, &raft.RequestPreVoteRequest{RPCHeader: i.header, Term: term, LastLogIndex: math.MaxInt64, LastLogTerm: math.MaxInt64}, &raft.RequestPreVoteResponse{})
}

func (i *intruder) snapshot(term uint64, data []byte) error {
	return i.snapshotOf(term, int64(len(data)), data)
}

// snapshotOf sends a snapshot that says how large it is.
func (i *intruder) snapshotOf(term uint64, size int64, data []byte) error {
	servers := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: i.id, Address: i.at}}})
	return i.InstallSnapshot(i.id, i.at, &raft.InstallSnapshotRequest{
		RPCHeader: i.header, SnapshotVersion: raft.SnapshotVersionMax, Term: term, LastLogIndex: 1 << 40, LastLogTerm: term,
		Configuration: servers, ConfigurationIndex: 1, Size: size,
	}, &raft.InstallSnapshotResponse{}, bytes.NewReader(data))
}

// forgedRaft sends the leader and a follower what only a broken leader sends, in the name of another voter. All of it is
// refused with a reason, and the follower starts again from its disk.
func (p *peers) forgedRaft(t *testing.T) string {
	servers, cluster := p.gossiped(t)
	leader, followers := p.leader(t)
	var other bytes.Buffer // a snapshot of another cluster
	s := &state.State{ClusterID: "0123456789abcdef", Rules: state.RuleBook{NextNumber: 1}}
	if err := state.WriteSnapshot(&other, s); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(other.Bytes())
	damaged[len(damaged)-1] ^= 1
	sent := 0
	for _, v := range []*voter{leader, followers[0]} {
		as := servers[followers[1].id]
		term := v.status(t).Term
		i := intrude(t, v, servers[v.id], as, cluster)
		for _, c := range []struct {
			name, reason, says string
			send               func() error
		}{
			{"AppendEntries of term 2^64-1", "term", "no election leads there", func() error { return i.append(math.MaxUint64, 0) }},
			{"AppendEntries 2,000,000 terms ahead", "term", "no election leads there", func() error { return i.append(term+2_000_000, 0) }},
			{"a vote in term 2^64-1", "term", "no election leads there", func() error { return i.vote(math.MaxUint64, false) }},
			{"a pre-vote in term 2^64-1", "term", "no election leads there", func() error { return i.preVote(math.MaxUint64) }},
			{"a snapshot of term 2^64-1", "term", "no election leads there", func() error { return i.snapshot(math.MaxUint64, other.Bytes()) }},
			{"TimeoutNow", "transfer", "transfers the leadership", func() error {
				return i.TimeoutNow(i.id, i.at, &raft.TimeoutNowRequest{RPCHeader: i.header}, &raft.TimeoutNowResponse{})
			}},
			{"a vote with the transfer flag", "transfer", "transfers the leadership", func() error { return i.vote(term+1, true) }},
			{"an entry that is no command", "entry", "cannot be read", func() error {
				return i.append(term+1, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogCommand, Data: []byte("\xff\xff not a command")})
			}},
			{"an entry of a later format", "entry", "upgrade this node", func() error {
				return i.append(term+1, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogCommand, Data: []byte{8, 99}})
			}},
			{"a configuration that is none", "entry", "cannot be read", func() error {
				return i.append(term+1, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("\xc1")})
			}},
			{"a configuration without a voter", "entry", "cannot be read", func() error {
				return i.append(term+1, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{})})
			}},
			{"an entry that leaves a gap", "entry", "comes where", func() error {
				return i.append(term+1, 0, &raft.Log{Index: 9, Term: 1, Type: raft.LogNoop})
			}},
			{"a snapshot that is noise", "snapshot", "snapshot", func() error { return i.snapshot(term+1, []byte("no snapshot")) }},
			{"a damaged snapshot", "snapshot", "snapshot", func() error { return i.snapshot(term+1, damaged) }},
			{"a snapshot that says it has 2^62 bytes", "snapshot", "bytes", func() error { return i.snapshotOf(term+1, 1<<62, other.Bytes()) }},
			{"half of a snapshot", "snapshot", "snapshot", func() error { return i.snapshot(term+1, other.Bytes()[:other.Len()/2]) }},
			{"another cluster's snapshot", "snapshot", "cluster", func() error { return i.snapshot(term+1, other.Bytes()) }},
		} {
			before := v.refused(c.reason)
			if err := c.send(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s to %s: %v; want an error with %q", c.name, v.id, err, c.says)
			}
			if v.refused(c.reason) <= before {
				t.Errorf("%s to %s is not counted as %s", c.name, v.id, c.reason)
			}
			sent++
		}
		for name, c := range map[string]*intruder{
			"another server":  intrude(t, v, "c9/00000009", as, cluster),
			"another cluster": intrude(t, v, servers[v.id], as, "0123456789abcdef"),
		} {
			if err := c.append(term+1, 0); err == nil {
				t.Errorf("a message to %s is answered by %s", name, v.id)
			}
		}
		if now := v.status(t).Term; now > term+1000 {
			t.Errorf("%s is in term %d, and was in term %d", v.id, now, term)
		}
	}
	followers[0].kill()
	followers[0].cmd = run(p.t, p.dir, filepath.Join(bin, "coordinator"), followers[0].args...)
	p.others()
	p.until(t, followers[0].id+" starts again", func() bool { return followers[0].status(t).State == "follower" })
	return fmt.Sprintf("%d messages, each refused with its reason", sent)
}

// silentRaft holds connections to a coordinator's Raft port that say nothing. Another caller is still answered.
func (p *peers) silentRaft(t *testing.T) string {
	servers, cluster := p.gossiped(t)
	leader, followers := p.leader(t)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(testaddr.Host())}, Timeout: time.Minute}
	for range 200 {
		c, err := from.Dial("tcp", leader.raft)
		if err != nil {
			t.Error(err)
			break
		}
		held = append(held, c)
	}
	i := intrude(t, leader, servers[leader.id], servers[followers[0].id], cluster)
	if err := i.preVote(math.MaxUint64); err == nil || !strings.Contains(err.Error(), "no election leads there") {
		t.Errorf("a peer is answered %v", err)
	}
	return fmt.Sprintf("%d connections, a peer is answered", len(held))
}

// forgedAnswers joins the cluster as a server that answers as it should who it is, and answers the leader's messages with
// term 2^64-1. It does not get a vote, and the leader does not take that term.
func (p *peers) forgedAnswers(t *testing.T) string {
	_, cluster := p.gossiped(t)
	leader, _ := p.leader(t)
	l, err := net.Listen("tcp", testaddr.Free())
	if err != nil {
		t.Fatal(err)
	}
	meta := fmt.Sprintf(`{"r":"coordinator","n":"c9","i":"00000009","a":%q,"c":%q}`, l.Addr(), cluster)
	answers := &answerer{Listener: l, meta: []byte(meta)}
	tr := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: answers, MaxPool: 1, Timeout: 2 * time.Minute, Logger: hclog.NewNullLogger()})
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case rpc := <-tr.Consumer():
				answers.lied.Add(1)
				rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: math.MaxUint64}, nil)
			}
		}
	}()
	defer func() { close(ended); _ = tr.Close() }()
	refused := func() (n float64) {
		for _, v := range p.nodes {
			n += v.refused("term")
		}
		return n
	}
	before, term := refused(), leader.status(t).Term
	ctx, stop := context.WithCancel(t.Context())
	var joining sync.WaitGroup
	joining.Go(func() {
		for ctx.Err() == nil {
			body := fmt.Sprintf(`{"nodeId":"c9","instanceId":"00000009","raftAddress":%q}`, l.Addr())
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+leader.at+"/aliquot.v1.ClusterService/Join", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if out, err := http.DefaultClient.Do(r); err == nil {
				out.Body.Close()
			}
		}
	})
	p.until(t, "an answer of term 2^64-1 is refused", func() bool { return refused() > before })
	stop()
	joining.Wait()
	if now := leader.status(t).Term; now > term+1000 {
		t.Errorf("%s is in term %d, and was in term %d", leader.id, now, term)
	}
	p.until(t, "the stranger is removed", func() bool {
		leader, _ := p.leader(t)
		_, _ = leader.asked(t, "ClusterService/RemoveMember", `{"nodeId":"c9"}`, nil)
		return len(leader.status(t).Members) == 3
	})
	return fmt.Sprintf("%d answers, %.0f refused", answers.lied.Load(), refused()-before)
}

// answerer listens as a Raft server that says who it is.
type answerer struct {
	net.Listener
	meta []byte
	lied atomic.Int64
}

// Dial implements raft.StreamLayer.
func (a *answerer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(address), timeout)
}

// Accept implements net.Listener with connections whose greeting is read.
func (a *answerer) Accept() (net.Conn, error) {
	for {
		conn, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		magic := make([]byte, 4)
		_, err = io.ReadFull(conn, magic)
		for range 2 { // the server and the cluster
			length := make([]byte, 1)
			if err == nil {
				_, err = io.ReadFull(conn, length)
			}
			if err == nil {
				_, err = io.ReadFull(conn, make([]byte, length[0]))
			}
		}
		if err == nil && slices.Equal(magic, []byte("AQR2")) {
			return conn, nil
		}
		if err == nil {
			_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a.meta))), a.meta...))
		}
		_ = conn.Close()
	}
}
