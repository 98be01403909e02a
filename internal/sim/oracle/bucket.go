package oracle

import (
	"aliquot/internal/prefetch"
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

const second = int64(1_000_000_000)

// Bucket is one exact token bucket for the whole world: what one key may spend. It refills in true
// time at the rate of the fastest clock that rho allows. So it admits at most C + r*sqrt(1+rho)*t
// over any time t, which is less than the promise. Times are true times, in nanoseconds.
type Bucket struct {
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
	forgiven limit.Tokens // of losses, not spent yet
	loans    []loan       // recent loans
	// allowed is what could have been spent since the beginning, in micro-tokens.
	allowed            float64
	closest, burstUsed float64
}

// NewBucket returns a full bucket, with one burst for a strict limit and one a region for an elastic
// limit.
func NewBucket(l limit.Limit, rhoPPM int32, stores, bursts int, now int64) *Bucket {
	b := &Bucket{rhoPPM: rhoPPM, stores: int64(stores), at: now}
	b.Allow(l, bursts, true, now)
	b.tokens, b.allowed = b.most, float64(b.most)/1e9
	return b
}

// Spent returns what was spent or counted so far.
func (b *Bucket) Spent() limit.Tokens { return b.spent }

// Bursts returns how many regions may hold a burst of the whole capacity.
func (b *Bucket) Bursts() int { return b.bursts }

// Left returns the whole micro-tokens that are left; below zero, how many too many were spent.
func (b *Bucket) Left() int64 { return b.tokens / second }

// Closest returns the largest part of what was allowed from the beginning to some instant that was
// spent.
func (b *Bucket) Closest() float64 { return b.closest }

// BurstUsed returns the largest part of the burst that was used beyond the rate over any interval.
func (b *Bucket) BurstUsed() float64 { return b.burstUsed }

// Count adds to what Spent returns, for a limit whose use a Book checks.
func (b *Bucket) Count(amount limit.Tokens) { b.spent += amount }

// Spend takes an amount at a true time and reports whether it was available.
func (b *Bucket) Spend(amount limit.Tokens, now int64) bool {
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

func (b *Bucket) refill(now int64) {
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

// Allow changes what may be spent. A larger limit holds at once, but what another region's bucket
// holds has to be earned. A smaller limit holds only with less. slack covers what a correct system
// may be ahead by. A store's clock shows whole microseconds, so each region can be one microsecond
// of its rate early, twice (once when a share moves away, once when it arrives). Every other
// rounding is down. Slack does not add up over time, because the errors of one clock's readings
// cancel out.
func (b *Bucket) Allow(l limit.Limit, bursts int, less bool, now int64) {
	b.refill(now)
	if !less {
		l, bursts = Larger(l, b.limit), max(bursts, b.bursts)
	}
	before := b.most
	// A client that has not used the limit has a full bucket of the larger limit too.
	b.tokens += int64(max(0, l.Capacity-b.limit.Capacity)) * int64(b.bursts) * second
	b.limit, b.bursts = l, bursts
	b.most = int64(bursts) * int64(l.Capacity) * second
	b.rate = l.Rate.Micro + l.Rate.Micro*shell.Fastest(b.rhoPPM)/second + 1
	b.slack = max(b.slack, 2*b.stores*1000*b.rate)
	b.tokens = min(b.tokens, b.most)
	b.allowed += max(0, float64(b.most-before)/1e9)
}

// Give adds tokens that were not earned, at most up to a full bucket and what it has lent.
func (b *Bucket) Give(amount limit.Tokens, now int64) {
	b.refill(now)
	amount = min(amount, b.limit.Capacity) // no bucket holds more
	b.tokens = min(b.tokens+int64(amount)*second, b.most+b.out)
	b.allowed += float64(amount)
}

// lend lets the bucket hold an additional amount for a while. The amount was borrowed, and the
// store that knew it has lost that memory.
func (b *Bucket) lend(amount limit.Tokens, now, until int64) {
	b.refill(now)
	b.out += int64(amount) * second
	b.outUntil = max(b.outUntil, until)
}

// Forgive lets the bucket spend a whole limit more, once, whenever something is missing.
func (b *Bucket) Forgive() {
	b.forgiven += b.limit.Capacity
	b.allowed += float64(b.limit.Capacity)
}

// ClockSet allows for a store's clock that was set by d nanoseconds. The store's region earns what
// the step is worth. A step back earns nothing.
func (b *Bucket) ClockSet(region int, d, now int64) {
	if d <= 0 {
		return
	}
	l := b.limit
	b.lend(b.outOf(region, now), now, now+loanLasts)
	if fill := int64(l.Capacity) * second / l.Rate.Micro; d > fill {
		b.Give(l.Capacity, now)
	} else {
		b.Give(limit.Tokens(float64(d)/1e9*float64(l.Rate.Micro))+1, now)
	}
}

// Larger returns the larger of two limits, in each part.
func Larger(a, b limit.Limit) limit.Limit {
	a.Capacity = max(a.Capacity, b.Capacity)
	if a.Rate.Min(b.Rate) == a.Rate {
		a.Rate = b.Rate
	}
	return a
}

// loan is what a store lent to a daemon, at a true time.
type loan struct {
	region int
	amount limit.Tokens
	at     int64
}

// loanLasts is longer than a loan may be spent, in true time.
const loanLasts = 2 * int64(prefetch.Life)

// Borrowed records the answer of a store that lends.
func (b *Bucket) Borrowed(region int, amount limit.Tokens, now int64) {
	old := 0
	for old < len(b.loans) && b.loans[old].at < now-loanLasts {
		old++
	}
	b.loans = append(b.loans[old:], loan{region, amount, now})
}

// outOf returns what a region's daemons may have left of what they borrowed; of a bucket, no more
// than it lent.
func (b *Bucket) outOf(region int, now int64) limit.Tokens {
	var sum limit.Tokens
	for _, l := range b.loans {
		if l.region == region && l.at >= now-loanLasts {
			sum += l.amount
		}
	}
	return min(sum, b.limit.Capacity)
}
