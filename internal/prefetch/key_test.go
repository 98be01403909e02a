package prefetch_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
)

const token = limit.Token

// desk is one key at one daemon and the record it is borrowed from. Calls take no time
// unless a test takes them apart; the store's clock shows the daemon's time.
type desk struct {
	t      *testing.T
	key    prefetch.Key
	record limit.Record
	view   limit.View
	terms  prefetch.Terms
	now    budget.Instant
	calls  int
}

// newDesk is a limit with a burst, refilled at so many tokens a second.
func newDesk(t *testing.T, burst, perSecond limit.Tokens) *desk {
	d := &desk{t: t, now: budget.Instant(time.Hour), terms: prefetch.Terms{Lends: true, Rho: 20_000}}
	d.view = limit.View{
		Floor: limit.Bucket{Cap: burst * token, Rate: limit.Rate{Micro: int64(perSecond * token)}},
		Phase: limit.Live, Until: limit.MaxExact, Stamp: 1,
	}
	return d
}

func (d *desk) us() int64 { return int64(d.now) / 1000 }

func (d *desk) pass(by time.Duration) { d.now = d.now.Add(by) }

// take is what the store makes of a call.
func (d *desk) take(cost limit.Tokens, asked limit.ChunkView) (bool, limit.Outcome) {
	d.calls++
	v := d.view
	v.Chunk = asked
	records, out := []limit.Record{d.record}, make([]limit.Outcome, 1)
	allowed := limit.Take(records, []limit.View{v}, cost, d.us(), out)
	d.record = records[0]
	return allowed, out[0]
}

// check decides one request.
func (d *desk) check(cost limit.Tokens) (allowed, asked bool) {
	d.key.CountCheck(cost, d.now)
	switch d.key.Peek(cost, d.now) {
	case prefetch.Holds:
		d.key.Spend(cost, d.now)
		return true, false
	case prefetch.Denied:
		d.key.Refuse(cost, d.now)
		return false, false
	}
	return d.bring(cost), true
}

func (d *desk) bring(cost limit.Tokens) bool {
	view, trip := d.key.Checkout(cost, d.terms, d.now)
	allowed, out := d.take(cost, view)
	d.key.Complete(trip, allowed, out, d.us(), d.now)
	return allowed
}

// serve does what is due.
func (d *desk) serve() {
	switch d.key.Due(d.now) {
	case prefetch.Renewal:
		view, trip := d.key.Renew(d.terms, d.now)
		allowed, out := d.take(0, view)
		d.key.Complete(trip, allowed, out, d.us(), d.now)
	case prefetch.Return:
		terms := d.terms
		terms.Lends = false
		view, trip := d.key.Checkout(0, terms, d.now)
		allowed, out := d.take(0, view)
		d.key.Complete(trip, allowed, out, d.us(), d.now)
	}
}

// stream asks every so often for a time, and returns what was admitted, and the calls of
// the store that it took.
func (d *desk) stream(every, forTime time.Duration) (asked, admitted, calls int) {
	before := d.calls
	for end := d.now.Add(forTime); d.now < end; d.pass(every) {
		asked++
		if allowed, _ := d.check(token); allowed {
			admitted++
		}
		d.serve()
	}
	return asked, admitted, d.calls - before
}

// borrow makes the key busy until it has a chunk.
func (d *desk) borrow() {
	d.t.Helper()
	for range 10 {
		d.check(token)
		d.pass(time.Millisecond)
	}
	if d.key.Left() == 0 || d.record.Lent == 0 {
		d.t.Fatalf("a busy key has no chunk: %+v", d.record)
	}
}

// TestKeyThatIsNotBusyBorrowsNothing: one check in a while is asked of the store, in a
// call like any other.
func TestKeyThatIsNotBusyBorrowsNothing(t *testing.T) {
	d := newDesk(t, 1000, 1000)
	for range 20 {
		d.key.CountCheck(token, d.now)
		if d.key.Peek(token, d.now) != prefetch.Ask {
			t.Fatal("decided without the store")
		}
		view, trip := d.key.Checkout(token, d.terms, d.now)
		if view != (limit.ChunkView{}) {
			t.Fatalf("the call says %+v", view)
		}
		allowed, out := d.take(token, view)
		d.key.Complete(trip, allowed, out, d.us(), d.now)
		d.pass(200 * time.Millisecond)
	}
}

// TestBusyKeyIsServedFromMemory: a thousand checks a second below the limit cost some
// twenty calls a second, and every one is admitted.
func TestBusyKeyIsServedFromMemory(t *testing.T) {
	d := newDesk(t, 2000, 2000)
	d.borrow()
	asked, admitted, calls := d.stream(time.Millisecond, 5*time.Second)
	if admitted != asked || calls > asked/20 {
		t.Errorf("%d of %d admitted in %d calls", admitted, asked, calls)
	}
}

// TestSaturatedKeyGetsAllThatIsEarned: of twice the limit, the half is admitted, to the
// token; the others are denied from memory.
func TestSaturatedKeyGetsAllThatIsEarned(t *testing.T) {
	d := newDesk(t, 100, 1000)
	d.stream(500*time.Microsecond, time.Second) // spend the burst
	held := d.record.Tokens + d.key.Left()
	asked, admitted, calls := d.stream(50*time.Microsecond, 5*time.Second)
	earned := 5000 + int((held-d.record.Tokens-d.key.Left())/token)
	if admitted < earned-1 || admitted > earned+1 {
		t.Errorf("%d of %d admitted, %d earned", admitted, asked, earned)
	}
	if calls > asked/10 {
		t.Errorf("%d calls for %d checks", calls, asked)
	}
}

// TestDenialIsTheStores: what memory denies the store would have denied at that instant,
// and it does not deny for longer than the store would, but for the time that clocks may
// differ by.
func TestDenialIsTheStores(t *testing.T) {
	d := newDesk(t, 10, 100)
	for allowed := true; allowed; allowed, _ = d.check(token) {
		d.pass(10 * time.Microsecond)
	}
	for range 50 {
		d.pass(100 * time.Microsecond)
		if d.key.Peek(token, d.now) != prefetch.Denied {
			break
		}
		record := d.record
		if allowed, _ := d.take(token, limit.ChunkView{}); allowed {
			t.Fatal("denied what the store admits")
		}
		d.record = record
		if wait := limit.Decide(limit.Limit{Capacity: 10 * token}, d.key.Outcome(d.now), token, false).RetryAfter; wait <= 0 {
			t.Fatalf("the wait is %v", wait)
		}
	}
	if d.pass(time.Millisecond); d.key.Peek(2*token, d.now) != prefetch.Denied {
		t.Error("two tokens are not there for 20 ms")
	}
	if d.pass(20 * time.Millisecond); d.key.Peek(token, d.now) != prefetch.Ask {
		t.Error("denied what has been earned")
	}
}

// TestWaitIsNeverEarly: a client that waits as told is admitted.
func TestWaitIsNeverEarly(t *testing.T) {
	d := newDesk(t, 10, 100)
	for allowed := true; allowed; allowed, _ = d.check(token) {
		d.pass(10 * time.Microsecond)
	}
	d.pass(3 * time.Millisecond)
	wait := limit.Decide(limit.Limit{Capacity: 10 * token}, d.key.Outcome(d.now), token, false).RetryAfter
	d.pass(wait)
	if allowed, _ := d.check(token); !allowed {
		t.Errorf("denied after the %v told", wait)
	}
}

// A busy key renews its chunk before that is spent or over, so its checks do not wait for the store.
func TestABusyKeyRenewsItsChunkInTime(t *testing.T) {
	for what, use := range map[string]func(d *desk){
		"nearly spent": func(d *desk) {
			for d.key.Left() > 3*token && d.key.Due(d.now) == prefetch.Nothing {
				d.check(token)
			}
		},
		"nearly over": func(d *desk) {
			for range 9 {
				d.pass(prefetch.Life / 12)
				d.check(token)
			}
		},
	} {
		d := newDesk(t, 1000, 1000)
		d.borrow()
		if use(d); d.key.Left() == 0 || d.key.Due(d.now) != prefetch.Renewal {
			t.Errorf("%s: due is %v, with %d left", what, d.key.Due(d.now), d.key.Left()/token)
		}
	}
}

// TestUnusedChunkGoesBack within half its life, whole.
func TestUnusedChunkGoesBack(t *testing.T) {
	d := newDesk(t, 1000, 1)
	d.borrow()
	held := d.record.Tokens + d.key.Left()
	d.pass(prefetch.Life / 2)
	if d.serve(); d.key.Left() != 0 || d.record.Lent != 0 || d.record.Tokens < held {
		t.Errorf("left %d here, %+v there, %d before", d.key.Left(), d.record, held)
	}
}

// TestChunkEnds: nothing is spent of it a life after the call that took it was sent, and
// before the store counts it as lost.
func TestChunkEnds(t *testing.T) {
	d := newDesk(t, 1000, 1)
	d.borrow()
	sent := d.now
	view, trip := d.key.Renew(d.terms, sent)
	d.pass(30 * time.Millisecond) // on its way
	allowed, out := d.take(0, view)
	d.key.Complete(trip, allowed, out, d.us(), d.now)
	d.now = sent.Add(prefetch.Life - time.Millisecond)
	if d.key.Peek(token, d.now) != prefetch.Holds {
		t.Error("it ended early")
	}
	d.now = sent.Add(prefetch.Life + time.Microsecond)
	if d.key.Peek(token, d.now) == prefetch.Holds {
		t.Error("spent after its life")
	}
	if d.record.LentUntil <= d.us() {
		t.Error("the store gives it up before its holder does")
	}
}

// TestChunkEndsWithTheLease that it came from.
func TestChunkEndsWithTheLease(t *testing.T) {
	d := newDesk(t, 1000, 1)
	d.terms.Until = d.now.Add(60 * time.Millisecond)
	d.borrow()
	if d.now = d.terms.Until; d.key.Peek(token, d.now) == prefetch.Holds {
		t.Error("spent after the lease")
	}
	d = newDesk(t, 1000, 1)
	d.terms.Until = d.now.Add(prefetch.Life / 5)
	for range 10 {
		d.check(token)
	}
	if d.key.Left() != 0 {
		t.Error("borrowed for the last moments of a lease")
	}
}

// TestDenialIsDecidedOnAllThereIs: a cost that neither the chunk nor the record holds
// alone is admitted by a call that brings the chunk back.
func TestDenialIsDecidedOnAllThereIs(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.borrow()
	all := d.record.Tokens + d.key.Left()
	cost := all / token * token
	if cost <= d.record.Tokens || cost <= d.key.Left() {
		t.Fatalf("%d of %d", cost, all)
	}
	if allowed, asked := d.check(cost); !allowed || !asked {
		t.Errorf("%d tokens were denied, %d are here and there", cost/token, all/token)
	}
}

// TestOneCallAsksForAChunk: the others leave the record to those that they decide.
func TestOneCallAsksForAChunk(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.key.CountCheck(token, d.now)
	d.key.CountCheck(token, d.now)
	first, trip := d.key.Checkout(token, d.terms, d.now)
	second, other := d.key.Checkout(token, d.terms, d.now)
	if first.Want == 0 || second.Want != 0 {
		t.Errorf("%+v, %+v", first, second)
	}
	d.key.Fail(other)
	d.key.Fail(trip)
	if third, _ := d.key.Checkout(token, d.terms, d.now); third.Want == 0 {
		t.Error("nothing is asked for any more after a call that failed")
	}
}

// TestPartsOfCallsUnderWayAreNotCountedTwice: a renewal keeps what is left, and a check
// that goes to the store meanwhile does not speak of it.
func TestPartsOfCallsUnderWayAreNotCountedTwice(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.borrow()
	renewal, trip := d.key.Renew(d.terms, d.now)
	if view, _ := d.key.Checkout(50*token, d.terms, d.now); view != (limit.ChunkView{}) {
		t.Errorf("two calls speak of one chunk: %+v and %+v", renewal, view)
	}
	d.check(token) // goes on being served
	before := d.key.Left()
	allowed, out := d.take(0, renewal)
	d.key.Complete(trip, allowed, out, d.us(), d.now)
	if d.key.Left() != before+out.Lent || d.record.Lent < d.key.Left() {
		t.Errorf("%d left, %d before, %d granted; the store counts %d", d.key.Left(), before, out.Lent, d.record.Lent)
	}
}

// TestLostCall: of a renewal whose answer is lost what is kept can still be spent and
// brought back; of a call that brought a chunk back nothing is left here. Neither makes
// tokens, whether the store made the call or not.
func TestLostCall(t *testing.T) {
	for _, made := range []bool{false, true} {
		d := newDesk(t, 100, 1)
		d.borrow()
		kept := d.key.Left()
		all := d.record.Tokens + kept
		view, trip := d.key.Renew(d.terms, d.now)
		if made {
			d.take(0, view)
		}
		if d.key.Fail(trip); d.key.Left() != kept || d.key.Peek(token, d.now) != prefetch.Holds {
			t.Errorf("made %t: %d left of %d", made, d.key.Left(), kept)
		}
		view, trip = d.key.Checkout(token, d.terms, d.now)
		if made {
			d.take(token, view)
		}
		if d.key.Fail(trip); d.key.Left() != 0 || d.key.Peek(token, d.now) == prefetch.Holds {
			t.Errorf("made %t: %d left of what was brought back", made, d.key.Left())
		}
		d.pass(time.Millisecond)
		d.bring(token)
		if now := d.record.Tokens + d.key.Left(); now > all {
			t.Errorf("made %t: %d tokens were %d", made, now, all)
		}
	}
}

// TestALoanIsReturnedAsItWasLent: of ten tokens that the store lends, four were spent without the chunk before its answer
// came. Six may be spent, and the next call ends the whole loan, so that the record can fill up.
func TestALoanIsReturnedAsItWasLent(t *testing.T) {
	for spent, back := range map[limit.Tokens]limit.Tokens{0: 10, 4: 6, 10: 0} {
		d := newDesk(t, 100, 1)
		d.key.CountChecks(token, 10, d.now)
		view, trip := d.key.Checkout(0, d.terms, d.now)
		if view.Want == 0 {
			t.Fatal("nothing is asked for")
		}
		view.Want, view.Least = 10*token, token
		allowed, out := d.take(0, view)
		out.Lent -= spent * token
		d.key.Complete(trip.Spent(spent*token), allowed, out, d.us(), d.now)
		if left := d.key.Left(); left != back*token {
			t.Errorf("%d spent: %d left of the chunk, want %d", spent, left/token, back)
		}
		view, trip = d.key.Checkout(0, prefetch.Terms{}, d.now)
		if view.Was != 10*token || view.Back != back*token {
			t.Errorf("%d spent: %d returned of a loan of %d, want %d of 10", spent, view.Back/token, view.Was/token, back)
		}
		allowed, out = d.take(0, view)
		if d.key.Complete(trip, allowed, out, d.us(), d.now); d.record.Lent != 0 || d.record.Tokens != (90+back)*token {
			t.Errorf("%d spent: the record has %d and lends %d, want %d and 0", spent, d.record.Tokens/token, d.record.Lent/token, 90+back)
		}
	}
}

// TestEndedChunkIsBroughtBack, whole: another share is in force, and nothing is spent, or
// denied, by what was known before.
func TestEndedChunkIsBroughtBack(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.borrow()
	held := d.record.Tokens + d.key.Left()
	d.key.End()
	if d.key.Peek(token, d.now) != prefetch.Ask || d.key.Due(d.now) != prefetch.Return {
		t.Errorf("%v, due %v", d.key.Peek(token, d.now), d.key.Due(d.now))
	}
	if d.serve(); d.record.Tokens < held || d.record.Lent != 0 {
		t.Errorf("%+v of %d", d.record, held)
	}
}

// TestGrantThatComesLate: asked for before the end, it is brought back and not spent.
func TestGrantThatComesLate(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.key.CountCheck(token, d.now)
	d.key.CountCheck(token, d.now)
	view, trip := d.key.Checkout(token, d.terms, d.now)
	d.key.End()
	allowed, out := d.take(token, view)
	d.key.Complete(trip, allowed, out, d.us(), d.now)
	if out.Lent == 0 || d.key.Peek(token, d.now) == prefetch.Holds || d.key.Due(d.now) != prefetch.Return {
		t.Errorf("lent %d: %v, due %v", out.Lent, d.key.Peek(token, d.now), d.key.Due(d.now))
	}
	if d.serve(); d.record.Lent != 0 {
		t.Errorf("%+v", d.record)
	}
}

// TestOtherContents: what was taken from the ones before is void, also if it comes late.
func TestOtherContents(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.borrow()
	view, trip := d.key.Renew(d.terms, d.now)
	d.key.Drop()
	allowed, out := d.take(0, view)
	d.key.Complete(trip, allowed, out, d.us(), d.now)
	if view, _ := d.key.Checkout(0, prefetch.Terms{}, d.now); d.key.Left() != 0 || view != (limit.ChunkView{}) {
		t.Errorf("%d left, %+v brought back", d.key.Left(), view)
	}
}

// TestUseIsTold: everything that was decided here, once.
func TestUseIsTold(t *testing.T) {
	d := newDesk(t, 100, 1)
	d.borrow()
	d.key.TakeCounts()
	d.check(token)
	d.check(2 * token)
	d.record.Tokens = 0
	for range 200 {
		d.check(token)
	}
	admitted, denied := d.key.TakeCounts()
	if admitted < 3*token || denied == 0 || (admitted+denied)%token != 0 {
		t.Errorf("%d admitted, %d denied", admitted, denied)
	}
	if a, b := d.key.TakeCounts(); a != 0 || b != 0 {
		t.Errorf("told twice: %d, %d", a, b)
	}
}

// TestDenialsOfWindows: what a window denied it denies until the time told, and never a
// slot, which is released when its holder says so.
func TestDenialsOfWindows(t *testing.T) {
	now := budget.Instant(time.Hour)
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingLog, limit.Concurrency} {
		var k prefetch.Key
		_, trip := k.Checkout(3*token, prefetch.Terms{Algorithm: algorithm}, now)
		k.Complete(trip, false, limit.Outcome{Tokens: 2 * token, Retry: 40_000, Reset: 80_000}, 1, now)
		remembered := algorithm != limit.Concurrency
		for _, c := range []struct {
			after  time.Duration
			cost   limit.Tokens
			denied bool
		}{
			{10 * time.Millisecond, 3 * token, remembered},
			{10 * time.Millisecond, 4 * token, remembered},
			{10 * time.Millisecond, 2 * token, false},
			{41 * time.Millisecond, 3 * token, false},
		} {
			if got := k.Peek(c.cost, now.Add(c.after)) == prefetch.Denied; got != c.denied {
				t.Errorf("%v: %d after %v denied: %t", algorithm, c.cost, c.after, got)
			}
		}
	}
}

// TestLookAllocatesNothing, nor does what follows it.
func TestLookAllocatesNothing(t *testing.T) {
	d := newDesk(t, 1_000_000, 1_000_000)
	for range 1000 {
		d.check(token)
		d.pass(10 * time.Microsecond)
		d.serve()
	}
	if n := testing.AllocsPerRun(100, func() {
		d.key.CountCheck(token, d.now)
		if d.key.Peek(token, d.now) == prefetch.Holds {
			d.key.Spend(token, d.now)
			_ = d.key.Outcome(d.now)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
