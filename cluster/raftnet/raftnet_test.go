package raftnet

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// hashicorp/raft issue 695: heartbeats must take the same way as all other messages.
func TestHeartbeatsTakeTheOrdinaryWay(t *testing.T) {
	t.Parallel()
	open := func(id raft.ServerID) (*Transport, raft.ServerAddress) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tr := NewTransport(NewLayer(l, Config{
			Self: id, Advertise: l.Addr().String(), Cluster: func() string { return "" },
			Logger: slog.New(slog.DiscardHandler), Allow: func(string, time.Time) bool { return true },
		}), nil, hclog.NewNullLogger())
		t.Cleanup(func() {
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		})
		return tr, tr.LocalAddr()
	}
	from, _ := open("a/00000001")
	to, address := open("b/00000002")
	var fast atomic.Int32
	to.SetHeartbeatHandler(func(rpc raft.RPC) {
		fast.Add(1)
		rpc.Respond(&raft.AppendEntriesResponse{}, nil)
	})
	go func() {
		for rpc := range to.Consumer() {
			rpc.Respond(&raft.AppendEntriesResponse{LastLog: 17, Success: true}, nil)
			return
		}
	}()
	beat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte("x")}, Term: 1}
	if err := from.AppendEntries("b/00000002", address, beat, &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	if fast.Load() != 0 {
		t.Error("a heartbeat took the fast path")
	}
	if got := from.Progress("b/00000002"); got != 17 {
		t.Errorf("progress %d, want 17", got)
	}
}

// A node without a term follows the cluster that it joins, whatever that cluster's term is.
func TestANodeWithoutATermTakesThatOfItsFirstContact(t *testing.T) {
	t.Parallel()
	g := NewGuard(func() uint64 { return 0 }, nil, nil, func(string, error) {})
	for term, taken := range map[uint64]bool{5_000_000: true, maxFirstTerm: true, maxFirstTerm + 1: false, math.MaxUint64: false} {
		if err := g.checkTerm(term); (err == nil) != taken {
			t.Errorf("term %d: %v", term, err)
		}
	}
}

// The latest message of the latest term counts, in whatever order answers arrive.
func TestProofsKeepTheLatest(t *testing.T) {
	p := newProofs()
	first, asked, second := p.mark(), p.mark(), p.mark()
	p.confirm("b", 2, first)
	if p.confirms("b", 2, asked) || p.confirms("c", 2, asked) {
		t.Error("an answer to what was sent before")
	}
	p.confirm("b", 2, second)
	p.confirm("b", 2, first)
	if !p.confirms("b", 2, asked) {
		t.Error("an older answer took the place of a later one")
	}
	third := p.mark()
	p.confirm("b", 3, second)
	p.confirm("b", 2, third)
	if p.confirms("b", 2, asked) || !p.confirms("b", 3, asked) {
		t.Error("an answer of another term")
	}
	if p.forget("b"); p.confirms("b", 3, 0) {
		t.Error("a server that was forgotten")
	}
}

func TestConnectionEnded(t *testing.T) {
	cut := func(err error) error {
		var v int
		return codec.NewDecoder(io.MultiReader(strings.NewReader("\xd2\x00"), errReader{err}), &codec.MsgpackHandle{}).Decode(&v)
	}
	for name, c := range map[string]struct {
		err   error
		ended bool
	}{
		"eof":             {io.EOF, true},
		"closed here":     {&net.OpError{Op: "read", Err: net.ErrClosed}, true},
		"killed there":    {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true},
		"in mid-message":  {cut(io.EOF), true},
		"closed in mid":   {cut(&net.OpError{Op: "read", Err: net.ErrClosed}), true},
		"unknown command": {errors.New("unknown rpc type 7"), false},
		"timeout":         {fmt.Errorf("read: %w", os.ErrDeadlineExceeded), false},
		"garbage":         {cut(errors.New("some other trouble")), false},
	} {
		if c.err == nil {
			t.Fatalf("%s: no error to look at", name)
		}
		if got := connectionEnded(c.err); got != c.ended {
			t.Errorf("%s (%v): %v, want %v", name, c.err, got, c.ended)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
