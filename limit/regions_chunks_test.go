package limit

import (
	"slices"

	"pgregory.net/rapid"
)

// What TestRegions does with chunks: two daemons of each region borrow, spend, keep and
// bring back; some answers never arrive, some calls get stuck on the way, some daemons die
// with what they have. A chunk counts against the ideal bucket when it is spent.

// loan is what one daemon has of its region's bucket, as it knows.
type loan struct {
	was, left Tokens
	until     int64
}

// stuck is a return that has not reached the store; the daemon has given it up.
type stuck struct {
	region *region
	chunk  ChunkView
	stamp  uint32
}

// spendable is what a daemon may still spend of its chunk.
func (l *loan) spendable(now int64) Tokens {
	if now > l.until {
		return 0
	}
	return l.left
}

// wordOf is what a daemon says of its chunk in a call: some kept, some brought back.
func (w *regions) wordOf(t *rapid.T, l *loan) ChunkView {
	c := ChunkView{Was: l.was, Until: l.until, Keep: l.spendable(w.now)}
	if rapid.Bool().Draw(t, "bring back") {
		c.Keep, c.Back = 0, c.Keep
	}
	l.left = c.Keep
	return c
}

func (w *regions) borrow(t *rapid.T) {
	r := w.pick(t)
	l := &r.loans[rapid.IntRange(0, 1).Draw(t, "daemon")]
	c := w.wordOf(t, l)
	if rapid.IntRange(0, 7).Draw(t, "fate") == 0 {
		l.was = 0 // nobody knows when it arrives: none of it is told again
		w.stuck = append(w.stuck, stuck{r, c, r.view.Stamp})
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "want") > 0 {
		c.Want = Tokens(rapid.Int64Range(1, int64(w.limit.Capacity)).Draw(t, "tokens"))
		c.Least = Tokens(rapid.Int64Range(0, int64(c.Want)).Draw(t, "least"))
		c.Life = rapid.Int64Range(1, MaxChunkLife).Draw(t, "life")
	}
	cost := Tokens(rapid.Int64Range(0, int64(w.limit.Capacity)).Draw(t, "cost"))
	r.view.Chunk = c
	out := w.ask(r, cost)
	r.view.Chunk = ChunkView{}
	if c.Want == 0 && out.Lent > 0 || out.Lent > c.Want || out.Lent > 0 && out.Lent < c.Least || r.record.Extra > 0 && out.Lent > 0 {
		t.Fatalf("%+v of %+v", out, c)
	}
	if rapid.IntRange(0, 7).Draw(t, "answer") == 0 {
		l.was = 0 // it is lost; what was kept is still spent
		return
	}
	if !out.Kept {
		l.left = 0
	}
	l.left += out.Lent
	if l.was = l.left; l.left > 0 {
		l.until = out.LentUntil
	}
}

// deliver has a call that got stuck reach the store after all.
func (w *regions) deliver(t *rapid.T) {
	if len(w.stuck) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.stuck)-1).Draw(t, "call")
	s := w.stuck[i]
	w.stuck = slices.Delete(w.stuck, i, i+1)
	w.expire(s.region)
	if s.stamp == s.region.view.Stamp { // the store refuses it else
		s.region.view.Chunk = s.chunk
		w.ask(s.region, 0)
		s.region.view.Chunk = ChunkView{}
	}
}

// use spends some of a chunk.
func (w *regions) use(t *rapid.T) {
	r := w.pick(t)
	l := &r.loans[rapid.IntRange(0, 1).Draw(t, "daemon")]
	if most := l.spendable(w.now); most > 0 {
		cost := Tokens(rapid.Int64Range(1, int64(most)).Draw(t, "cost"))
		l.left -= cost
		w.ideal.Sub(w.ideal, scaled(cost, 0))
	}
}

// die forgets what a daemon had.
func (w *regions) die(t *rapid.T) {
	w.pick(t).loans[rapid.IntRange(0, 1).Draw(t, "daemon")] = loan{}
}

// ends keeps the daemons of a region from spending what they have: the right that it
// came from has ended.
func (r *region) ends() {
	for i := range r.loans {
		r.loans[i].left = 0
	}
}

// comesBack brings a daemon's chunk back along with a change.
func (w *regions) comesBack(t *rapid.T, r *region) ChunkView {
	l := &r.loans[rapid.IntRange(0, 1).Draw(t, "daemon")]
	if rapid.Bool().Draw(t, "with the change") {
		return ChunkView{}
	}
	c := ChunkView{Was: l.was, Until: l.until, Back: l.spendable(w.now)}
	*l = loan{}
	return c
}

// owes asks whether chunks of a share that has shrunk are still out.
func (w *regions) owes(r *region) bool {
	if !r.view.Hot {
		r.owed = 0 // its share was the floor
	}
	if r.owed > 0 {
		c := Change{View: r.view, Gen: r.view.Gen, Share: r.view.Share}
		if _, a := Apply(r.record, c, w.now); a.Stale || a.Released != 0 || a.Due == 0 {
			r.owed = 0
		}
	}
	return r.owed > 0
}

// checkLoans: the record knows of everything that can still be spent.
func (w *regions) checkLoans(t *rapid.T, r *region, settled *Record) {
	sum := r.loans[0].spendable(w.now) + r.loans[1].spendable(w.now)
	if sum > settled.Lent {
		t.Fatalf("%d are out, the record knows of %d: %+v", sum, settled.Lent, r)
	}
	if settled.Lent > 0 && settled.LentUntil < settled.At {
		t.Fatalf("lent until %d at %d", settled.LentUntil, settled.At)
	}
}
