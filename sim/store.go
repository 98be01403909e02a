package sim

import (
	"fmt"
	"slices"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/sim/shell"
)

// store is a region's Redis: records under an identity, and a clock.
type store struct {
	w       *world
	region  int
	clock   shell.Clock
	epoch   string // empty: no contents have been named yet
	mints   int
	heard   int64  // when a daemon of the region last took a lease; 0: not yet
	records []kept // by client
	backup  []kept // an older copy, as a replica or a dump holds it
}

// kept is a record and the store time at which it expires; 0: never.
type kept struct {
	record  limit.Record
	expires int64
}

func newStore(w *world, region int) *store {
	return &store{w: w, region: region, clock: w.newClock()}
}

func (s *store) time() int64 { return s.clock.Micros(s.w.now) }

// learn is the identity of the contents, minted if there is none.
func (s *store) learn() string {
	if s.epoch == "" {
		s.mints++
		s.epoch = fmt.Sprintf("n%d:r%d:%d", s.mints, s.region, s.time())
		s.w.suspectAll()
	}
	return s.epoch
}

func (s *store) get(c *client) limit.Record {
	if c.index >= len(s.records) {
		return limit.Record{}
	}
	r := &s.records[c.index]
	if r.expires != 0 && r.expires <= s.time() {
		return limit.Record{}
	}
	return r.record
}

func (s *store) put(c *client, r limit.Record, v *limit.View) {
	x := kept{record: r}
	if !r.Hot {
		x.expires = r.At + limit.TTL(r.Tokens, s.w.plant.cold(v))*1000
	}
	for len(s.records) <= c.index {
		s.records = append(s.records, kept{})
	}
	s.records[c.index] = x
}

// flush loses everything, the identity too.
func (s *store) flush() {
	s.records, s.epoch, s.heard = nil, "", 0
	s.w.suspectAll()
}

// rollBack brings back an older copy, as a failover with lost writes does.
func (s *store) rollBack() {
	s.records, s.epoch = slices.Clone(s.backup), ""
	s.w.suspectAll()
}

func (s *store) copyAway() { s.backup = slices.Clone(s.records) }

// taken is the reply to a take.
type taken struct {
	otherEpoch bool
	time       int64
	at         int64 // true time
	tries      []limit.Outcome
	admitted   int // the first tries; the last one was denied if there are more
}

// take tries a request up to tries times, until one is denied.
func (s *store) take(epoch string, c *client, v limit.View, tries int, cost limit.Tokens) taken {
	if epoch != s.epoch {
		return taken{otherEpoch: true}
	}
	now := s.time()
	rep := taken{time: now, at: s.w.now}
	v.Heard = s.heardBy(&v)
	records := []limit.Record{s.w.plant.record(s.get(c), &v)}
	out := make([]limit.Outcome, 1)
	for range tries {
		ok := limit.Take(records, []limit.View{v}, cost, now, out)
		rep.tries = append(rep.tries, out[0])
		s.w.decisions++
		if !ok {
			break
		}
		rep.admitted++
	}
	s.put(c, records[0], &v)
	if rep.admitted > 0 {
		s.w.admit(c, s.region, limit.Tokens(rep.admitted)*cost)
	}
	return rep
}

// heardBy is what a call finds out about the last lease: only a daemon that is cut
// off asks.
func (s *store) heardBy(v *limit.View) int64 {
	if v.Phase != limit.Floor {
		return 0
	}
	return s.heard
}

// apply makes the first n of some changes; fewer than all when the connection
// breaks on the way.
func (s *store) apply(epoch string, changes []change, n int, lease bool) (results []budget.ShareResult, ok bool) {
	if epoch != s.epoch {
		return nil, false
	}
	if lease {
		s.heard = s.time()
	}
	for _, c := range changes[:n] {
		c.change.View.Heard = s.heardBy(&c.change.View)
		before := s.get(c.client)
		r, a := limit.Apply(before, c.change, s.time())
		s.put(c.client, r, &c.change.View)
		c.client.suspects()
		if !a.Stale && !a.Late && before.Share != r.Share {
			s.w.moves++
		}
		what := "store applies"
		if a.Stale || a.Late {
			what = "store: stale change"
		}
		s.w.note(what, s.region, int64(c.client.key.Rule), int64(c.change.Gen), int64(c.change.Share.Cap), int64(a.Tokens))
		if a.Released > 0 || c.change.Grant > 0 {
			s.w.note("released, granted", s.region, int64(c.client.key.Rule), int64(c.change.Gen), int64(a.Released), int64(c.change.Grant))
		}
		results = append(results, budget.ShareResult{
			Key: c.client.key, Released: int64(a.Released), Tokens: int64(a.Tokens), Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
		})
	}
	return results, n == len(changes)
}

// change is one share change on its way to the store.
type change struct {
	client *client
	change limit.Change
}
