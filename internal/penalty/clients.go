package penalty

import (
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
)

const (
	// clientSets is the number of sets, and clientWays the number of clients in one: 65,536 clients
	// in some 8 MiB, which are allocated when a rule with such terms first denies a client.
	clientSets = 8192
	clientWays = 8
)

// Terms are a rule's answers to clients that do not wait. The zero value has none.
type Terms struct {
	// CoolAfter is the number of early requests that begin a cool-down, 0 for no cool-down.
	// CoolMost is the longest cool-down.
	CoolAfter int64
	CoolMost  time.Duration
	// BlockAfter is the number of denials within BlockWithin that begin a block, 0 for no block.
	// The block lasts for BlockFor.
	BlockAfter            int64
	BlockWithin, BlockFor time.Duration
}

// State says how a client is held back.
type State uint8

// The zero value is Free.
const (
	Free State = iota
	// Cooling clients are denied for a while because they did not wait.
	Cooling
	// Blocked clients are denied for a while because they were denied too often.
	Blocked
)

// String returns "free", "cooling" or "blocked".
func (s State) String() string {
	switch s {
	case Cooling:
		return "cooling"
	case Blocked:
		return "blocked"
	}
	return "free"
}

// Hold says how a client is held back at one instant.
type Hold struct {
	State State
	// Until is the time of the next useful request. It has no meaning for a client that is Free.
	Until budget.Instant
	// For is the whole length of this cool-down or block.
	For time.Duration
	// Began reports whether it begins with this request.
	Began bool
}

// Clients remembers the clients that are denied, by rule and key. A client that waits as it was told
// is never held back. It has to be silent only in the second half of the wait, because requests that
// were under way cannot be taken back. The zero value remembers no client. Safe for concurrent use.
//
// A full set forgets the client that was silent longest. It forgets no client that is held back, so
// a flood of other keys frees none.
type Clients struct {
	sets    atomic.Pointer[[clientSets]clientSet]
	making  sync.Mutex
	refused atomic.Uint64
}

type clientSet struct {
	mu      sync.Mutex
	clients [clientWays]client
}

// client is the record of one client. The place is empty if last is 0.
type client struct {
	key  budget.KeyID
	last budget.Instant // time of its latest request
	// told is the end of the wait that it was told, and wait the length of it.
	told budget.Instant
	wait time.Duration
	// early counts the denied requests before told, since it last waited.
	early int64
	// until is the end of its latest cool-down, and length the length of it. Both are 0 if there was
	// none since it last waited.
	until  budget.Instant
	length time.Duration
	// blocked is the end of its block, and span the length of it.
	blocked budget.Instant
	span    time.Duration
	denials recently
}

// Refused returns how many denials were not remembered, because all clients of the set are held back.
func (c *Clients) Refused() uint64 { return c.refused.Load() }

// Arrives records a request before it is decided, and returns how its client is held back. If the
// client is held back, the request counts as denied, and the caller must deny it.
func (c *Clients) Arrives(key budget.KeyID, t Terms, now budget.Instant) Hold {
	s := c.set(key)
	if s == nil {
		return Hold{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.find(key)
	if one == nil {
		return Hold{}
	}
	held := one.held(t, now)
	switch held.State {
	case Cooling:
		one.early++
		if one.denials.add(t, now) {
			held = one.block(t, now)
		}
	case Free:
		if one.waited(now) {
			one.early, one.length, one.until = 0, 0, 0
		}
	}
	one.last = max(one.last, now)
	return held
}

// Look returns how a client is held back. It records nothing.
func (c *Clients) Look(key budget.KeyID, t Terms, now budget.Instant) Hold {
	s := c.set(key)
	if s == nil {
		return Hold{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.find(key); one != nil {
		return one.held(t, now)
	}
	return Hold{}
}

// set returns the set of a client, or nil if no client is remembered.
func (c *Clients) set(key budget.KeyID) *clientSet {
	all := c.sets.Load()
	if all == nil {
		return nil
	}
	return &all[placeOf(key)%clientSets]
}

// Denied records that the limit denied a request and told its client to wait. It returns how the
// client is held back from now on. Began is set if this denial is the reason.
func (c *Clients) Denied(key budget.KeyID, t Terms, wait time.Duration, now budget.Instant) Hold {
	s := &c.made()[placeOf(key)%clientSets]
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.find(key)
	if one == nil {
		if one = s.admit(key, now); one == nil {
			c.refused.Add(1)
			return Hold{}
		}
	}
	one.last = max(one.last, now)
	if held := one.held(t, now); held.State != Free {
		one.early++ // the request arrived before the client was held back
		return held
	}
	if one.denials.add(t, now) {
		return one.block(t, now)
	}
	return one.deny(t, wait, now)
}

// made returns the sets, and allocates them at first. Most daemons never need them.
func (c *Clients) made() *[clientSets]clientSet {
	if all := c.sets.Load(); all != nil {
		return all
	}
	c.making.Lock()
	defer c.making.Unlock()
	if c.sets.Load() == nil {
		c.sets.Store(new([clientSets]clientSet))
	}
	return c.sets.Load()
}

// Held is a client that is held back.
type Held struct {
	Key budget.KeyID
	Hold
}

// Each calls do for each client that is held back by the present terms of its rule, in no particular
// order. It takes a millisecond if there is none.
func (c *Clients) Each(terms func(rule uint32) Terms, now budget.Instant, do func(Held)) {
	all := c.sets.Load()
	if all == nil {
		return
	}
	for i := range all {
		found, n := all[i].heldBack(terms, now)
		for _, h := range found[:n] {
			do(h)
		}
	}
}

func (s *clientSet) heldBack(terms func(rule uint32) Terms, now budget.Instant) (found [clientWays]Held, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.clients {
		one := &s.clients[i]
		if one.last == 0 || now >= max(one.until, one.blocked) {
			continue
		}
		if h := one.held(terms(one.key.Rule), now); h.State != Free {
			found[n] = Held{one.key, h}
			n++
		}
	}
	return found, n
}

func (s *clientSet) find(key budget.KeyID) *client {
	for i := range s.clients {
		if one := &s.clients[i]; one.key == key && one.last != 0 {
			return one
		}
	}
	return nil
}

// admit makes a place for a new client, or returns nil if all clients of the set are held back. The
// caller holds mu.
func (s *clientSet) admit(key budget.KeyID, now budget.Instant) *client {
	var place *client
	for i := range s.clients {
		one := &s.clients[i]
		if now < max(one.until, one.blocked) {
			continue
		}
		if place == nil || one.last < place.last {
			place = one
		}
	}
	if place != nil {
		*place = client{key: key, last: now}
	}
	return place
}
