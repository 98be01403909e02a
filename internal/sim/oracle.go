package sim

import (
	"fmt"

	"aliquot/limit"
)

// ideal is one exact token bucket for the whole world: what one key may spend. It refills in true
// time at the rate of the fastest clock that rho allows. So it admits at most C + r*sqrt(1+rho)*t
// over any time t, which is less than the promise.
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
	// out is what the bucket may hold above most, up to the true time outUntil.
	out      int64
	outUntil int64
	spent    limit.Tokens
	forgiven limit.Tokens // of losses, not spent yet; see world.lost
	loans    []loan       // recent loans
	// allowed is what could have been spent since the beginning, in micro-tokens.
	allowed            float64
	closest, burstUsed float64 // as in Result
}

// newIdeal returns a full bucket, with one burst for a strict limit and one a region for an elastic
// limit.
func newIdeal(l limit.Limit, rhoPPM int32, stores, bursts int, now int64) ideal {
	b := ideal{rhoPPM: rhoPPM, stores: int64(stores), at: now}
	b.allow(l, bursts, true, now)
	b.tokens, b.allowed = b.most, float64(b.most)/1e9
	return b
}

// spend takes an amount at a true time and reports whether it was available.
func (b *ideal) spend(amount limit.Tokens, now int64) bool {
	b.refill(now)
	b.tokens -= int64(amount) * second
	b.spent += amount
	if missing := (-b.slack - b.tokens + second - 1) / second; missing > 0 {
		part := min(limit.Tokens(missing), b.forgiven)
		b.tokens, b.forgiven = b.tokens+int64(part)*second, b.forgiven-part
	}
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
		return
	}
	if !r.ideal.spend(amount, w.now) {
		w.violate("key %d: %d micro-tokens more admitted than %s + r(1+rho)t", r.key.Rule, -r.ideal.tokens/second, r.burst())
	}
}

func (w *world) violate(format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{Seed: w.seed, At: duration(w.now), What: fmt.Sprintf(format, args...)}
	}
}
