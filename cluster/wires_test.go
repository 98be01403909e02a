package cluster

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/raftnet"
	"aliquot/internal/ratelog"
)

// wires is a network of in-memory pipes, so that the transport that ships can run
// in virtual time. Addresses are any text.
type wires struct {
	mu        sync.Mutex
	listeners map[string]*wire
}

func newWires() *wires { return &wires{listeners: map[string]*wire{}} }

// textAddr is an address that is any text.
type textAddr string

func (textAddr) Network() string  { return "test" }
func (a textAddr) String() string { return string(a) }

// wire is one listener; it stands where raftnet.Layer stands in the product.
type wire struct {
	net      *wires
	address  textAddr
	incoming chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex
	conns []net.Conn // accepted; raft's transport leaves them open when it ends
}

var _ raft.StreamLayer = (*wire)(nil)

func (w *wires) listen(address string) *wire {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &wire{net: w, address: textAddr(address), incoming: make(chan net.Conn), closed: make(chan struct{})}
	w.listeners[address] = l
	return l
}

func (l *wire) Addr() net.Addr { return l.address }

func (l *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-l.incoming:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, conn)
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil
	default:
		close(l.closed)
	}
	var err error
	for _, conn := range l.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// Dial implements raft.StreamLayer for an address made by raftnet.Transport.
func (l *wire) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	_, host, _ := strings.Cut(string(address), "@")
	l.net.mu.Lock()
	to := l.net.listeners[host]
	l.net.mu.Unlock()
	if to == nil {
		return nil, errors.New("nobody listens at " + host)
	}
	here, there := net.Pipe()
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case to.incoming <- there:
		return here, nil
	case <-to.closed:
	case <-limit.C:
	}
	return nil, errors.Join(errors.New("no answer from "+host), here.Close(), there.Close())
}

// puppet is a Raft peer that says what a test tells it to. What it is asked, it
// grants, every vote and every entry, unless it is mute when it is asked. Its answers
// arrive late, in nanoseconds. It counts the heartbeats that it was sent, and says what
// it is told to, if anything, in answer to them.
type puppet struct {
	*raftnet.Transport
	mute   atomic.Bool
	late   atomic.Int64
	beats  atomic.Int64
	says   atomic.Pointer[raft.AppendEntriesResponse]
	term   atomic.Uint64 // that its answers claim; 0: that of the question
	t      testing.TB
	server raft.Server
	quit   chan struct{}
	done   sync.WaitGroup
}

func newPuppet(t testing.TB, layer raft.StreamLayer, id raft.ServerID) *puppet {
	p := &puppet{Transport: newTransport(layer), t: t, quit: make(chan struct{})}
	p.server = raft.Server{ID: id, Address: p.LocalAddr()}
	p.done.Go(p.agree)
	return p
}

func (p *puppet) stop() {
	close(p.quit)
	p.done.Wait()
	if err := p.Close(); err != nil {
		p.t.Error(err)
	}
}

func (p *puppet) agree() {
	for {
		select {
		case <-p.quit:
			return
		case rpc := <-p.Consumer():
			if ask, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && ask.PrevLogEntry == 0 && len(ask.Entries) == 0 {
				p.beats.Add(1)
				if says := p.says.Load(); says != nil {
					rpc.Respond(says, nil)
					continue
				}
			}
			if p.mute.Load() {
				continue
			}
			answer, err := grant(rpc.Command)
			if term := p.term.Load(); term > 0 {
				answer = claim(answer, term)
			}
			if late := p.late.Load(); late > 0 {
				p.done.Go(func() {
					<-time.After(time.Duration(late))
					rpc.Respond(answer, err)
				})
				continue
			}
			rpc.Respond(answer, err)
		}
	}
}

// grant is a puppet's answer.
func grant(command any) (any, error) {
	switch ask := command.(type) {
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{Term: ask.Term, Granted: true}, nil
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{Term: ask.Term, Granted: true}, nil
	case *raft.AppendEntriesRequest:
		return &raft.AppendEntriesResponse{Term: ask.Term, LastLog: ask.PrevLogEntry + uint64(len(ask.Entries)), Success: true}, nil
	}
	return nil, errors.New("a puppet does not know this")
}

// claim is an answer in another term.
func claim(answer any, term uint64) any {
	switch a := answer.(type) {
	case *raft.RequestVoteResponse:
		a.Term = term
	case *raft.RequestPreVoteResponse:
		a.Term = term
	case *raft.AppendEntriesResponse:
		a.Term = term
	}
	return answer
}

// header names the puppet as the sender.
func (p *puppet) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(p.server.ID), Addr: []byte(p.server.Address)}
}

// appendTo sends entries as the leader of a term, after the entry prev.
func (p *puppet) appendTo(to raft.Server, term uint64, prev raft.Log, commit uint64, entries ...*raft.Log) *raft.AppendEntriesResponse {
	p.t.Helper()
	resp := &raft.AppendEntriesResponse{}
	if err := p.AppendEntries(to.ID, to.Address, &raft.AppendEntriesRequest{
		RPCHeader: p.header(), Term: term, PrevLogEntry: prev.Index, PrevLogTerm: prev.Term, Entries: entries, LeaderCommitIndex: commit,
	}, resp); err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// beat sends the bare message that the transport knows for a heartbeat.
func (p *puppet) beat(to raft.Server, term uint64) {
	p.t.Helper()
	p.appendTo(to, term, raft.Log{}, 0)
}

// command is a log entry.
func command(index, term uint64, text string) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: []byte(text)}
}

// recorder is a state machine that remembers what was applied to it.
type recorder struct {
	mu      sync.Mutex
	applied []string
}

func (r *recorder) Apply(l *raft.Log) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, string(l.Data))
	return nil
}

func (r *recorder) Snapshot() (raft.FSMSnapshot, error) {
	return nil, errors.New("a recorder has no snapshot")
}

func (r *recorder) Restore(in io.ReadCloser) error { return in.Close() }

func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.applied) == 0 {
		return ""
	}
	return r.applied[len(r.applied)-1]
}

// newTransport is a transport without a guard.
func newTransport(layer raft.StreamLayer) *raftnet.Transport {
	return raftnet.NewTransport(layer, nil, newHclog(testLogger(), "raft-net"))
}

// newLayer is the layer of a server that knows no cluster.
func newLayer(l net.Listener, id raft.ServerID, identify func() ([]byte, error)) *raftnet.Layer {
	return raftnet.NewLayer(l, raftnet.Config{
		Self: id, Advertise: l.Addr().String(), Cluster: func() string { return "" }, Identify: identify,
		Logger: testLogger(), Allow: new(ratelog.Limiter).Allow,
	})
}

// newStreamLayerFor listens on loopback as the given server.
func newStreamLayerFor(t *testing.T, id raft.ServerID) *raftnet.Layer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newLayer(l, id, nil)
}
