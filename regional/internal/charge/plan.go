package charge

import (
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/penalty"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// MaxCached is the largest number of limits of a request that memory decides. The locks of all its
// limits are held at once.
const MaxCached = 8

// Scratch is working memory for deciding requests, so that a decision from memory allocates nothing
// else. The decisions in it are valid until it is used again. The zero value is ready for use. It
// belongs to one call at a time.
type Scratch struct {
	now budget.Instant
	// Crowded: the requests got no turn at the store, so memory or their rules' fallbacks decide.
	Crowded bool
	// Turns is how many turns at the store a call of several requests has. The caller sets it, and gives back what is left of
	// it; see engine.Turns. Part is how many it has besides for a part of its requests.
	Turns     int
	Part      int
	Decisions []Decision
	verdicts  []Verdict
	Matched   []rules.Matched
	Name      []byte
	One       [1]Request // the request of a caller that has only one
	// Pending has the indexes of the requests that are not decided yet. ForStore has those of them
	// that the store decides in this round, and Held those that memory has decided.
	Pending, ForStore, Held []int
	// ChunksEnd is when the first chunk ends of which memory has spent in this round.
	ChunksEnd budget.Instant
	// Until is when the requests stop to wait for calls of other checks. It is set when the first of
	// them waits or asks the store.
	Until time.Time
	// waits has a channel for each call in flight that requests wait for. inFlight has the entries
	// that MarkInFlight has marked.
	waits    []<-chan struct{}
	inFlight []*Entry
	// groups are allocated and not yet used.
	groups []singleCharge
}

// groupsTogether is how many groups a scratch allocates at once, which takes less time than one by one.
const groupsTogether = 16

// newGroup returns a group without limits. The scratch may be nil, which allocates only this one.
func (s *Scratch) newGroup(cost limit.Tokens) *Transaction {
	if s == nil {
		return NewTransaction(cost)
	}
	if len(s.groups) == 0 {
		s.groups = make([]singleCharge, groupsTogether)
	}
	g := &s.groups[0]
	s.groups = s.groups[1:]
	return g.begin(cost)
}

// maxVerdictsKept is the largest number of verdicts with which a scratch is kept: those of a large
// batch whose requests have a few limits each.
const maxVerdictsKept = 4096

// Scratches keeps scratches for the next calls. Safe for concurrent use.
type Scratches struct{ kept sync.Pool }

// Take returns a scratch for one call.
func (p *Scratches) Take() *Scratch {
	if s, ok := p.kept.Get().(*Scratch); ok {
		return s
	}
	return &Scratch{}
}

// Done takes back a scratch whose decisions are no longer used. It drops references to requests
// that are over.
func (p *Scratches) Done(s *Scratch) {
	if cap(s.verdicts) > maxVerdictsKept {
		return
	}
	clear(s.Decisions)
	s.Decisions = s.Decisions[:0] // so that reset does not clear them a second time
	clear(s.One[:])
	s.Crowded, s.Turns, s.Part = false, 0, 0
	p.kept.Put(s)
}

// Reset prepares the scratch for the decisions of n requests that came at now.
func (s *Scratch) Reset(n int, now budget.Instant) {
	s.now = now
	clear(s.Decisions) // drops the references in it
	if cap(s.Decisions) < n {
		s.Decisions = make([]Decision, n)
	}
	s.Decisions, s.verdicts, s.Pending = s.Decisions[:n], s.verdicts[:0], s.Pending[:0]
	for i := range n {
		s.Pending = append(s.Pending, i)
	}
}

// LocalPlan is a request that memory may decide.
type LocalPlan struct {
	Entries [MaxCached]*Entry
	Costs   [MaxCached]limit.Tokens
	found   [MaxCached]prefetch.Finding
	lent    [MaxCached]bool  // of the entries, as Read has read it
	order   [MaxCached]uint8 // of their locks
	N       int
}

// Find looks up the entries of all limits. It returns false if a limit has none.
func (l *LocalPlan) Find(t *Table, p *policy.Policy, r *Request, s *Scratch) bool {
	for i := range s.Matched {
		m := &s.Matched[i]
		cost, applies := r.CostOf(m.Rule)
		if !applies {
			return false
		}
		number, known := p.Numbers[m.Rule.ID]
		if !known || !m.Rule.LocalCache || cost > m.Limit.Capacity {
			return false
		}
		if m.Rule.Enforcement == rules.Independent {
			number |= policy.IndependentBit
		}
		s.Name = AppendName(s.Name[:0], number, m.Rule, r)
		e, _ := t.Find(s.Name)
		if e == nil {
			return false
		}
		l.add(e, cost)
	}
	return l.N > 0
}

// add adds a limit. No two limits of a request have the same key.
func (l *LocalPlan) add(e *Entry, cost limit.Tokens) {
	at := l.N
	for ; at > 0 && l.Entries[l.order[at-1]].number > e.number; at-- {
		l.order[at] = l.order[at-1]
	}
	l.order[at] = uint8(l.N)
	l.Entries[l.N], l.Costs[l.N] = e, cost
	l.N++
}

// Lock locks the entries in the order of their numbers.
func (l *LocalPlan) Lock() {
	for _, i := range l.order[:l.N] {
		l.Entries[i].mu.Lock()
	}
}

// Unlock unlocks the entries.
func (l *LocalPlan) Unlock() {
	for _, e := range l.Entries[:l.N] {
		e.mu.Unlock()
	}
}

// Evaluate reports whether memory allows the request: all limits that can deny it hold its cost.
// known is false if memory cannot tell, so that the store has to decide. The caller holds the locks.
func (l *LocalPlan) Evaluate(s *Scratch, now budget.Instant) (allowed, known bool) {
	allowed, known = true, true
	denied, told := false, true
	for i, e := range l.Entries[:l.N] {
		m := &s.Matched[i]
		if e.Evicted || e.Rule != m.Rule || e.Limit != m.Limit {
			return false, false
		}
		found := e.Chunk.Peek(l.Costs[i], now)
		l.found[i] = found
		switch {
		case e.shadow:
			known = known && found != prefetch.Ask
			continue
		case found == prefetch.Denied:
			denied = true
		}
		allowed = allowed && found == prefetch.Holds
		told = told && e.Chunk.Known(now)
	}
	return allowed, known && (allowed || denied && told)
}

// Charge counts the request at each limit, and spends tokens where it is allowed. If one limit
// denies a request, its other limits are not charged. A shadow limit is charged independently of
// the others. Charge records in s when the chunks end of which it spends.
func (l *LocalPlan) Charge(t *Table, s *Scratch, allowed bool, now budget.Instant) {
	for i, e := range l.Entries[:l.N] {
		cost := l.Costs[i]
		e.Chunk.CountCheck(cost, now)
		switch {
		case l.found[i] == prefetch.Denied:
			e.Chunk.Refuse(cost, now)
		case e.shadow || allowed:
			e.Chunk.Spend(cost, now)
			s.ChunksEnd = min(s.ChunksEnd, e.Chunk.Ends())
			if e.Chunk.Due(now) != prefetch.Nothing {
				t.urge(e)
			}
		default:
			continue // another limit denied the request, and this one would have held the cost
		}
		t.activate(e)
	}
}

// Read reads from the entries what SetVerdicts needs. The caller holds their locks.
func (l *LocalPlan) Read(s *Scratch, now budget.Instant) {
	from := len(s.verdicts)
	s.verdicts = slices.Grow(s.verdicts, l.N)[:from+l.N]
	for i, e := range l.Entries[:l.N] {
		v := &s.verdicts[from+i]
		v.Found, v.Window, v.Shadow, l.lent[i] = e.Chunk.Outcome(now), e.window, e.shadow, e.lent
	}
}

// SetVerdicts sets the verdicts of a decision from memory, in the order of the rules, by what Read has read just before.
// It takes most of the time of such a decision, so it needs no locks.
func (d *Decision) SetVerdicts(l *LocalPlan, s *Scratch, now budget.Instant) {
	from := len(s.verdicts) - l.N
	d.CachedVerdicts = s.verdicts[from:len(s.verdicts):len(s.verdicts)]
	d.At = now
	for i, e := range l.Entries[:l.N] {
		v, m := &d.CachedVerdicts[i], &s.Matched[i]
		v.Rule, v.Limit, v.Key, v.Cost, v.Mode = m.Rule, m.Limit, e.Key, l.Costs[i], modes.Local
		v.Unknown, v.Held = false, penalty.Free // the memory may have had another verdict
		holds := l.found[i] == prefetch.Holds || l.found[i] == prefetch.Ask && v.Found.Tokens >= v.Cost
		v.Decision = limit.Decide(m.Limit, v.Found, v.Cost, holds)
		v.Decision.Delay = 0 // memory admits nothing of a queue
		if l.lent[i] {
			v.Decision = v.Decision.CapWait()
		}
		if !holds && !v.Shadow && d.Denier == nil {
			d.Denier = e
		}
	}
}
