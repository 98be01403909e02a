// Package store is a region's store as the checker sees it: one record, a clock, and contents with a
// name.
package store

import (
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/check/form"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// Store is a store with one record. A copy of it is a store of its own. It is not safe for concurrent
// use. Times are true times, in nanoseconds, unless they are said to be the store's.
type Store struct {
	clock shell.Clock
	epoch string // of the contents; empty: they have no name yet
	mints int
	birth int64 // of the contents, microseconds
	heard int64 // when a daemon of the region was last heard; 0: not yet
	kept  kept
	older kept
	slots uint64
	used  []usage // admitted under a limit that counts, whatever the store remembers
}

// New returns an empty store with a clock.
func New(clock shell.Clock) Store { return Store{clock: clock} }

// Epoch returns the name of the contents; empty: they have none yet.
func (s *Store) Epoch() string { return s.epoch }

// BackUp makes a copy of the record, to which RollBack returns.
func (s *Store) BackUp() { s.older = s.kept }

// Changed reports whether the record is another one than the copy.
func (s *Store) Changed(now int64) bool { return s.older.record != s.Get(now) }

// LastUse returns how long ago the latest admission was, in microseconds of the store's clock; 0: there
// was none.
func (s *Store) LastUse(now int64) int64 {
	if len(s.used) == 0 {
		return 0
	}
	return s.Time(now) - s.used[len(s.used)-1].at
}

// Settle returns what the store would hold and enforce for a view, and whether it has lost the key's
// record. It changes nothing.
func (s *Store) Settle(v limit.View, now int64) (limit.Record, limit.Bucket, bool) {
	s.fill(&v)
	return limit.Settle(s.Get(now), v, s.Time(now))
}

// Change is one share change in the store's terms.
type Change struct {
	Key      budget.KeyID
	Change   limit.Change
	Capacity limit.Tokens // of the limit
}

// kept is a record and the store time at which it expires; 0: never.
type kept struct {
	record  limit.Record
	expires int64
}

// usage is one admission under a counting limit, by the store's clock.
type usage struct {
	at   int64
	cost limit.Tokens
}

// InUse returns what the region has in use by the definition of the limit's algorithm, whatever its
// store remembers of it.
func (s *Store) InUse(l *limit.Limit, now int64) limit.Tokens {
	window, at := l.Window.Microseconds(), s.Time(now)
	var present, before limit.Tokens
	for _, u := range s.used {
		switch {
		case l.Algorithm == limit.SlidingLog || l.Algorithm == limit.Concurrency:
			if u.at+window > at {
				present += u.cost
			}
		case u.at/window == at/window:
			present += u.cost
		case u.at/window == at/window-1 && l.Algorithm == limit.SlidingCounter:
			before += u.cost
		}
	}
	left := limit.Tokens(window - at%window)
	return present + (before*left+limit.Tokens(window)-1)/limit.Tokens(window)
}

// Forget drops what no longer counts anywhere.
func (s *Store) Forget(l *limit.Limit, now int64) {
	if !l.Algorithm.Counts() {
		s.used = nil
		return
	}
	kept := make([]usage, 0, len(s.used)+1)
	for _, u := range s.used {
		if s.Time(now)-u.at < 2*l.Window.Microseconds() {
			kept = append(kept, u)
		}
	}
	s.used = kept
}

// Time returns what the store's clock shows, in microseconds.
func (s *Store) Time(now int64) int64 { return s.clock.Micros(now) }

// Learn returns the name of the contents and when, by the store's clock, they were named. It names them
// if they have no name.
func (s *Store) Learn(now int64) (epoch string, birth int64) {
	if s.epoch == "" {
		s.mints++
		s.epoch, s.birth = fmt.Sprintf("%d", s.mints), s.Time(now)
	}
	return s.epoch, s.birth
}

// Get returns the record, if it has not expired.
func (s *Store) Get(now int64) limit.Record {
	if s.kept.expires != 0 && s.kept.expires <= s.Time(now) {
		return limit.Record{}
	}
	return s.kept.record
}

func (s *Store) put(r limit.Record, v *limit.View) {
	s.kept = kept{record: r}
	if !r.Hot {
		s.kept.expires = r.At + r.Keep(v)*1000
	}
}

// Flush loses everything, including the name.
func (s *Store) Flush() { s.kept, s.epoch, s.heard = kept{}, "", 0 }

// RollBack brings back an older copy, as a failover with lost writes does.
func (s *Store) RollBack() { s.kept, s.epoch = s.older, "" }

// fill sets what only the store knows in a view.
func (s *Store) fill(v *limit.View) {
	v.Heard = 0
	if v.Phase == limit.Floor {
		v.Heard = s.heard
	}
}

// Take asks for all there is, or for one token if there is nothing. It returns what was admitted,
// and whether the contents are the expected ones.
func (s *Store) Take(epoch string, v limit.View, now int64) (admitted limit.Tokens, out limit.Outcome, ok bool) {
	if epoch != s.epoch {
		return 0, out, false
	}
	s.fill(&v)
	if v.Algorithm == limit.Concurrency {
		s.slots++
		v.Slot = s.slots
	}
	records, views, outs := [1]limit.Record{s.Get(now)}, [1]limit.View{v}, [1]limit.Outcome{}
	limit.Take(records[:], views[:], limit.MaxTokens, s.Time(now), outs[:]) // denied: how much is there?
	cost, lost := outs[0].Tokens, outs[0].Amnesia
	if cost <= 0 {
		cost = limit.Token
	}
	if limit.Take(records[:], views[:], cost, s.Time(now), outs[:]) {
		admitted = cost
		if v.Algorithm.Counts() {
			s.used = append(s.used[:len(s.used):len(s.used)], usage{s.Time(now), cost})
		}
	}
	s.put(records[0], &v)
	outs[0].Amnesia = outs[0].Amnesia || lost
	return admitted, outs[0], true
}

// Apply makes changes, and marks that the region is heard.
func (s *Store) Apply(epoch string, changes []Change, heard bool, now int64) (results []budget.ShareResult, ok bool) {
	if epoch != s.epoch {
		return nil, false
	}
	if heard {
		s.heard = s.Time(now)
	}
	for _, c := range changes {
		s.fill(&c.Change.View)
		r, a := limit.Apply(s.Get(now), c.Change, s.Time(now))
		s.put(r, &c.Change.View)
		of := limit.Limit{Algorithm: c.Change.View.Algorithm, Window: time.Duration(c.Change.View.Window) * time.Microsecond}
		results = append(results, budget.ShareResult{
			Key: c.Key, Released: int64(a.Released), Tokens: int64(a.Tokens), Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
			InUse: int64(a.InUse), Due: time.Duration(a.Due) * time.Microsecond, Label: a.Label,
			Capacity: int64(c.Capacity), Tail: of.Tail(),
		})
	}
	return results, true
}

// Lend makes a call that borrows or returns a chunk. It returns the time by the store's clock, and
// whether the contents are the expected ones.
func (s *Store) Lend(epoch string, v limit.View, now int64) (out limit.Outcome, at int64, ok bool) {
	if epoch != s.epoch {
		return out, 0, false
	}
	s.fill(&v)
	records, views, outs := [1]limit.Record{s.Get(now)}, [1]limit.View{v}, [1]limit.Outcome{}
	limit.Take(records[:], views[:], 0, s.Time(now), outs[:])
	s.put(records[0], &v)
	return outs[0], s.Time(now), true
}

// Parts says what besides its record is a part of a store's state: the older copy, and the place of
// windows in time.
type Parts struct{ Older, Windows bool }

// AppendState writes what makes two stores one. cutUp and cutDown are facts of its region.
func (s *Store) AppendState(x *form.Writer, now int64, p Parts, cutUp, cutDown bool) {
	c, at := &x.Canon, s.Time(now)
	c.String(s.epoch)
	c.Int(int64(s.mints))
	x.Age(at - s.birth)
	c.Bools(s.heard != 0, cutUp, cutDown)
	if s.heard != 0 {
		x.Age(at - s.heard)
	}
	x.Record(s.Get(now), at)
	if s.kept.expires != 0 {
		c.Int(max(s.kept.expires-at, 0))
	}
	if p.Older {
		x.Record(s.older.record, at)
		c.Int(max(s.older.expires-at, 0))
	}
	if p.Windows {
		c.Int(at)
	}
	for _, u := range s.used {
		c.Int(at - u.at)
		c.Int(int64(u.cost))
	}
}
