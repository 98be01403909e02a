package chunk

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// What the store last said of a key holds for a while: a bucket earns at a rate that is
// known, and nothing else adds to it but what ends the memory at once (a share, rules,
// contents, a settlement that gives back) and another daemon, which may bring a chunk
// back, hence at most Life.

// drift is the part by which a time measured here may differ from the store's: a
// quarter, above the largest drift that a cluster may be told to bear with.
const drift = 4

// said is what the store said last.
type said struct {
	known          bool
	storeNow       int64
	sent, received budget.Instant
	out            limit.Outcome
	algorithm      limit.Algorithm
	// refused is when a check was last denied, by the store or from this memory, and
	// refusedCost the least cost that was.
	refused     budget.Instant
	refusedCost limit.Tokens
	denied      bool
}

// take notes an outcome, in the order in which the store came to them: calls may
// overtake one another on their way back. A denial is remembered only if it counts.
func (s *said) take(t *Trip, allowed, counts bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	// The store's clock may have been set back; what is old gives way to anything.
	if s.known && storeNow < s.storeNow && received.Sub(s.received) < Life {
		return
	}
	before := *s
	*s = said{known: true, storeNow: storeNow, sent: t.sent, received: received, out: out, algorithm: t.algorithm}
	switch {
	case !allowed && counts && t.cost > 0 && out.Tokens < t.cost:
		s.denied, s.refused, s.refusedCost = true, received, t.cost
	case before.denied && received.Sub(before.refused) < Life && !t.algorithm.Counts():
		// The key is still at its limit: what is short of a cost will go on being so.
		s.denied, s.refused = true, before.refused
	}
}

// denies reports whether the store would deny a cost for certain. more is what this
// daemon has beside the record. It only denies where the store has said no of late, so
// that the store, and the machine, hear of the first denial at once.
func (s *said) denies(cost, more limit.Tokens, now budget.Instant) bool {
	elapsed := now.Sub(s.sent)
	switch {
	case !s.known || !s.denied || elapsed >= Life:
		return false
	case s.algorithm == limit.Concurrency:
		return false // a slot is free when somebody says so
	case s.algorithm.Counts():
		told := s.out.Retry
		return cost >= s.refusedCost && (told < 0 || elapsed < time.Duration(told)*time.Microsecond*(drift-1)/drift)
	}
	return s.most(elapsed)+more < cost
}

// most is what the record holds by now at the most.
func (s *said) most(elapsed time.Duration) limit.Tokens {
	us := int64((elapsed+elapsed/drift)/time.Microsecond) + 1
	return s.out.Tokens + earned(s.out.Bucket.Rate, us) + 1
}

// outcome is what the store would say now, at the least; more is what this daemon has
// beside the record.
func (s *said) outcome(more limit.Tokens, now budget.Instant) limit.Outcome {
	out := s.out
	elapsed := max(0, min(now.Sub(s.received), span))
	us := int64((elapsed - elapsed/drift) / time.Microsecond)
	if s.algorithm.Counts() {
		out.Reset = max(0, out.Reset-us)
		if out.Retry > 0 {
			out.Retry = max(1, out.Retry-us)
		}
		return out
	}
	out.Tokens = max(out.Tokens, min(out.Tokens+earned(out.Bucket.Rate, us)+more, out.Bucket.Cap))
	return out
}

// earned is what a rate earns in us microseconds, at most a second of them, rounded
// down.
func earned(r limit.Rate, us int64) limit.Tokens {
	const million = 1_000_000
	us = min(us, million)
	return limit.Tokens(r.Micro/million*us + (r.Micro%million*us+r.Frac*us/million)/million)
}
