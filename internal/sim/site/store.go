package site

import (
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/recall"
	"aliquot/internal/roster"
	"aliquot/internal/sim/rule"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// store is a region's Redis: records with an identity, and a clock.
type store struct {
	w       *Regions
	region  int
	clock   shell.Clock
	epoch   string // empty: the contents have no name yet
	mints   int
	heard   int64  // when a daemon of the region last took a lease; 0: not yet
	setBack int64  // true time at which the clock was last set back
	pauseTo int64  // true time until which its host is stopped
	records []kept // by rule
	// promotions counts how often a replica took over. named is the promotion that the epoch names.
	promotions, named int
	backup            backup
	list              roster.List // of the region's daemons
	desk              desk
}

// backup is an older copy of a store, including its identity, as a replica or a dump holds it.
type backup struct {
	records []kept
	epoch   string
	named   int
	list    roster.List
}

// desk is the working memory of a store. Each call overwrites what the previous one has left.
type desk struct {
	records []limit.Record
	views   []limit.View
	outs    []limit.Outcome
}

// kept is a record, the store time at which it expires (0: never), and the limit of which its share
// is a part.
type kept struct {
	record  limit.Record
	expires int64
	limit   limit.Limit
}

// sinceTheEpoch keeps a store's clock above zero however often it is set back.
const sinceTheEpoch = 1_000_000 * second

func newStore(w *Regions, region int) *store {
	s := &store{w: w, region: region, clock: w.NewClock()}
	if w.ClocksAgree {
		s.clock = shell.Clock{Offset: 1000*second + w.Between(0, second)}
	}
	s.clock.Offset += sinceTheEpoch
	return s
}

func (s *store) Time() int64 { return s.clock.Micros(s.w.Now()) }

// outlived reports whether a command that was sent at a true time would be late by now, if the
// clock had not been set back since the reading from which its deadline was made; see doc.go. That
// reading was requested at the true time sampled.
func (s *store) outlived(sampled, sent, deadline int64) bool {
	return sampled < s.setBack && s.w.Now()-sent > deadline
}

// learn returns the identity of the contents. It creates one if there is none, or if the server was
// promoted since.
func (s *store) learn() string {
	if s.epoch == "" || s.promoted() {
		s.named = s.promotions
		if s.mints++; s.mints > 1 || s.region >= len(s.w.Config.Regions) {
			s.w.above.Lost(s.region)
		}
		s.epoch = fmt.Sprintf("n%d:r%d:%d", s.mints, s.region, s.Time())
		s.w.SuspectAll()
	}
	return s.epoch
}

func (s *store) Get(r *rule.Rule) limit.Record {
	if r.Index >= len(s.records) {
		return limit.Record{}
	}
	k := &s.records[r.Index]
	if k.expires != 0 && k.expires <= s.Time() {
		return limit.Record{}
	}
	return k.record
}

// put keeps a record for a view. The record's share is a part of a limit.
func (s *store) put(of *rule.Rule, r limit.Record, v *limit.View, l limit.Limit) {
	x := kept{record: r, limit: l}
	if !r.Hot {
		x.expires = r.At + r.Keep(v)*1000
	}
	for len(s.records) <= of.Index {
		s.records = append(s.records, kept{})
	}
	s.records[of.Index] = x
}

// SetClock sets the store's clock, d nanoseconds ahead of what it shows.
func (s *store) SetClock(d int64) {
	s.clock.Offset += d
	if d < 0 {
		s.setBack = s.w.Now()
	}
}

// Flush loses everything, including the identity.
func (s *store) Flush() {
	s.records, s.epoch, s.heard, s.list = nil, "", 0, roster.List{}
	s.w.SuspectAll()
}

// RollBack brings back an older copy, as a failover with lost writes does, and one back. The
// connections to the server that takes over are good. It names its contents as they were named when
// the copy was made.
func (s *store) RollBack() {
	s.records, s.epoch, s.named, s.list = slices.Clone(s.backup.records), s.backup.epoch, s.backup.named, s.backup.list
	s.promotions++
	s.w.SuspectAll()
}

// promoted reports whether the server was promoted since its contents were named.
func (s *store) promoted() bool { return s.named != s.promotions }

func (s *store) CopyAway() {
	s.backup = backup{records: slices.Clone(s.records), epoch: s.epoch, named: s.named, list: s.list}
}

// taken is the reply to a take.
type taken struct {
	otherEpoch bool
	time       int64
	at         int64           // true time
	limits     int             // of the call
	outs       []limit.Outcome // of each try, of each limit
	admitted   int             // how many of the first tries were admitted; if there are more, the last one was denied
	slots      [][]uint64      // of each limit and those tries, if it is a limit of slots; nil: of none
}

// tried returns how many requests were tried.
func (t *taken) tried() int {
	if t.limits == 0 {
		return 0
	}
	return len(t.outs) / t.limits
}

// try returns the outcomes of one of them, by limit.
func (t *taken) try(i int) []limit.Outcome { return t.outs[i*t.limits : (i+1)*t.limits] }

// slotsOf returns the slots that were taken of one limit.
func (t *taken) slotsOf(i int) []uint64 {
	if t.slots == nil {
		return nil
	}
	return t.slots[i]
}

// gave records a slot that was taken of one limit.
func (t *taken) gave(i int, slot uint64) {
	if t.slots == nil {
		t.slots = make([][]uint64, t.limits)
	}
	t.slots[i] = append(t.slots[i], slot)
}

// take tries a call's requests, until one is denied. What the call returns and wants of chunks goes
// with the first of them.
func (s *store) take(c *takeCall) taken {
	if c.epoch != s.epoch || s.promoted() {
		return taken{otherEpoch: true}
	}
	now, asks := s.Time(), c.asks
	rep := taken{time: now, at: s.w.Now(), limits: len(asks)}
	records, views, outs := s.desk.records[:0], s.desk.views[:0], s.desk.outs[:0]
	for i := range asks {
		views = append(views, asks[i].view)
		views[i].Heard = s.heardBy(&views[i])
		records = append(records, s.Get(asks[i].rule))
	}
	for try := range c.tries {
		outs = append(outs, make([]limit.Outcome, len(asks))...)
		s.w.nameSlots(views, try > 0)
		ok := limit.Take(records, views, c.cost, now, outs[len(outs)-len(asks):])
		if c.errand {
			break
		}
		s.w.Decisions++
		for i := range views {
			views[i].Chunk = limit.ChunkView{}
		}
		if !ok {
			break
		}
		rep.admitted++
		for i := range views {
			views[i].Debit, views[i].Held = 0, nil
			if slot := views[i].Slot; slot != 0 {
				rep.gave(i, slot)
			}
		}
	}
	for i := range asks {
		s.write(&asks[i], records[i], &views[i])
		if lent := outs[i].Lent; lent > 0 {
			asks[i].rule.Ideal.Borrowed(s.region, lent, s.w.Now())
		}
		if rep.admitted > 0 && !c.given { // otherwise its client has it already
			s.w.above.Admit(asks[i].rule, s.region, limit.Tokens(rep.admitted)*c.cost, rep.slotsOf(i))
		}
	}
	if c.tries == 1 && rep.admitted == 1 {
		c.given = true
	}
	s.desk = desk{records: records, views: views, outs: outs}
	rep.outs = append(c.rep.outs[:0], outs...)
	return rep
}

// write keeps a record that a call has changed.
func (s *store) write(a *ask, r limit.Record, v *limit.View) {
	l := a.limit
	if r.Hot && !(v.Hot && v.Gen == r.Gen) {
		l = s.records[a.rule.Index].limit // the share keeps its value
	}
	s.put(a.rule, r, v, l)
}

// heardBy returns what a call learns about the last lease. Only a daemon that is cut off asks.
func (s *store) heardBy(v *limit.View) int64 {
	if v.Phase != limit.Floor {
		return 0
	}
	return s.heard
}

// apply makes the first n of some changes. It makes fewer than all when the connection breaks.
func (s *store) apply(epoch string, changes []change, n int, lease bool) (results []budget.ShareResult, ok bool) {
	if epoch != s.epoch || s.promoted() {
		return nil, false
	}
	if lease {
		s.heard = s.Time()
	}
	for _, c := range changes[:n] {
		c.change.View.Heard = s.heardBy(&c.change.View)
		before := s.Get(c.rule)
		r, a := limit.Apply(before, c.change, s.Time())
		if !a.Stale && !a.Late {
			s.put(c.rule, r, &c.change.View, c.limit)
		}
		s.w.suspect(c.rule)
		if !a.Stale && !a.Late && before.Share != r.Share {
			s.w.Moves++
		}
		what := "store applies"
		if a.Stale || a.Late {
			what = "store: stale change"
		}
		s.w.Note(what, s.region, int64(c.rule.Key.Rule), int64(c.change.Gen), int64(c.change.Share.Cap), int64(a.Tokens))
		if a.Released > 0 || c.change.Grant > 0 {
			s.w.Note("released, granted", s.region, int64(c.rule.Key.Rule), int64(c.change.Gen), int64(a.Released), int64(c.change.Grant))
		}
		results = append(results, budget.ShareResult{
			Key: c.rule.Key, Released: int64(a.Released), Tokens: int64(a.Tokens), Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
			InUse: int64(a.InUse), Due: time.Duration(a.Due) * time.Microsecond, Label: a.Label,
			Capacity: int64(c.limit.Capacity), Tail: c.limit.Tail(),
		})
	}
	return results, n == len(changes)
}

// change is one share change in flight to the store.
type change struct {
	rule    *rule.Rule
	limit   limit.Limit // the limit that it was made for
	change  limit.Change
	carried recall.Debt // the part of its key's debt
}
