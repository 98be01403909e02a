package prefetch

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// The store's latest answer about a key stays valid for a while. A bucket earns at a known rate.
// Most other additions end the memory at once: a share, rules, contents, or a settlement that gives
// tokens back. Only another daemon can add without that, by returning a chunk. Hence the memory
// lasts at most Life.

// drift is the part by which a time measured here may differ from the store's: a quarter. That is
// above the largest drift that a cluster may be configured for.
const drift = 4

// lastReply is the store's latest answer.
type lastReply struct {
	known          bool
	storeNow       int64
	sent, received budget.Instant
	out            limit.Outcome
	algorithm      limit.Algorithm
	// refused is when a check was last denied, by the store or from this memory. refusedCost is the
	// smallest cost that was denied.
	refused     budget.Instant
	refusedCost limit.Tokens
	denied      bool
}

// record records an outcome. It keeps the order in which the store reached the outcomes, because
// calls may overtake one another on their way back. It remembers a denial only if counts is true.
func (s *lastReply) record(t *Call, allowed, counts bool, out limit.Outcome, storeNow int64, received budget.Instant) {
	// The store's clock may have been set back, so any answer replaces an old one.
	if s.known && storeNow < s.storeNow && received.Sub(s.received) < Life {
		return
	}
	before := *s
	*s = lastReply{known: true, storeNow: storeNow, sent: t.sent, received: received, out: out, algorithm: t.algorithm}
	switch {
	case !allowed && counts && t.cost > 0 && out.Tokens < t.cost:
		s.denied, s.refused, s.refusedCost = true, received, t.cost
	case before.denied && received.Sub(before.refused) < Life && !t.algorithm.Counts():
		// The key is still at its limit, so it remains short of such a cost.
		s.denied, s.refused = true, before.refused
	}
}

// denies reports whether the store would certainly deny a cost. more is what this daemon has beside
// the record. It denies only if the store has denied recently, so that the store and the state
// machine hear of the first denial at once.
func (s *lastReply) denies(cost, more limit.Tokens, now budget.Instant) bool {
	elapsed := now.Sub(s.sent)
	switch {
	case !s.known || !s.denied || elapsed >= Life:
		return false
	case s.algorithm == limit.Concurrency:
		return false // a slot becomes free only by a release
	case s.algorithm.Counts():
		told := s.out.Retry
		return cost >= s.refusedCost && (told < 0 || elapsed < time.Duration(told)*time.Microsecond*(drift-1)/drift)
	}
	return s.most(elapsed)+more < cost
}

// most returns the most that the record can hold by now.
func (s *lastReply) most(elapsed time.Duration) limit.Tokens {
	us := int64((elapsed+elapsed/drift)/time.Microsecond) + 1
	return s.out.Tokens + earned(s.out.Bucket.Rate, us) + 1
}

// outcome returns what the store would answer now, at least. more is what this daemon has beside
// the record.
func (s *lastReply) outcome(more limit.Tokens, now budget.Instant) limit.Outcome {
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

// earned returns what a rate earns in us microseconds, rounded down. It counts at most a second of
// them.
func earned(r limit.Rate, us int64) limit.Tokens {
	const million = 1_000_000
	us = min(us, million)
	return limit.Tokens(r.Micro/million*us + (r.Micro%million*us+r.Frac*us/million)/million)
}
