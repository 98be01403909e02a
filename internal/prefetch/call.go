package prefetch

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

const million = 1_000_000

// Terms say what a call that is about to leave may ask for.
type Terms struct {
	Algorithm limit.Algorithm
	// Lends: the limit is a bucket whose rule allows chunks, the region is not in limbo, and every
	// limit of the check is busy.
	Lends bool
	// Rho bounds the drift of clocks, in millionths.
	Rho int64
	// Until is the end of the lease behind the right to spend; 0 if there is none.
	Until budget.Instant
}

// Call is one call in flight, as the key has to remember it. Exactly one of Complete, Fail and
// NotExecuted ends it.
type Call struct {
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
	spent       limit.Tokens // see Spent
}

// Spent returns the call with what was spent without the chunk of what it brings: the store has lent that
// much more than the answer for Complete has as lent.
func (t Call) Spent(spent limit.Tokens) Call {
	t.spent = spent
	return t
}

// Checkout prepares a call that decides a cost, or that decides nothing (0). The call returns the
// whole chunk, so that the store decides on everything there is. What a renewal in flight keeps
// stays here.
func (k *Key) Checkout(cost limit.Tokens, t Terms, now budget.Instant) (limit.ChunkView, Call) {
	call := k.call(cost, t, now)
	if k.renewing {
		return limit.ChunkView{}, call
	}
	call.back = min(k.left, k.out)
	view := limit.ChunkView{Was: k.out, Back: call.back, Until: k.until}
	k.left, k.out = 0, 0
	k.carried += call.back
	call.wants = k.ask(&view, t, now)
	return view, call
}

// Renew prepares a call that keeps the chunk and asks for more. Checks continue meanwhile.
func (k *Key) Renew(t Terms, now budget.Instant) (limit.ChunkView, Call) {
	call := k.call(0, t, now)
	call.renews, call.keep = true, min(k.left, k.out)
	view := limit.ChunkView{Was: k.out, Keep: call.keep, Until: k.until}
	k.out, k.renewing = 0, true
	call.wants = k.ask(&view, t, now)
	return view, call
}

func (k *Key) call(cost limit.Tokens, t Terms, now budget.Instant) Call {
	k.calls++
	return Call{
		cost: cost, algorithm: t.Algorithm, sent: now, rho: t.Rho, leaseEnd: t.Until, turn: k.turn, drops: k.drops,
		forgets: k.forgets,
	}
}

// ask adds what the key wants to borrow, and reports whether that is anything. It wants what the
// key uses in a chunk's life and a quarter more, at least two checks' worth. It wants no more than
// a quarter of what the store has, because no check can be admitted by tokens in flight. Only one
// call at a time asks, or many at once would take all there is. None asks so shortly before the
// lease ends that a chunk would not last.
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
	// By the store's clock the chunk ends a little later than by this daemon's, whatever the clocks
	// do.
	view.Life = stretched(Life, t.Rho)
	k.wanting = true
	return true
}

// arrived releases what a call in flight holds up.
func (k *Key) arrived(t *Call) {
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

// Complete applies the answer to a call. storeNow is the store's clock at the answer, in microseconds.
// received is when the answer arrived.
func (k *Key) Complete(t Call, allowed bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	k.arrived(&t)
	if t.drops != k.drops {
		return // of contents that no longer exist
	}
	if t.turn == k.turn {
		k.reply.record(&t, allowed, t.forgets == k.forgets, out, storeNow, received)
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
	k.out += t.keep + out.Lent + t.spent
	switch {
	case out.LentUntil == 0:
	case t.turn != k.turn:
		k.tookLate(&t, &out)
	default:
		k.lend(&t, &out, received)
	}
}

// lend adds what the store has lent, or has left here for some more time.
func (k *Key) lend(t *Call, out *limit.Outcome, received budget.Instant) {
	end := t.sent.Add(shrunk(out.LentFor, t.rho))
	if t.leaseEnd != 0 {
		end = min(end, t.leaseEnd)
	}
	if !t.renews && out.LentUntil > k.until {
		// The store has begun another loan, so the previous one is over. What an unmade call
		// returned here of that loan is no longer lent.
		k.lose(k.left)
		k.left, k.out = 0, out.Lent+t.spent
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

// tookLate handles a grant that was made before the present share or session was known. It can be
// returned, unless there is a later chunk already.
func (k *Key) tookLate(t *Call, out *limit.Outcome) {
	if k.live {
		k.out -= min(k.out, out.Lent+t.spent)
		return
	}
	k.left += out.Lent
	k.end, k.until = t.sent.Add(Life), out.LentUntil
}

// Fail ends a call of which it is unknown whether the store has made it. What it returned may not
// have arrived or counted. What it kept still counts as this daemon's.
func (k *Key) Fail(t Call) {
	k.arrived(&t)
	k.lose(t.back)
	if t.drops == k.drops {
		k.out += t.keep
	}
}

// NotExecuted ends a call, prepared as view, that the store has certainly not made. The tokens it took
// along are here again, unless their loan is over.
func (k *Key) NotExecuted(t Call, view limit.ChunkView) {
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

// End stops the key from being decided here, because its share, the session, the rules or the
// configuration changed. What is left can be returned, and is due for it.
func (k *Key) End() {
	k.turn++
	k.live, k.reply = false, lastReply{}
}

// Drop is End for a store whose contents have changed: what was borrowed from the earlier contents
// is void.
func (k *Key) Drop() {
	k.End()
	k.drops++
	k.left, k.out, k.until, k.end = 0, 0, 0, 0
}

// Forget discards remembered denials, including those that calls in flight bring. Tokens were given
// back, before or after the store decided those calls.
func (k *Key) Forget() {
	k.forgets++
	k.reply.denied = false
}

// stretched returns a duration in microseconds of a clock that may be faster by rho.
func stretched(d time.Duration, rho int64) int64 {
	us := d.Microseconds()
	return us + (us*rho+million-1)/million + 1
}

// shrunk returns the longest time here in which a clock that may be faster by rho shows at most us
// microseconds.
func shrunk(us, rho int64) time.Duration {
	return time.Duration(max(us-1, 0)*million/(million+rho)) * time.Microsecond
}
