package regional

import (
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// mostLocal is the largest number of limits of a request that is decided from memory. The locks of
// all its limits are held at once.
const mostLocal = 8

// scratch is the memory that deciding requests needs, so that those decided from memory allocate
// nothing else. The decisions in it are valid until it is used again.
type scratch struct {
	now budget.Instant
	// crowded: the requests got no turn at the store, so memory or their rules' fallbacks decide.
	crowded   bool
	decisions []decision
	verdicts  []verdict
	matched   []rules.Matched
	name      []byte
	one       [1]request // the request of a caller that has only one
	// todo are the indexes of requests that are not decided yet. asks are those of them that the
	// store is asked about in this round.
	todo, asks []int
	// until is how long the requests wait for calls of other checks. It is set when one has to wait
	// or to ask the store.
	until time.Time
	// awaits are the calls that parked requests wait for. claimed are the entries that the requests
	// at the store have claimed.
	awaits  []<-chan struct{}
	claimed []*localEntry
}

// mostKept is the largest number of verdicts with which a scratch is kept: those of a large batch
// whose requests have a few limits each.
const mostKept = 4096

// scratches keeps scratches for the next calls. Safe for concurrent use.
type scratches struct{ kept sync.Pool }

func (p *scratches) take() *scratch {
	if s, ok := p.kept.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

// done takes back a scratch whose decisions are no longer used. It drops references to requests
// that are over.
func (p *scratches) done(s *scratch) {
	if cap(s.verdicts) > mostKept {
		return
	}
	clear(s.decisions)
	s.decisions = s.decisions[:0] // so that reset does not clear them a second time
	clear(s.one[:])
	s.crowded = false
	p.kept.Put(s)
}

// reset prepares the scratch for the decisions of n requests that came at now.
func (s *scratch) reset(n int, now budget.Instant) {
	s.now = now
	clear(s.decisions) // drops the references in it
	if cap(s.decisions) < n {
		s.decisions = make([]decision, n)
	}
	s.decisions, s.verdicts, s.todo = s.decisions[:n], s.verdicts[:0], s.todo[:0]
	for i := range n {
		s.todo = append(s.todo, i)
	}
}

// localPlan is a request that memory may decide.
type localPlan struct {
	entries [mostLocal]*localEntry
	costs   [mostLocal]limit.Tokens
	found   [mostLocal]chunk.Finding
	order   [mostLocal]uint8 // of their locks
	n       int
}

// find looks up the entries of all limits. It returns false if a limit has none.
func (l *localPlan) find(t *localTable, p *policy.Policy, r *request, s *scratch) bool {
	for i := range s.matched {
		m := &s.matched[i]
		cost, applies := r.costOf(m.Rule)
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
		s.name = appendName(s.name[:0], number, m.Rule, r)
		e, _ := t.find(s.name)
		if e == nil {
			return false
		}
		l.add(e, cost)
	}
	return l.n > 0
}

// add adds a limit. No two limits of a request have the same key.
func (l *localPlan) add(e *localEntry, cost limit.Tokens) {
	at := l.n
	for ; at > 0 && l.entries[l.order[at-1]].number > e.number; at-- {
		l.order[at] = l.order[at-1]
	}
	l.order[at] = uint8(l.n)
	l.entries[l.n], l.costs[l.n] = e, cost
	l.n++
}

func (l *localPlan) lock() {
	for _, i := range l.order[:l.n] {
		l.entries[i].mu.Lock()
	}
}

func (l *localPlan) unlock() {
	for _, e := range l.entries[:l.n] {
		e.mu.Unlock()
	}
}

// look finds out whether all limits that can deny hold the cost, or one of them would deny it.
// known is false if the store has to be asked. The caller holds the locks.
func (l *localPlan) look(s *scratch, now budget.Instant) (allowed, known bool) {
	allowed, known = true, true
	denied, told := false, true
	for i, e := range l.entries[:l.n] {
		m := &s.matched[i]
		if e.gone || e.rule != m.Rule || e.limit != m.Limit {
			return false, false
		}
		found := e.chunk.Look(l.costs[i], now)
		l.found[i] = found
		switch {
		case e.shadow:
			known = known && found != chunk.Ask
			continue
		case found == chunk.Denied:
			denied = true
		}
		allowed = allowed && found == chunk.Holds
		told = told && e.chunk.Known(now)
	}
	return allowed, known && (allowed || denied && told)
}

// charge counts the request at each limit, and spends tokens where it is allowed. If one limit
// denies a request, its other limits are not charged. A shadow limit is charged independently of
// the others.
func (l *localPlan) charge(t *localTable, allowed bool, now budget.Instant) {
	for i, e := range l.entries[:l.n] {
		cost := l.costs[i]
		e.chunk.Seen(cost, now)
		switch {
		case l.found[i] == chunk.Denied:
			e.chunk.Refuse(cost, now)
		case e.shadow || allowed:
			e.chunk.Spend(cost, now)
			if e.chunk.Due(now) != chunk.Nothing {
				t.nudge()
			}
		default:
			continue // it would have held the cost
		}
		t.activate(e)
	}
}

// word creates the verdicts, in the order of the rules.
func (d *decision) word(l *localPlan, s *scratch, allowed bool, now budget.Instant) {
	from := len(s.verdicts)
	d.at = now
	for i, e := range l.entries[:l.n] {
		cost, found := l.costs[i], e.chunk.Outcome(now)
		holds := l.found[i] == chunk.Holds || l.found[i] == chunk.Ask && found.Tokens >= cost
		decided := limit.Decide(e.limit, found, cost, holds)
		decided.Delay = 0 // memory admits nothing of a queue
		s.verdicts = append(s.verdicts, verdict{
			rule: e.rule, window: e.window, cost: cost, shadow: e.shadow, mode: modes.Local, key: e.key, limit: e.limit,
			decision: decided, found: found,
		})
		if !holds && !e.shadow && d.denier == nil {
			d.denier = e
		}
	}
	d.all = s.verdicts[from:len(s.verdicts):len(s.verdicts)]
}
