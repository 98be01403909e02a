package check

import (
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/check/form"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// site is one region: its store, and the daemons that use it.
type site struct {
	region int
	clock  shell.Clock // the store's
	epoch  string      // of the contents
	mints  int
	birth  int64 // of the contents, microseconds
	heard  int64 // when a daemon of the region was last heard; 0: not yet
	kept   kept
	backup kept // an older copy
	slots  uint64
	used   []usage // admitted under a limit that counts, whatever the store remembers

	nodes   []*node
	known   stateFile
	latest  budget.SessionID // that a daemon of the region opened
	cutUp   bool
	cutDown bool
	stuck   []storeCall

	form *form.Form // canonical; nil: to be computed
}

// kept is a record and the store time at which it expires; 0: never.
type kept struct {
	record  limit.Record
	expires int64
}

// storeCall is a command that was delayed on its way to the store.
type storeCall struct {
	name    uint64 // of the daemon
	epoch   string // of the contents it is for
	changes []storeChange
	heard   bool
	// take is not nil for a take of everything there is.
	take *limit.View
	// lend is not nil for a call that borrows or returns a chunk.
	lend     *lendCall
	deadline int64
	age      int // quanta
	gaveUp   bool
}

// made reports whether the call has reached the store. Only its reply is then missing, and it does
// not come.
func (c *storeCall) made() bool { return c.epoch == "" }

// storeChange is one share change in the store's terms.
type storeChange struct {
	key    budget.KeyID
	change limit.Change
}

func (s *site) clone() *site {
	c := *s
	c.nodes = make([]*node, len(s.nodes))
	for i, n := range s.nodes {
		c.nodes[i] = n.clone()
	}
	c.stuck = append([]storeCall(nil), s.stuck...)
	c.form = nil
	return &c
}

func (s *site) time(now int64) int64 { return s.clock.Micros(now) }

// learn returns the identity of the contents, and creates one if there is none.
func (s *site) learn(now int64) (epoch string, birth int64) {
	if s.epoch == "" {
		s.mints++
		s.epoch, s.birth = fmt.Sprintf("%d", s.mints), s.time(now)
	}
	return s.epoch, s.birth
}

func (s *site) get(now int64) limit.Record {
	if s.kept.expires != 0 && s.kept.expires <= s.time(now) {
		return limit.Record{}
	}
	return s.kept.record
}

func (s *site) put(r limit.Record, v *limit.View) {
	s.kept = kept{record: r}
	if !r.Hot {
		s.kept.expires = r.At + r.Keep(v)*1000
	}
}

// flush loses everything, including the identity.
func (s *site) flush() { s.kept, s.epoch, s.heard = kept{}, "", 0 }

// rollBack brings back an older copy, as a failover with lost writes does.
func (s *site) rollBack() { s.kept, s.epoch = s.backup, "" }

// fill sets what only the store knows in a view.
func (s *site) fill(v *limit.View) {
	v.Heard = 0
	if v.Phase == limit.Floor {
		v.Heard = s.heard
	}
}

// take asks for all there is, or for one token if there is nothing. It returns what was admitted,
// and whether the contents are the expected ones.
func (s *site) take(epoch string, v limit.View, now int64) (admitted limit.Tokens, out limit.Outcome, ok bool) {
	if epoch != s.epoch {
		return 0, out, false
	}
	s.fill(&v)
	if v.Algorithm == limit.Concurrency {
		s.slots++
		v.Slot = s.slots
	}
	records, views, outs := [1]limit.Record{s.get(now)}, [1]limit.View{v}, [1]limit.Outcome{}
	limit.Take(records[:], views[:], limit.MaxTokens, s.time(now), outs[:]) // denied: how much is there?
	cost, lost := outs[0].Tokens, outs[0].Amnesia
	if cost == 0 {
		cost = limit.Token
	}
	if limit.Take(records[:], views[:], cost, s.time(now), outs[:]) {
		admitted = cost
		if v.Algorithm.Counts() {
			s.used = append(s.used[:len(s.used):len(s.used)], usage{s.time(now), cost})
		}
	}
	s.put(records[0], &v)
	outs[0].Amnesia = outs[0].Amnesia || lost
	return admitted, outs[0], true
}

// apply makes changes, and marks that the region is heard.
func (s *site) apply(epoch string, changes []storeChange, heard bool, now int64) (results []budget.ShareResult, ok bool) {
	if epoch != s.epoch {
		return nil, false
	}
	if heard {
		s.heard = s.time(now)
	}
	for _, c := range changes {
		s.fill(&c.change.View)
		r, a := limit.Apply(s.get(now), c.change, s.time(now))
		s.put(r, &c.change.View)
		results = append(results, budget.ShareResult{
			Key: c.key, Released: int64(a.Released), Tokens: int64(a.Tokens), Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
			InUse: int64(a.InUse), Due: time.Duration(a.Due) * time.Microsecond, Label: a.Label,
		})
	}
	return results, true
}
