package cluster

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// raftPool is how many idle connections to each peer are kept: one replicates,
	// one beats, one is spare.
	raftPool = 3
	// raftIOTimeout ends an exchange with a peer that hangs; InstallSnapshot gets as
	// many times this as it has 256 KiB.
	raftIOTimeout = 5 * time.Second
)

// transport is raft's network transport with four differences: the heartbeat fast
// path is off, each connection names its target server, a guard checks what comes in,
// and it keeps what raft itself does not tell: which message each peer last confirmed,
// and what log it had.
type transport struct {
	*raft.NetworkTransport
	proofs *proofs
	guard  *guard // nil: everything may pass; set before the first use

	mu   sync.Mutex
	logs map[raft.ServerID]uint64 // the last log index of each peer that answered
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

func newTransport(layer raft.StreamLayer, log *slog.Logger) *transport {
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: layer, MaxPool: raftPool, Timeout: raftIOTimeout, Logger: transportLog{newHclog(log, "raft-net")},
		}),
		proofs: newProofs(), logs: map[raft.ServerID]uint64{},
	}
}

// SetHeartbeatHandler does nothing, so heartbeats queue to raft's main goroutine
// like every other message. hashicorp/raft issue 695: the fast path runs
// appendEntries on the transport's goroutine and may raise the term while the main
// goroutine is appending entries as leader, which then carry a term it does not
// lead. The price is that a heartbeat waits for a disk write; HeartbeatTimeout is
// far above one.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC {
	if t.guard == nil {
		return t.NetworkTransport.Consumer()
	}
	return t.guard.out
}

// AppendEntries implements raft.Transport. Each message has its number before it is sent.
func (t *transport) AppendEntries(id raft.ServerID, address raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	number := t.proofs.mark()
	if err := t.NetworkTransport.AppendEntries(id, target(id, address), req, resp); err != nil {
		return err
	}
	if err := t.guard.checkAnswer(resp.Term, id); err != nil {
		return err
	}
	if resp.Term <= req.Term { // a later term answers as no follower of ours
		t.noteLog(id, resp.LastLog)
	}
	if resp.Success && resp.Term == req.Term {
		t.proofs.confirm(id, req.Term, number)
	}
	return nil
}

// AppendEntriesPipeline implements raft.Transport. Replies on a pipeline are not
// noted: heartbeats go through AppendEntries and say the same soon after.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, address raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target(id, address))
	if err != nil || t.guard == nil {
		return p, err
	}
	return newGuardedPipeline(p, t.guard, id), nil
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, address raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.NetworkTransport.RequestVote(id, target(id, address), req, resp); err != nil {
		return err
	}
	return t.guard.checkAnswer(resp.Term, id)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, address raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.NetworkTransport.RequestPreVote(id, target(id, address), req, resp); err != nil {
		return err
	}
	return t.guard.checkAnswer(resp.Term, id)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, address raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.NetworkTransport.InstallSnapshot(id, target(id, address), req, resp, data); err != nil {
		return err
	}
	return t.guard.checkAnswer(resp.Term, id)
}

// TimeoutNow implements raft.Transport. Nothing here transfers leadership
// (hashicorp/raft issue 696), so nothing should ever send it.
func (t *transport) TimeoutNow(id raft.ServerID, address raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, address), req, resp)
}

func (t *transport) noteLog(id raft.ServerID, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs[id] = last
}

// progress is the last log index a peer said it has; 0 when it never answered. It
// means something only about servers that joined with an empty log.
func (t *transport) progress(id raft.ServerID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logs[id]
}

// forget drops what is known of a server, before it is added or after it is removed.
func (t *transport) forget(id raft.ServerID) {
	t.proofs.forget(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.logs, id)
}
