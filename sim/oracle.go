package sim

import (
	"fmt"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/sim/shell"
)

// ideal is one exact token bucket for the whole world: what one key may spend. It
// refills in true time at the rate of the fastest clock that rho allows, so it
// admits at most C + r*sqrt(1+rho)*t over any time t: less than the promise.
type ideal struct {
	limit  limit.Limit // in force
	bursts int         // how many regions may hold a burst of the whole capacity
	tokens int64       // in 1e-9 micro-tokens
	most   int64
	rate   int64 // micro-tokens a second, which is 1e-9 micro-tokens a nanosecond
	slack  int64
	stores int64
	rhoPPM int32
	at     int64
	// out is what the bucket may hold above most, up to a true time.
	out      int64
	outUntil int64
	spent    limit.Tokens
	// allowed is what could have been spent since the beginning, micro-tokens.
	allowed            float64
	closest, burstUsed float64 // as in Result
}

// newIdeal starts full, with one burst for a strict limit and one a region for an
// elastic one.
func newIdeal(l limit.Limit, rhoPPM int32, stores, bursts int, now int64) ideal {
	b := ideal{rhoPPM: rhoPPM, stores: int64(stores), at: now}
	b.allow(l, bursts, true, now)
	b.tokens, b.allowed = b.most, float64(b.most)/1e9
	return b
}

// allow changes what may be spent: to more at once, but what another region's bucket
// holds has to be earned; to less only if told so. slack pays for what a correct system may
// be ahead by: a store's clock shows whole microseconds, so each region can be one
// microsecond of its rate early, twice (once when a share moves away, once when it
// arrives). Every other rounding is down. Slack does not add up over time, because
// the errors of one clock's readings cancel out.
func (b *ideal) allow(l limit.Limit, bursts int, less bool, now int64) {
	b.refill(now)
	if !less {
		l, bursts = larger(l, b.limit), max(bursts, b.bursts)
	} else if bursts < b.bursts {
		// Regions have left. What they lent may be all of C in one of the others, beside
		// what each has set apart.
		bursts = min(bursts+1, b.bursts)
	}
	before := b.most
	// Whoever has not used the limit has a full bucket of the larger one too.
	b.tokens += int64(max(0, l.Capacity-b.limit.Capacity)) * int64(b.bursts) * second
	b.limit, b.bursts = l, bursts
	b.most = int64(bursts) * int64(l.Capacity) * second
	b.rate = l.Rate.Micro + l.Rate.Micro*shell.Fastest(b.rhoPPM)/second + 1
	b.slack = max(b.slack, 2*b.stores*1000*b.rate)
	b.tokens = min(b.tokens, b.most)
	b.allowed += max(0, float64(b.most-before)/1e9)
}

// give adds tokens that were not earned, up to a full bucket and what is out of it.
func (b *ideal) give(amount limit.Tokens, now int64) {
	b.refill(now)
	amount = min(amount, b.limit.Capacity) // more than that no bucket holds
	b.tokens = min(b.tokens+int64(amount)*second, b.most+b.out)
	b.allowed += float64(amount)
}

// lent lets the bucket hold an amount more for a while: it was taken in advance, and the
// store that knows so was made to forget it.
func (b *ideal) lent(amount limit.Tokens, now, until int64) {
	b.refill(now)
	b.out += int64(amount) * second
	b.outUntil = max(b.outUntil, until)
}

// spend takes an amount at a true time and reports whether it was there.
func (b *ideal) spend(amount limit.Tokens, now int64) bool {
	b.refill(now)
	b.tokens -= int64(amount) * second
	b.spent += amount
	b.closest = max(b.closest, float64(b.spent)/(b.allowed+float64(b.slack)/1e9))
	b.burstUsed = max(b.burstUsed, float64(b.most-b.tokens)/float64(b.most+b.slack))
	return b.tokens >= -b.slack
}

func (b *ideal) refill(now int64) {
	dt := now - b.at
	b.allowed += float64(dt) * float64(b.rate) / 1e9
	if now > b.outUntil {
		b.out = 0
	}
	if most := b.most + b.out; b.rate == 0 || dt > (most-b.tokens)/b.rate {
		b.tokens = most
	} else {
		b.tokens += dt * b.rate
	}
	b.at = now
}

// admit counts what a store admitted.
func (w *world) admit(r *rule, region int, amount limit.Tokens, slots []uint64) {
	w.admitted += int64(amount / limit.Token)
	r.got[region] += amount
	w.note("admitted", region, int64(r.key.Rule), int64(amount/limit.Token), r.ideal.tokens/second, 0)
	if r.book != nil {
		r.ideal.spent += amount
		w.admitCounted(r, region, amount, slots)
		return
	}
	if w.forgives(region) {
		r.ideal.give(amount, w.now)
	}
	if !r.ideal.spend(amount, w.now) {
		w.violate("key %d: %d micro-tokens more admitted than %s + r(1+rho)t", r.key.Rule, -r.ideal.tokens/second, r.burst())
	}
}

// sampleEvery is how many events pass between two looks at a key that nothing has
// touched.
const sampleEvery = 16

// suspectAll has every key checked after the present event.
func (w *world) suspectAll() {
	w.suspects = true
	for _, r := range w.rules {
		r.suspect = true
	}
}

// suspects has a key checked after the present event.
func (r *rule) suspects() { r.w.suspects, r.suspect = true, true }

// checkShares is I1: what the stores would enforce at this instant, for whichever
// daemon of each region asked, sums to at most the limit.
//
// It looks at a key after whatever can raise what is enforced of it: a share that is
// applied, an answer that a machine takes in, a daemon that starts or wakes up, store
// contents that change, a phase that begins. A take raises nothing: it writes down
// what Settle says, which is what would have been enforced without it. Time raises
// something in two places only, when a daemon's phase becomes the floor's and when
// its store agrees; the second, and whatever this list forgets, is what the sample
// in turn is for: what is too much then stays so for seconds.
func (w *world) checkShares() {
	switch {
	case w.suspects:
		w.suspects = false
		for _, r := range w.rules {
			if r.suspect {
				r.suspect = false
				w.checkKey(r)
			}
		}
	case w.events%sampleEvery == 0:
		w.turn = (w.turn + 1) % len(w.rules)
		w.checkKey(w.rules[w.turn])
	}
}

// checkKey sums parts of the limit, each of the limit by the rules that the region's
// daemon has.
func (w *world) checkKey(r *rule) {
	if r.book != nil {
		w.checkRights(r)
		return
	}
	var bursts, rates float64
	for i := range w.stores {
		b := w.enforced(i, r)
		bursts, rates = bursts+b.burst, rates+b.rate
	}
	// Every part is rounded down in whole micro-tokens, and once more by float64.
	if most := 1 + 1e-12; bursts > most || rates > most {
		w.violate("I1, key %d: regions enforce %.9f of the burst and %.9f of the rate", r.key.Rule, bursts, rates)
	}
}

// part is a part of a limit.
type part struct{ burst, rate float64 }

func partOf(b limit.Bucket, l limit.Limit) part {
	p := part{burst: float64(b.Cap) / float64(l.Capacity)}
	if !l.Algorithm.Counts() {
		p.rate = (float64(b.Rate.Micro) + float64(b.Rate.Frac)/1e6) / float64(l.Rate.Micro)
	}
	return p
}

// enforced is the most that any daemon of a region could make its store enforce. One whose
// calls the store would refuse, because its clock was set forward since that daemon read
// it, enforces nothing until it has been refused and has read it anew.
func (w *world) enforced(region int, r *rule) part {
	var most part
	s := w.stores[region]
	for _, n := range w.nodes {
		if n.region != region || n.dead || n.paused() || n.forgiven() || n.epoch == "" || n.epoch != s.epoch || s.promoted() || !n.configured() || n.staleFloors() || !r.inForce(n.version) {
			continue
		}
		l := r.at(n.version, n.wall())
		v := n.view(n.machine.Right(r.key, r.keyLimit(l), n.now()), r, l)
		if n.refused() {
			continue
		}
		v.Heard = s.heardBy(&v)
		record := s.get(r)
		_, b, _ := limit.Settle(record, v, s.time())
		if record.Hot && !(v.Hot && v.Gen == record.Gen) {
			// The record's share may be one of another limit than this daemon's.
			l = larger(l, s.records[r.index].limit)
		}
		p := partOf(b, l)
		most.burst, most.rate = max(most.burst, p.burst), max(most.rate, p.rate)
	}
	return most
}

// checkLedger is I1 on record.
func (w *world) checkLedger() {
	for _, k := range w.ledger.Keys() {
		var sum budget.Share
		for _, s := range w.ledger.Shares(k) {
			sum = sum.Add(s)
		}
		if !sum.Within(budget.Share{Rate: budget.Unit, Burst: budget.Unit}) {
			w.violate("I1, key %d: liabilities sum to %v", k.Rule, sum)
		}
	}
}

func (w *world) violate(format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{Seed: w.seed, At: duration(w.now), What: fmt.Sprintf(format, args...)}
	}
}
