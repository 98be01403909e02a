package chunk

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

const million = 1_000_000

// Terms are what a call that is about to leave may ask for.
type Terms struct {
	Algorithm limit.Algorithm
	// Lends: the limit is a bucket whose rule allows chunks, the region is not in limbo,
	// and every limit of the check is busy.
	Lends bool
	// Rho is the bound on the drift of clocks, in millionths.
	Rho int64
	// Until is the end of the lease that the right to spend comes from; 0 if it has none.
	Until budget.Instant
}

// Trip is one call under way, as the key has to remember it. It is ended by Took or
// Lost, once.
type Trip struct {
	cost        limit.Tokens
	algorithm   limit.Algorithm
	sent        budget.Instant
	rho         int64
	leaseEnd    budget.Instant
	back, keep  limit.Tokens
	renews      bool
	wants       bool
	turn, drops uint32
	forgets     uint32
}

// Bring words a call that decides a cost, or that decides nothing (0). All that is left
// goes with it, so that the store decides on everything there is. What a renewal under
// way keeps stays here.
func (k *Key) Bring(cost limit.Tokens, t Terms, now budget.Instant) (limit.ChunkView, Trip) {
	trip := k.trip(cost, t, now)
	if k.renewing {
		return limit.ChunkView{}, trip
	}
	trip.back = min(k.left, k.out)
	view := limit.ChunkView{Was: k.out, Back: trip.back, Until: k.until}
	k.left, k.out = 0, 0
	k.carried += trip.back
	trip.wants = k.ask(&view, t, now)
	return view, trip
}

// Renew words a call that keeps what is left and asks for more; checks go on meanwhile.
func (k *Key) Renew(t Terms, now budget.Instant) (limit.ChunkView, Trip) {
	trip := k.trip(0, t, now)
	trip.renews, trip.keep = true, min(k.left, k.out)
	view := limit.ChunkView{Was: k.out, Keep: trip.keep, Until: k.until}
	k.out, k.renewing = 0, true
	trip.wants = k.ask(&view, t, now)
	return view, trip
}

func (k *Key) trip(cost limit.Tokens, t Terms, now budget.Instant) Trip {
	k.calls++
	return Trip{
		cost: cost, algorithm: t.Algorithm, sent: now, rho: t.Rho, leaseEnd: t.Until, turn: k.turn, drops: k.drops,
		forgets: k.forgets,
	}
}

// ask adds what is wanted, and reports whether that is anything: what the key uses in a
// chunk's life and a quarter more, and two checks' worth at least; but no more than a
// quarter of what the store has, for what is on its way here nobody can be admitted by.
// One call at a time asks, or many at once would take all there is; and none so shortly
// before the lease ends that a chunk would not last.
func (k *Key) ask(view *limit.ChunkView, t Terms, now budget.Instant) bool {
	if view.Was == 0 {
		*view = limit.ChunkView{}
	}
	if !t.Lends || k.wanting || !k.Busy(now) || t.Until != 0 && t.Until.Sub(now) < Life/4 {
		return false
	}
	use, least := k.meter.inLife(), max(2*k.meter.lastCost, 1)
	want := min(max(use+use/4, least), limit.MaxTokens)
	if k.Known(now) {
		want = min(want, k.Outcome(now).Tokens/4)
	}
	if want < least {
		return false
	}
	view.Want, view.Least = want, least
	// The store has it end a little later than this daemon, whatever their clocks do.
	view.Life = stretched(Life, t.Rho)
	k.wanting = true
	return true
}

// arrived ends what a call under way holds up.
func (k *Key) arrived(t *Trip) {
	k.calls--
	if t.renews {
		k.renewing = false
	} else {
		k.carried -= t.back
	}
	if t.wants {
		k.wanting = false
	}
}

// Took takes the answer to a call: storeNow is the store's clock then, microseconds,
// received when it was here.
func (k *Key) Took(t Trip, allowed bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	k.arrived(&t)
	if t.drops != k.drops {
		return // of contents that are no more
	}
	if t.turn == k.turn {
		k.said.take(&t, allowed, t.forgets == k.forgets, out, storeNow, received)
	}
	if !out.Kept {
		k.lose(t.back + t.keep)
	}
	if t.renews {
		k.again = received
		if !out.Kept {
			k.left, t.keep = 0, 0
		}
	}
	k.out += t.keep + out.Lent
	switch {
	case out.LentUntil == 0:
	case t.turn != k.turn:
		k.tookLate(&t, &out)
	default:
		k.lend(&t, &out, received)
	}
}

// lend takes what the store has lent, or left here for a time yet.
func (k *Key) lend(t *Trip, out *limit.Outcome, received budget.Instant) {
	end := t.sent.Add(shrunk(out.LentFor, t.rho))
	if t.leaseEnd != 0 {
		end = min(end, t.leaseEnd)
	}
	if !t.renews && out.LentUntil > k.until {
		// The store has begun another loan, so the one before was over: what came back here of that, with
		// a call that was not made, is lent no more.
		k.lose(k.left)
		k.left, k.out = 0, out.Lent
	}
	if k.live {
		end = max(end, k.end)
	}
	k.live, k.end, k.until = true, end, out.LentUntil
	if out.Lent > 0 {
		k.left += out.Lent
		k.size, k.used, k.again = k.left, received, 0
	}
}

// tookLate takes what was granted before the present share, or session, was known: it
// can be brought back, if there is not a later chunk already.
func (k *Key) tookLate(t *Trip, out *limit.Outcome) {
	if k.live {
		k.out -= min(k.out, out.Lent)
		return
	}
	k.left += out.Lent
	k.end, k.until = t.sent.Add(Life), out.LentUntil
}

// Lost ends a call of which nobody knows whether the store has made it. What it brought
// back may not have arrived, or counted; what it kept is still counted as this daemon's.
func (k *Key) Lost(t Trip) {
	k.arrived(&t)
	k.lose(t.back)
	if t.drops == k.drops {
		k.out += t.keep
	}
}

// Unmade ends a call that the store has certainly not made, worded as view: what it took
// along is here again, unless the loan that it is of is over.
func (k *Key) Unmade(t Trip, view limit.ChunkView) {
	k.arrived(&t)
	switch {
	case t.drops != k.drops:
	case view.Until != k.until:
		k.lose(t.back)
	default:
		k.out += view.Was
		k.left += t.back
	}
}

// End stops the key from being decided here: its share, the session, the rules or the
// configuration are others. What is left can be brought back, and is due for it.
func (k *Key) End() {
	k.turn++
	k.live, k.said = false, said{}
}

// Drop is End where the store has other contents now: what was taken from the ones
// before is void.
func (k *Key) Drop() {
	k.End()
	k.drops++
	k.left, k.out, k.until, k.end = 0, 0, 0, 0
}

// Forget ends the memory of denials, and those that calls under way bring are not
// remembered: something was given back, before or after the store decided them.
func (k *Key) Forget() {
	k.forgets++
	k.said.denied = false
}

// stretched is a time in microseconds of a clock that may be faster by rho.
func stretched(d time.Duration, rho int64) int64 {
	us := d.Microseconds()
	return us + (us*rho+million-1)/million + 1
}

// shrunk is the time here in which a clock that may be faster by rho shows us
// microseconds at the most.
func shrunk(us, rho int64) time.Duration {
	return time.Duration(max(us-1, 0)*million/(million+rho)) * time.Microsecond
}
