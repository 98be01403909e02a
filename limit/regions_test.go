package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestRegions plays one key's life in several regions that share one limit: requests,
// shares that move with what they release, the way to hot and back, lapses, regions
// that are cut off, floors that change, stores that lose their memory, records that
// expire. One ideal bucket for the whole world stands beside them: the limit's own,
// or for an elastic limit one that holds the limit once for each region. The regions
// together must never hold more than it does: so what they admit in any interval is
// at most N*C + r*t, and C + r*t under a strict limit. Reservations are settled: what
// is given back counts as not admitted, in the bucket and in the ideal one alike. Daemons
// borrow: what they have of it counts as held, and is taken from the ideal when spent. In
// some histories more was used than was reserved; no store loses its memory in those,
// for with it goes the debt.
func TestRegions(t *testing.T) {
	const rounds = 20 // of rapid's own number of histories: the rare ones tell most
	for range rounds {
		rapid.Check(t, func(t *rapid.T) {
			w := newRegions(t)
			t.Repeat(map[string]func(*rapid.T){
				"":       w.check,
				"wait":   w.wait,
				"pause":  w.pause,
				"take":   w.take,
				"grab":   w.grab,
				"heat":   w.heat,
				"cool":   w.cool,
				"forget": w.forget,
				"shrink": w.shrink,
				"grow":   w.grow,
				"phase":  w.phase,
				"lower":  w.lower,
				"raise":  w.raise,
				"flush":  w.flush,
				"settle": w.settle,
				"borrow": w.borrow,
				"use":    w.use,
				"renew":  w.borrow,
				"arrive": w.deliver,
				"die":    w.die,
			})
		})
	}
}

// whole is the sum that shares and floors must not exceed.
const whole = 1 << partUnit

type regions struct {
	limit   Limit
	elastic bool
	now     int64
	all     []*region
	pool    Tokens // released and not granted yet
	gen     uint64
	slack   int32 // the most that floors have fallen short of the whole
	debts   bool
	ideal   *big.Int
	stuck   []stuck
}

type region struct {
	view       View // the daemon's, accurate
	record     Record
	expires    int64 // 0: never
	share      int32 // hot only
	floor, low int32
	unsettled  []Tokens // what was admitted and is not settled
	loans      [2]loan
	owed       int32 // a larger share than the present one, of which chunks are out
}

func newRegions(t *rapid.T) *regions {
	w := &regions{now: 1000 * tick, elastic: rapid.Bool().Draw(t, "elastic"), debts: rapid.Bool().Draw(t, "debts")}
	w.limit.Capacity = Tokens(rapid.Int64Range(1, 200).Draw(t, "capacity")) * Token
	w.limit.Rate = Rate{Micro: int64(w.limit.Capacity) / rapid.Int64Range(1, 40).Draw(t, "seconds")}
	n := rapid.IntRange(2, 4).Draw(t, "regions")
	left, uneven := int32(whole), rapid.Bool().Draw(t, "uneven")
	for i := range n {
		floor := left / int32(n-i)
		if uneven && i < n-1 {
			floor = rapid.Int32Range(0, left).Draw(t, "floor")
		}
		r := &region{floor: floor, view: View{Phase: Live, Until: MaxExact, Stamp: uint32(i + 1)}}
		r.low = r.floor
		left -= r.floor
		w.all = append(w.all, r)
		w.say(r)
	}
	w.ideal = w.most()
	return w
}

// say tells the daemon of a region what it may enforce.
func (w *regions) say(r *region) {
	r.view.Floor = w.limit.Part(r.floor, r.floor)
	if w.elastic {
		r.view.Extra = w.limit.Capacity - r.view.Floor.Cap
	}
	if r.view.Share = (Bucket{}); r.view.Hot {
		r.view.Share = w.limit.Part(r.share, r.share)
	}
}

// reserved is the share that a region could be enforcing.
func (r *region) reserved() int32 {
	switch {
	case !r.view.Hot || r.view.Phase == Floor:
		return r.floor
	case r.view.Phase == Limbo:
		return min(r.share, r.floor)
	}
	return max(r.share, r.owed)
}

// free is the share that no region could be enforcing, with released tokens to fit.
func (w *regions) free() int32 {
	free := int32(whole)
	for _, r := range w.all {
		w.owes(r)
		free -= r.reserved()
	}
	w.pool = min(w.pool, w.limit.Part(free, 0).Cap)
	return free
}

// most is what the ideal bucket holds. While floors move from one region to another
// the sum of floors is below the whole, and extra above the limit by as much.
func (w *regions) most() *big.Int {
	c := w.limit.Capacity
	if w.elastic {
		c = c*Tokens(len(w.all)) + w.limit.Part(w.slack, 0).Cap
	}
	return scaled(c, 0)
}

// check looks at every region's record, which costs nothing.
func (w *regions) check(t *rapid.T) {
	if w.ideal.Sign() < 0 && !w.debts {
		t.Fatalf("admitted more than there was, by %v", w.ideal)
	}
	w.free()
	held := scaled(w.pool, 0)
	for _, r := range w.all {
		w.expire(r)
		settled, _, _ := Settle(r.record, r.view, w.now)
		held.Add(held, scaled(settled.held(), settled.Carry))
		held.Add(held, scaled(r.loans[0].spendable(w.now)+r.loans[1].spendable(w.now), 0))
		w.checkLoans(t, r, &settled)
	}
	if held.Cmp(w.ideal) > 0 {
		for _, r := range w.all {
			t.Logf("%+v", r)
		}
		t.Fatalf("the regions hold %v, and the pool %d of it, the ideal bucket %v; now %d", held, w.pool, w.ideal, w.now)
	}
}

func (w *regions) pick(t *rapid.T) *region {
	r := w.all[rapid.IntRange(0, len(w.all)-1).Draw(t, "region")]
	w.expire(r)
	return r
}

// expire does what a store does with a record whose time to live has passed.
func (w *regions) expire(r *region) {
	if r.expires != 0 && w.now >= r.expires {
		r.record, r.expires = Record{}, 0
	}
}

func (w *regions) put(r *region, record Record) {
	r.record, r.expires = record, 0
	if !record.Hot {
		r.expires = w.now + record.Keep(&r.view)*1000
	}
}

func (w *regions) wait(t *rapid.T) {
	w.pass(rapid.Int64Range(1, 1<<rapid.IntRange(1, 28).Draw(t, "shift")).Draw(t, "us"))
}

// pause lasts until a record has left the store, or nearly. One without a rate stays for three centuries.
func (w *regions) pause(t *rapid.T) {
	d := w.pick(t).expires - w.now - rapid.Int64Range(0, 1).Draw(t, "early")
	if d > 0 && w.now+d <= MaxExact { // no clock of a store goes further
		w.pass(d)
	}
}

func (w *regions) pass(d int64) {
	w.now += d
	w.ideal.Add(w.ideal, exactly(w.limit.Rate, d))
	if most := w.most(); w.ideal.Cmp(most) > 0 {
		w.ideal = most
	}
}

func (w *regions) spend(r *region, cost Tokens) bool {
	before := len(r.unsettled)
	w.ask(r, cost)
	return len(r.unsettled) > before
}

// ask makes a request.
func (w *regions) ask(r *region, cost Tokens) Outcome {
	records, out := []Record{r.record}, make([]Outcome, 1)
	if Take(records, []View{r.view}, cost, w.now, out) && cost > 0 {
		w.ideal.Sub(w.ideal, scaled(cost, 0))
		r.unsettled = append(r.unsettled, cost)
	}
	w.put(r, records[0])
	return out[0]
}

func (w *regions) take(t *rapid.T) {
	w.spend(w.pick(t), Tokens(rapid.Int64Range(1, int64(w.limit.Capacity)).Draw(t, "cost")))
}

// grab takes all that regions hold, one of them or every one.
func (w *regions) grab(t *rapid.T) {
	from := w.all
	if rapid.Bool().Draw(t, "one") {
		from = []*region{w.pick(t)}
	}
	for _, r := range from {
		w.expire(r)
		settled, _, _ := Settle(r.record, r.view, w.now)
		if all := settled.held(); all > 0 && !w.spend(r, all) {
			t.Fatalf("%d tokens were held and not given: %+v", all, r)
		}
	}
}

// apply makes a change of a connected region.
func (w *regions) apply(t *rapid.T, r *region, share int32, grant Tokens, cold bool) Applied {
	w.gen++
	c := Change{View: r.view, Gen: w.gen, Share: w.limit.Part(share, share), Grant: grant, Cold: cold}
	before := r.reserved()
	c.View.Chunk = w.comesBack(t, r)
	record, a := Apply(r.record, c, w.now)
	if a.Stale {
		t.Fatalf("stale: %+v", r)
	}
	if a.Due > 0 {
		r.owed = max(r.owed, before)
	}
	r.view.Hot, r.view.Gen, r.share = !cold, w.gen, share
	w.say(r)
	w.put(r, record)
	return a
}

func (w *regions) heat(t *rapid.T) {
	if r := w.pick(t); !r.view.Hot && r.view.Phase == Live {
		if a := w.apply(t, r, r.floor, 0, false); a.Released != 0 {
			t.Fatalf("%+v: an escalation releases nothing", a)
		}
	}
}

func (w *regions) cool(t *rapid.T) {
	if r := w.pick(t); r.view.Hot && r.view.Phase == Live && r.share == r.floor && !w.owes(r) {
		w.apply(t, r, r.floor, 0, true)
	}
}

// forget makes the key cold in the daemon only: the record is a left-over. (Without a
// record, a key returns to cold by a change, which leaves one.)
func (w *regions) forget(t *rapid.T) {
	if r := w.pick(t); r.view.Hot && r.record.Hot && r.view.Phase == Live && r.floor <= r.share+w.free() && !w.owes(r) {
		r.ends()
		r.view.Hot = false
		w.say(r)
	}
}

// target is a share between two, often the floor if it is one of them.
func target(t *rapid.T, r *region, least, most int32) int32 {
	if least <= r.floor && r.floor <= most && rapid.Bool().Draw(t, "to floor") {
		return r.floor
	}
	return rapid.Int32Range(least, most).Draw(t, "share")
}

func (w *regions) shrink(t *rapid.T) {
	r := w.pick(t)
	if !r.view.Hot || r.view.Phase != Live {
		return
	}
	w.pool += w.apply(t, r, target(t, r, 0, r.share), 0, false).Released
}

func (w *regions) grow(t *rapid.T) {
	r := w.pick(t)
	if !r.view.Hot || r.view.Phase != Live {
		return
	}
	share := target(t, r, r.share, r.share+w.free())
	grant := Tokens(rapid.Int64Range(0, int64(w.pool)).Draw(t, "grant"))
	w.pool -= grant
	w.apply(t, r, share, grant, false)
}

// phase cuts a region off, lets it take its floor back once there is room, or
// connects it again.
func (w *regions) phase(t *rapid.T) {
	r := w.pick(t)
	before, since, room := r.view.Phase, r.view.Since, r.reserved()+w.free()
	to := Phase(rapid.IntRange(0, 2).Draw(t, "phase"))
	if to == before || to == Floor && before == Live {
		return
	}
	if r.view.Phase, r.view.Since = to, w.now; r.reserved() > room {
		r.view.Phase, r.view.Since = before, since
		return
	}
	r.ends()
}

// lower makes a region's floor smaller: what it gives up is nobody's.
func (w *regions) lower(t *rapid.T) {
	r := w.pick(t)
	r.floor = rapid.Int32Range(0, r.floor).Draw(t, "floor")
	w.floored(r)
}

// raise makes it larger, as far as the other floors and shares leave room.
func (w *regions) raise(t *rapid.T) {
	r := w.pick(t)
	room := int32(whole)
	for _, other := range w.all {
		room -= other.floor
	}
	if !r.view.Hot || r.view.Phase != Live {
		room = min(room, w.free())
	}
	r.floor += rapid.Int32Range(0, room).Draw(t, "more")
	w.floored(r)
}

func (w *regions) floored(r *region) {
	r.ends()
	r.low = min(r.low, r.floor)
	r.view.FloorSince, r.view.Low = w.now, w.limit.Part(r.low, r.low)
	w.say(r)
	slack := int32(whole)
	for _, other := range w.all {
		slack -= other.floor
	}
	w.slack = max(w.slack, slack)
}

// flush loses a region's records, and gives its contents a new name.
func (w *regions) flush(t *rapid.T) {
	r := w.pick(t)
	if w.debts {
		return
	}
	r.record, r.expires = Record{}, 0
	r.view.Stamp += 100
	r.view.Birth = w.now + MaxChunkLife
}

// settle ends the latest reservation of a region.
func (w *regions) settle(t *rapid.T) {
	r := w.pick(t)
	n := len(r.unsettled)
	if n == 0 {
		return
	}
	a := Adjustment{View: r.view, Reserved: r.unsettled[n-1], Debt: w.limit.Capacity}
	r.unsettled = r.unsettled[:n-1]
	most := a.Reserved
	if w.debts && rapid.Bool().Draw(t, "overrun") {
		most += 2 * w.limit.Capacity
	}
	a.Used = Tokens(rapid.Int64Range(0, int64(most)).Draw(t, "used"))
	record, out := Adjust(r.record, a, w.now)
	switch {
	case out.Refunded > 0 && out.Charged > 0, out.Refunded+out.Spare > max(0, a.Reserved-a.Used), out.Charged > max(0, a.Used-a.Reserved):
		t.Fatalf("%+v of %+v", out, a)
	case record.Tokens < -w.limit.Capacity || record.Tokens < 0 && record.Extra > 0:
		t.Fatalf("a debt of %d of a capacity of %d, beside %d", record.Tokens, w.limit.Capacity, record.Extra)
	}
	w.pool += out.Spare
	w.ideal.Add(w.ideal, scaled(out.Refunded+out.Spare-out.Charged, 0))
	w.pass(0)
	w.put(r, record)
}

// An elastic limit gives its extra burst: every region the whole limit at once, and
// then the rate as if nothing had been.
func TestElasticBurstIsSeen(t *testing.T) {
	const n, seconds = 3, 600
	l := Limit{Capacity: 90 * Token, Rate: Rate{Micro: 9 * million}}
	admitted := int64(0)
	records, views := make([]Record, n), make([]View, n)
	drain := func(i int, now int64) {
		for Take(records[i:i+1], views[i:i+1], Token, now, make([]Outcome, 1)) {
			admitted++
		}
	}
	for i := range n {
		views[i] = elastic(false, Bucket{})
		drain(i, 100*tick)
	}
	if admitted != 90*n {
		t.Fatalf("%d admitted at once, of %d", admitted, 90*n)
	}
	// Hot from now on, most of it in one region.
	for i := range n {
		share := int32(whole / 20)
		if i == 0 {
			share = whole - 2*share
		}
		views[i].Gen = 5
		records[i], _ = Apply(records[i], Change{View: views[i], Gen: 6, Share: l.Part(share, share)}, 100*tick)
		views[i].Hot, views[i].Gen, views[i].Share = true, 6, l.Part(share, share)
	}
	admitted = 0
	for s := range int64(seconds) {
		for i := range n {
			drain(i, (101+s)*tick)
		}
	}
	if want := int64(9 * seconds); admitted > want || admitted < want-n {
		t.Fatalf("%d admitted in %d s at 9 a second", admitted, seconds)
	}
}
