package penalty

import (
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
)

const (
	// clientSets sets of clientWays clients are remembered, 65,536 in all and some 8 MiB,
	// which are there only once a rule with such terms has denied a client.
	clientSets = 8192
	clientWays = 8
)

// Terms are what a rule says of clients that do not wait. The zero value says nothing.
type Terms struct {
	// CoolAfter denials before their time begin a cool-down; 0: none does. CoolMost is
	// the longest.
	CoolAfter int64
	CoolMost  time.Duration
	// BlockAfter denials within BlockWithin begin a block for BlockFor; 0: none does.
	BlockAfter            int64
	BlockWithin, BlockFor time.Duration
}

// State is how a client is held back.
type State uint8

// The zero value is Free.
const (
	Free State = iota
	// Cooling: denied for a while because it did not wait.
	Cooling
	// Blocked: denied for a while because it was denied too often.
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

// Hold is how a client is held back at one instant.
type Hold struct {
	State State
	// Until is when to ask again; in the past of a client that is Free.
	Until budget.Instant
	// For is how long this cool-down or block lasts in all.
	For time.Duration
	// Began reports whether it begins with this request.
	Began bool
}

// Clients remembers the clients that are denied, by rule and key. A client that waits as
// it was told to is never held back: of what it was told it has to be silent in the
// second half only, for what was under way it could not take back. Safe for concurrent
// use. The zero value remembers nobody.
//
// A set that is full forgets the client that was silent longest, but none that is held
// back: a flood of other keys frees nobody.
type Clients struct {
	sets    atomic.Pointer[[clientSets]clientSet]
	making  sync.Mutex
	refused atomic.Uint64
}

type clientSet struct {
	mu      sync.Mutex
	clients [clientWays]client
}

// client is what is remembered of one. It is free if last is 0.
type client struct {
	key  budget.KeyID
	last budget.Instant // its latest request
	// told is until when it was told to wait, and wait for how long that was.
	told budget.Instant
	wait time.Duration
	// early is how many denials came before their time since it last waited.
	early int64
	// until is the end of its latest cool-down, which lasted for length; 0: none since it
	// last waited.
	until  budget.Instant
	length time.Duration
	// blocked is the end of its block, which lasts for span.
	blocked budget.Instant
	span    time.Duration
	denials recently
}

// Refused is how many denials found no room, because all of their set were held back.
func (c *Clients) Refused() uint64 { return c.refused.Load() }

// Arrives notes a request before its limit is looked at, and tells whether its client is
// held back: then it is denied, and counts as a denial.
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

// Look tells whether a client is held back, and notes nothing.
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

// set is where a client is remembered if it is; nil while nobody is.
func (c *Clients) set(key budget.KeyID) *clientSet {
	all := c.sets.Load()
	if all == nil {
		return nil
	}
	return &all[placeOf(key)%clientSets]
}

// Denied notes that a request was denied by the limit and told to wait, and tells whether
// the client is held back from now on; Began says so.
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
		one.early++ // it was let in before it was held back
		return held
	}
	if one.denials.add(t, now) {
		return one.block(t, now)
	}
	return one.deny(t, wait, now)
}

// made makes the sets, which most daemons never need.
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

// Held is one client that is held back.
type Held struct {
	Key budget.KeyID
	Hold
}

// Each calls do with all clients that are held back, as far as terms still say so, in no
// order. It takes a millisecond when there is nobody.
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

// admit is a place for a client that is not there; nil if all are held back. The caller
// holds mu.
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
