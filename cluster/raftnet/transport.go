package raftnet

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// raftPool is the number of idle connections that are kept to each peer: one for replication, one for
	// heartbeats, one spare.
	raftPool = 3
	// raftIOTimeout is the time limit of an exchange with a peer; that of InstallSnapshot is this for each 256 KiB.
	raftIOTimeout = 5 * time.Second
)

// Transport is raft's network transport with four differences. The fast path of heartbeats is off; each connection
// names its target server; a guard checks incoming messages; and it records, for each peer, the latest message that
// it confirmed and the last index of its log. It is safe for concurrent use; make it with NewTransport.
type Transport struct {
	*raft.NetworkTransport
	proofs *proofs
	guard  *Guard // nil: everything may pass

	mu   sync.Mutex
	logs map[raft.ServerID]uint64 // the last log index of each peer that answered
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

// NewTransport returns the transport over a layer, usually a Layer. A nil guard lets everything pass.
func NewTransport(layer raft.StreamLayer, guard *Guard, logger hclog.Logger) *Transport {
	return &Transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: layer, MaxPool: raftPool, Timeout: raftIOTimeout, Logger: transportLog{logger},
		}),
		proofs: newProofs(), guard: guard, logs: map[raft.ServerID]uint64{},
	}
}

// Serve has the guard check what comes in, until ctx ends. It must run while Raft does.
func (t *Transport) Serve(ctx context.Context) { t.guard.run(ctx, t.NetworkTransport.Consumer()) }

// Mark returns a number for Confirms. It is larger than the numbers of all messages sent before, and smaller than
// those of all later ones.
func (t *Transport) Mark() uint64 { return t.proofs.mark() }

// Confirms reports whether a server, as a follower of this leader in the term, has answered a message that was sent
// after the mark.
func (t *Transport) Confirms(id raft.ServerID, term, mark uint64) bool {
	return t.proofs.confirms(id, term, mark)
}

// Confirmed returns a channel that closes at the next confirmation of any server. Take it before calling Confirms,
// so that no confirmation is missed.
func (t *Transport) Confirmed() <-chan struct{} { return t.proofs.news() }

// SetHeartbeatHandler does nothing, so heartbeats queue to raft's main goroutine
// like every other message. hashicorp/raft issue 695: the fast path runs
// appendEntries on the transport's goroutine and may raise the term while the main
// goroutine is appending entries as leader, which then carry a term it does not
// lead. The price is that a heartbeat waits for a disk write; HeartbeatTimeout is
// far above one.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC {
	if t.guard == nil {
		return t.NetworkTransport.Consumer()
	}
	return t.guard.out
}

// AppendEntries implements raft.Transport. A message gets its number before it is sent.
func (t *Transport) AppendEntries(id raft.ServerID, address raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
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

// AppendEntriesPipeline implements raft.Transport. Answers on a pipeline are not recorded: heartbeats go through
// AppendEntries and confirm the same soon after.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, address raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target(id, address))
	if err != nil || t.guard == nil {
		return p, err
	}
	return newGuardedPipeline(p, t.guard, id), nil
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, address raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.NetworkTransport.RequestVote(id, target(id, address), req, resp); err != nil {
		return err
	}
	return t.guard.checkAnswer(resp.Term, id)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, address raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.NetworkTransport.RequestPreVote(id, target(id, address), req, resp); err != nil {
		return err
	}
	return t.guard.checkAnswer(resp.Term, id)
}

// InstallSnapshot implements raft.Transport.
func (t *Transport) InstallSnapshot(id raft.ServerID, address raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.NetworkTransport.InstallSnapshot(id, target(id, address), req, resp, data); err != nil {
		return err
	}
	return t.guard.checkAnswer(resp.Term, id)
}

// TimeoutNow implements raft.Transport. Nothing here transfers leadership (hashicorp/raft issue 696), so nothing
// should ever call it.
func (t *Transport) TimeoutNow(id raft.ServerID, address raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, address), req, resp)
}

func (t *Transport) noteLog(id raft.ServerID, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs[id] = last
}

// Progress returns the last log index that a peer reported; 0 if it never answered. It is meaningful only for
// servers that joined with an empty log.
func (t *Transport) Progress(id raft.ServerID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logs[id]
}

// Forget drops what is recorded about a server. It is called before the server is added and after it is removed.
func (t *Transport) Forget(id raft.ServerID) {
	t.proofs.forget(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.logs, id)
}
