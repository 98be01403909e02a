package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Term returns the Raft term of this node. A leader that is to be proved reads it before it
// reads the state that it goes by.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// VerifyLeader returns nil if this node led in the given term at an instant after the call began: a majority of the
// voters answered messages of that term that were sent after it. Any other result means that the node must not act as
// the leader of that term. The wait ends with ctx, or when the leadership does.
//
// hashicorp/raft's own VerifyLeader is weaker (1.8.0, replication.go): the answer to a heartbeat that was sent before the
// call satisfies it, and so does one of a server without a vote, or the voice of a leader that is being removed. It is
// asked first, for it sends heartbeats to all servers at once and knows whether this node leads.
func (n *Node) VerifyLeader(ctx context.Context, term uint64) error {
	asked := n.trans.proofs.mark()
	if _, err := wait(ctx, n, n.raft.VerifyLeader); err != nil {
		return n.explain(err)
	}
	tick := time.NewTicker(hearEvery)
	defer tick.Stop()
	for {
		news := n.trans.proofs.news()
		confirmed := majority(n.configuration(), func(id raft.ServerID) bool {
			return id == n.serverID || n.trans.proofs.confirms(id, term, asked)
		})
		// This node's own voice counts only while it leads in the term, so that is looked at last.
		if !n.Leads() || n.raft.CurrentTerm() != term {
			return n.NotLeader()
		}
		if confirmed {
			return nil
		}
		select {
		case <-news:
		case <-tick.C:
		case <-ctx.Done():
			return n.explain(ctx.Err())
		case <-n.ctx.Done():
			return ErrShutdown
		}
	}
}

// majority reports whether most of the voters of a configuration agree; servers without a vote do not count.
func majority(c raft.Configuration, agrees func(raft.ServerID) bool) bool {
	voters, agreed := 0, 0
	for _, s := range c.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if agrees(s.ID) {
			agreed++
		}
	}
	return agreed > voters/2
}

// proofs numbers the messages that this node sends as a leader, and keeps for each server the latest one that it
// answered with success. Numbers, not times: they order a message and a question on any clock. It is safe for concurrent use.
type proofs struct {
	mu     sync.Mutex
	last   uint64
	latest map[raft.ServerID]confirmation
	change chan struct{} // closes at the next confirmation
}

// confirmation is a message that its server answered with success: it followed this node in that term when it did.
type confirmation struct{ term, number uint64 }

func newProofs() *proofs {
	return &proofs{latest: map[raft.ServerID]confirmation{}, change: make(chan struct{})}
}

// mark returns a new number, larger than those of all messages before and smaller than those of all to come.
func (p *proofs) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return p.last
}

// confirm notes that a server answered message number of a term with success.
func (p *proofs) confirm(id raft.ServerID, term, number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.latest[id]; term < before.term || term == before.term && number < before.number {
		return
	}
	p.latest[id] = confirmation{term, number}
	close(p.change)
	p.change = make(chan struct{})
}

// confirms reports whether a server has answered a message of the term that was sent after the mark.
func (p *proofs) confirms(id raft.ServerID, term, mark uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.latest[id]
	return c.term == term && c.number > mark
}

// news returns a channel that closes at the next confirmation. It is taken before confirms is asked, so that none is missed.
func (p *proofs) news() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change
}

// forget drops what is known of a server.
func (p *proofs) forget(id raft.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.latest, id)
}
