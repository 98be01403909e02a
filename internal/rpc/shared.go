package rpc

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Shared is a Gate of which no peer may take more than a half. The callers of a peer that holds its half wait for each
// other. Safe for concurrent use.
type Shared struct {
	*Gate
	queue int
	wait  time.Duration

	mu    sync.Mutex
	peers map[string]*peerGate
}

// peerGate is the half of one peer. It is kept while it has callers.
type peerGate struct {
	half    *Gate
	callers int
}

// NewShared returns a Shared gate with the bounds of NewGate, for all peers and for each.
func NewShared(capacity int64, queue int, wait time.Duration) *Shared {
	return &Shared{Gate: NewGate(capacity, queue, wait), queue: queue, wait: wait, peers: map[string]*peerGate{}}
}

// forPeer returns the quota of a peer, for one caller.
func (s *Shared) forPeer(peer string) quota { return &peerCaller{shared: s, peer: peer} }

// peerCaller is one caller of a peer. It belongs to one goroutine.
type peerCaller struct {
	shared *Shared
	peer   string
	at     *peerGate
	held   int64
}

// TryEnter takes size units of the peer's half and of the whole. Its error is that of Gate.TryEnter.
func (c *peerCaller) TryEnter(ctx context.Context, size int64) error {
	if c.at == nil {
		c.at = c.shared.join(c.peer)
	}
	err := c.at.half.TryEnter(ctx, size)
	if err == nil {
		if err = c.shared.Gate.TryEnter(ctx, size); err != nil {
			c.at.half.Leave(size)
		}
	}
	if err == nil {
		c.held += size
	}
	c.releasePeer()
	return err
}

// Leave gives size units back.
func (c *peerCaller) Leave(size int64) {
	c.at.half.Leave(size)
	c.shared.Gate.Leave(size)
	c.held -= size
	c.releasePeer()
}

// releasePeer forgets a peer's half if this caller was its last one and holds nothing of it.
func (c *peerCaller) releasePeer() {
	if c.held > 0 {
		return
	}
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.at.callers--; c.at.callers == 0 {
		delete(s.peers, c.peer)
	}
	c.at = nil
}

// join returns the half of a peer for one more caller.
func (s *Shared) join(peer string) *peerGate {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[peer]
	if p == nil {
		p = &peerGate{half: NewGate(s.capacity/2, s.queue, s.wait)}
		s.peers[peer] = p
	}
	p.callers++
	return p
}

// peerOf returns the address of a request's peer, without its port; empty for a unix socket.
func peerOf(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
