package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// provable is a leader of puppets, in virtual time, with its term.
type provable struct {
	*Node
	term  uint64
	peers []*puppet
	disk  *memoryDisk
}

// inProof runs a test with a leader of puppets: each name is a voter's, one with a ? a server's without a vote.
func inProof(t *testing.T, names []string, test func(t *testing.T, a *provable)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := newWires()
		a := &provable{disk: &memoryDisk{InmemStore: raft.NewInmemStore()}}
		var servers []raft.Server
		for _, name := range names {
			p := newPuppet(t, net.listen(name), raft.ServerID(name+"/00000002"))
			if name[0] == '?' {
				p.server.Suffrage = raft.Nonvoter
			}
			a.peers = append(a.peers, p)
			servers = append(servers, p.server)
		}
		n, notify := bareNodeOn(t, a.disk, newTransport(net.listen("a")), servers...)
		a.Node = n
		n.loops.Go(func() { // raft blocks on it
			for {
				select {
				case <-notify:
				case <-n.ctx.Done():
					return
				}
			}
		})
		defer func() {
			n.cancel()
			if err := n.raft.Shutdown().Error(); err != nil {
				t.Error(err)
			}
			n.loops.Wait()
			for _, p := range a.peers {
				p.stop()
			}
		}()
		eventually(t, "a leader", n.Leads)
		a.term = n.Term()
		<-time.After(5 * time.Second) // replication is at rest
		test(t, a)
	})
}

// proves asks for a proof, and raft's own at the same time.
func (a *provable) proves(t *testing.T) (ours, rafts error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	own := a.raft.VerifyLeader()
	ours = a.VerifyLeader(ctx, a.term)
	return ours, own.Error()
}

// afterBeat waits until every peer has been sent a heartbeat that it answers 400 ms later, and half of that more.
// From then on no peer of those that are named last hears anything.
func (a *provable) afterBeat(t *testing.T, deaf ...*puppet) {
	t.Helper()
	seen := make([]int64, len(a.peers))
	for i, p := range a.peers {
		seen[i] = p.beats.Load()
		p.late.Store(int64(400 * time.Millisecond))
	}
	for i, p := range a.peers {
		for p.beats.Load() == seen[i] {
			<-time.After(time.Millisecond)
		}
	}
	for _, p := range deaf {
		p.mute.Store(true)
	}
	<-time.After(100 * time.Millisecond)
}

// A proof rests on no answer to a message that was sent before it was asked for. raft's does: if it no longer does,
// VerifyLeader need not either.
func TestAProofRestsOnNoOlderAnswer(t *testing.T) {
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		a.afterBeat(t, a.peers...)
		asked := time.Now()
		ours, rafts := a.proves(t)
		t.Logf("nobody heard anything from %v before the proof on: raft says %v, VerifyLeader %v, after %v", 100*time.Millisecond, rafts, ours, time.Since(asked))
		if rafts != nil {
			t.Errorf("raft's own proof: %v; it has changed", rafts)
		}
		if !errors.As(ours, new(ErrNotLeader)) {
			t.Errorf("the proof rests on answers from before it was asked for: %v", ours)
		}
	})
}

// It comes from the answers to what was sent after, though others arrive before.
func TestAProofWaitsForAnswersToWhatWasSentAfter(t *testing.T) {
	inProof(t, []string{"b", "c", "d", "e"}, func(t *testing.T, a *provable) {
		a.afterBeat(t, a.peers[0], a.peers[1]) // with two of four others there are three of five
		asked := time.Now()
		if err, _ := a.proves(t); err != nil {
			t.Fatalf("no proof: %v", err)
		}
		if took := time.Since(asked); took < 400*time.Millisecond {
			t.Errorf("a proof after %v; an answer takes %v", took, 400*time.Millisecond)
		}
	})
}

// A proof that ends early proposed no command, so nobody need look whether one was applied.
func TestAProofThatEndsEarlyHasNoUnknownOutcome(t *testing.T) {
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		prove := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return a.VerifyLeader(ctx, a.term)
		}
		for _, p := range a.peers {
			p.mute.Store(true)
		}
		if err := prove(100 * time.Millisecond); !errors.Is(err, ErrNotProved) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("nobody answers, and the caller's time ends: %v", err)
		}
		if err := prove(time.Minute); !errors.As(err, new(ErrNotLeader)) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("nobody answers until the leadership ends: %v", err)
		}
	})
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		a.afterBeat(t, a.peers...) // raft's own proof comes
		ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
		defer cancel()
		if err := a.VerifyLeader(ctx, a.term); !errors.Is(err, ErrNotProved) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("nobody answers what was sent after, and the caller's time ends: %v", err)
		}
	})
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		a.peers[0].mute.Store(true)
		a.peers[1].mute.Store(true)
		time.AfterFunc(100*time.Millisecond, a.cancel)
		if err := a.VerifyLeader(t.Context(), a.term); !errors.Is(err, ErrNotProved) || !errors.Is(err, ErrShutdown) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("nobody answers, and the node stops: %v", err)
		}
	})
}

// A server without a vote proves nothing.
func TestAServerWithoutAVoteProvesNothing(t *testing.T) {
	inProof(t, []string{"b", "c", "?d", "?e"}, func(t *testing.T, a *provable) {
		a.peers[0].mute.Store(true)
		a.peers[1].mute.Store(true)
		ours, rafts := a.proves(t)
		if rafts != nil {
			t.Errorf("raft's own proof: %v; it has changed", rafts)
		}
		if !errors.As(ours, new(ErrNotLeader)) {
			t.Errorf("a proof by a server without a vote: %v", ours)
		}
	})
}

// A leader on its way out needs most of the voters that remain: its own voice is none of them.
func TestALeaderOnItsWayOutDoesNotCountItself(t *testing.T) {
	inProof(t, []string{"b", "c", "d"}, func(t *testing.T, a *provable) {
		a.peers[1].mute.Store(true)
		a.peers[2].mute.Store(true)
		a.raft.RemoveServer(a.serverID, 0, 0)
		ours, rafts := a.proves(t)
		if rafts != nil {
			t.Errorf("raft's own proof: %v; it has changed", rafts)
		}
		if !errors.As(ours, new(ErrNotLeader)) {
			t.Errorf("a proof by one of the three voters that remain: %v", ours)
		}
	})
}

// A server that was removed proves nothing, nor is it needed.
func TestARemovedServerIsNotAsked(t *testing.T) {
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		gone := a.peers[0]
		if err := a.raft.RemoveServer(gone.server.ID, 0, time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		gone.mute.Store(true)
		if err, _ := a.proves(t); err != nil {
			t.Errorf("no proof by both that remain: %v", err)
		}
	})
}

// Alone, a node proves its leadership by itself, and not that of another term.
func TestALoneVoterProvesItsTermOnly(t *testing.T) {
	inProof(t, nil, func(t *testing.T, a *provable) {
		if err, _ := a.proves(t); err != nil {
			t.Errorf("no proof: %v", err)
		}
		a.term--
		if err, _ := a.proves(t); !errors.As(err, new(ErrNotLeader)) {
			t.Errorf("it led in an earlier term: %v", err)
		}
	})
}

// A proof costs one heartbeat to each server.
func TestAProofIsOneHeartbeat(t *testing.T) {
	inProof(t, []string{"b", "c"}, func(t *testing.T, a *provable) {
		const proofs = 100
		before := a.peers[0].beats.Load()
		for range proofs {
			if err := a.VerifyLeader(t.Context(), a.term); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if sent := a.peers[0].beats.Load() - before; sent != proofs {
			t.Errorf("%d heartbeats for %d proofs", sent, proofs)
		}
	})
}

// Only a follower of its term confirms a leader: not a server that has seen a later one, nor one that takes nothing from it.
func TestOnlyAFollowerConfirmsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWires()
		b := newPuppet(t, net.listen("b"), "b/00000002")
		defer b.stop()
		trans := newTransport(net.listen("a"))
		defer trans.Close()
		for _, c := range []struct {
			answer raft.AppendEntriesResponse
			want   bool
		}{{raft.AppendEntriesResponse{Term: 4}, false}, {raft.AppendEntriesResponse{Term: 4, Success: true}, false},
			{raft.AppendEntriesResponse{Term: 3}, false}, {raft.AppendEntriesResponse{Term: 3, Success: true}, true}} {
			b.says.Store(&c.answer)
			asked, resp := trans.Mark(), new(raft.AppendEntriesResponse)
			if err := trans.AppendEntries(b.server.ID, b.server.Address, &raft.AppendEntriesRequest{Term: 3}, resp); err != nil {
				t.Fatal(err)
			}
			if got := trans.Confirms(b.server.ID, 3, asked); got != c.want {
				t.Errorf("%+v confirms a leader of term 3: %v", c.answer, got)
			}
		}
	})
}

func TestMajority(t *testing.T) {
	config := raft.Configuration{Servers: []raft.Server{voter("a"), voter("b"), voter("c"), voter("d"), nonvoter("e")}}
	for agree, want := range map[string]bool{"": false, "a": false, "ab": false, "abe": false, "abc": true, "bcd": true, "abcd": true} {
		agrees := func(id raft.ServerID) bool {
			for _, x := range agree {
				if raft.ServerID(x) == id {
					return true
				}
			}
			return false
		}
		if got := majority(config, agrees); got != want {
			t.Errorf("%q of four voters: %v", agree, got)
		}
	}
	if majority(raft.Configuration{}, func(raft.ServerID) bool { return true }) {
		t.Error("nobody is a majority of nobody")
	}
}
