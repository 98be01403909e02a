package raftnet

import (
	"sync"

	"github.com/hashicorp/raft"
)

// proofs numbers the messages that this node sends as a leader, and keeps for each server the latest message that
// it answered with success. Numbers order a message and a question on any clock; times would not. It is safe for
// concurrent use.
type proofs struct {
	mu     sync.Mutex
	last   uint64
	latest map[raft.ServerID]confirmation
	change chan struct{} // closes at the next confirmation
}

// confirmation is a message that a server answered with success: when it answered, it followed this node in that
// term.
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

// news returns a channel that closes at the next confirmation. Take it before calling confirms, so that no
// confirmation is missed.
func (p *proofs) news() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change
}

// forget drops all confirmations of a server.
func (p *proofs) forget(id raft.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.latest, id)
}
