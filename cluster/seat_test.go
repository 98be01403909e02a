package cluster

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// Two requests to join, under the ids and addresses of the two followers with made-up instances, would leave the leader
// the only voter: anybody who reaches the RPC port can send them.
func TestAJoinDoesNotTakeALiveVotersSeat(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.slow = true
	nodes := l.three()
	leader := l.leader(nodes...)
	for _, n := range nodes {
		if n == leader {
			continue
		}
		for _, forged := range []struct{ what, instance, address string }{
			{"at its own address", "00000009", n.RaftAddress()},
			{"at another address", "00000009", silentServer(t, n.NodeID(), "00000009", "127.0.0.1:0")},
			{"at an address where nobody is", "00000009", "127.0.0.1:1"},
			{"with its own instance, elsewhere", n.InstanceID(), "127.0.0.1:1"},
			{"with its own instance, behind another address", n.InstanceID(), relay(t, n.RaftAddress())},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := leader.Join(ctx, n.NodeID(), forged.instance, forged.address)
			cancel()
			if !errors.Is(err, ErrNotThere) && !errors.Is(err, ErrNodeAlive) {
				t.Errorf("%s %s: %v", n.NodeID(), forged.what, err)
			}
		}
	}
	if err := leader.Join(t.Context(), leader.NodeID(), leader.InstanceID(), "127.0.0.1:1"); !errors.Is(err, ErrNotThere) {
		t.Errorf("the leader at an address of another's: %v", err)
	}
	for _, m := range leader.Status().Members {
		if m.Suffrage != "voter" || m.InstanceID == "00000009" {
			t.Errorf("a forged member: %+v", m)
		}
	}
	if got := len(leader.Status().Members); got != 3 {
		t.Errorf("%d members, want 3", got)
	}
}

// relay passes connections on.
func relay(t *testing.T, to string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(conn, to)
		}
	}()
	return listener.Addr().String()
}

func pass(from net.Conn, address string) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = to.(*net.TCPConn).ReadFrom(from) }()
	_, _ = from.(*net.TCPConn).ReadFrom(to)
}

// With one of three voters down, the seat of a wiped one cannot be given away first: two would remain, one of them silent.
func TestAJoinKeepsTheMajority(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.slow = true
	nodes := l.three()
	leader := l.leader(nodes...)
	var down, wiped *Node
	for _, n := range nodes {
		switch {
		case n == leader:
		case down == nil:
			down = n
		default:
			wiped = n
		}
	}
	l.stop(down)
	address := l.stop(wiped).RaftListen
	err := leader.Join(t.Context(), wiped.NodeID(), "00000009", silentServer(t, wiped.NodeID(), "00000009", address))
	// It may have noticed by then that it leads nobody.
	if _, deposed := errors.AsType[ErrNotLeader](err); !deposed && (!errors.Is(err, ErrNotRemovable) || !strings.Contains(err.Error(), down.NodeID())) {
		t.Errorf("the join ended with %v", err)
	}
	if _, listed := find(leader.configuration(), wiped.serverID); !listed || len(leader.configuration().Servers) != 3 {
		t.Errorf("the servers are now %+v", leader.configuration().Servers)
	}
}
