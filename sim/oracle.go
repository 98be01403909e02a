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
	tokens int64 // in 1e-9 micro-tokens
	most   int64
	rate   int64 // micro-tokens a second, which is 1e-9 micro-tokens a nanosecond
	slack  int64
	at     int64
	spent  limit.Tokens
	// allowed is what could have been spent since the beginning, micro-tokens.
	allowed            float64
	closest, burstUsed float64 // as in Result
}

// newIdeal starts full, with one burst for a strict limit and one a region for an
// elastic one. slack pays for what a correct system may be ahead by: a
// store's clock shows whole microseconds, so each region can be one microsecond of
// its rate early, twice (once when a share moves away, once when it arrives). Every
// other rounding is down. Slack does not add up over time, because the errors of
// one clock's readings cancel out.
func newIdeal(l limit.Limit, rhoPPM int32, regions, bursts int) ideal {
	most := int64(bursts) * int64(l.Capacity) * second
	rate := l.Rate.Micro + l.Rate.Micro*shell.Fastest(rhoPPM)/second + 1
	return ideal{
		tokens: most, most: most, rate: rate, allowed: float64(most) / 1e9,
		slack: int64(2*regions) * 1000 * rate,
	}
}

// grow adds an empty bucket of the given capacity, micro-tokens.
func (b *ideal) grow(capacity, now int64) {
	b.refill(now)
	b.most += capacity * second
	b.allowed += float64(capacity)
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
	b.allowed += float64(now-b.at) * float64(b.rate) / 1e9
	if dt := now - b.at; dt > (b.most-b.tokens)/b.rate {
		b.tokens = b.most
	} else {
		b.tokens += dt * b.rate
	}
	b.at = now
}

// admit counts what a store admitted.
func (w *world) admit(c *client, region int, amount limit.Tokens) {
	w.admitted += int64(amount / limit.Token)
	c.got[region] += amount
	w.note("admitted", region, int64(c.key.Rule), int64(amount/limit.Token), c.ideal.tokens/second, 0)
	if !c.ideal.spend(amount, w.now) {
		w.violate("key %d: %d micro-tokens more admitted than %s + r(1+rho)t", c.key.Rule, -c.ideal.tokens/second, c.burst())
	}
}

// sampleEvery is how many events pass between two looks at a key that nothing has
// touched.
const sampleEvery = 16

// suspectAll has every key checked after the present event.
func (w *world) suspectAll() {
	w.suspects = true
	for _, c := range w.clients {
		c.suspect = true
	}
}

// suspects has a key checked after the present event.
func (c *client) suspects() { c.w.suspects, c.suspect = true, true }

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
		for _, c := range w.clients {
			if c.suspect {
				c.suspect = false
				w.checkKey(c)
			}
		}
	case w.events%sampleEvery == 0:
		w.turn = (w.turn + 1) % len(w.clients)
		w.checkKey(w.clients[w.turn])
	}
}

func (w *world) checkKey(c *client) {
	var all limit.Bucket
	for i := range w.stores {
		b := w.enforced(i, c)
		all.Cap += b.Cap
		all.Rate.Micro += b.Rate.Micro
		all.Rate.Frac += b.Rate.Frac
	}
	rate := all.Rate.Micro*million + all.Rate.Frac
	if all.Cap > c.limit.Capacity || rate > c.limit.Rate.Micro*million {
		w.violate("I1, key %d: regions enforce a burst of %d of %d and a rate of %d of %d micro-tokens",
			c.key.Rule, all.Cap, c.limit.Capacity, rate/million, c.limit.Rate.Micro)
	}
}

// enforced is the most that any daemon of a region could make its store enforce.
func (w *world) enforced(region int, c *client) limit.Bucket {
	var most limit.Bucket
	s := w.stores[region]
	for _, n := range w.nodes {
		if n.region != region || n.dead || n.paused() || n.epoch == "" || n.epoch != s.epoch || !n.configured() || n.staleFloors() {
			continue
		}
		v := n.view(n.machine.Right(c.key, c.keyLimit(), n.now()), c)
		v.Heard = s.heardBy(&v)
		_, b, _ := limit.Settle(s.get(c), v, s.time())
		most.Cap = max(most.Cap, b.Cap)
		if most.Rate.Min(b.Rate) == most.Rate {
			most.Rate = b.Rate
		}
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
