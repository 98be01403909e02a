package coordinator

import (
	"time"

	"aliquot/budget"
)

// tallyRegion tells when what a region reports was spent, by this node's own clock:
// a region sends a report after it has received the answer to the one before it, so
// the counters in it are no older than that answer.
type regionClock struct {
	session    uint64
	openedAt   budget.Instant // about when the session began, not before
	answeredAt budget.Instant // the latest report so far
	// unseen is before any use in this session that is not told yet, of a key that was not
	// told of for slack by then.
	unreportedFrom budget.Instant
	slack          time.Duration
}

// next is a report of a session, answered now: what it tells was read at from or
// later.
func (r *regionClock) reportAnswered(session uint64, began, now budget.Instant) (from budget.Instant) {
	from = max(began, r.answeredAt)
	if r.session != session {
		// It began after the last answer within the one before.
		r.session, r.openedAt, r.unreportedFrom = session, now, from
	}
	r.answeredAt = now
	return from
}

// tallyRule is the sum over the keys of one rule.
type ruleTotals struct {
	admitted, offered      []float64 // tokens, by region
	keys                   int       // that are counted here
	refillRate             float64   // tokens a second that they refill
	excess, shortfall      recentMax // tokens
	admittedInWindow, gain float64   // of the present window: tokens admitted, the largest gain
	utilisation            float64   // of the last whole window
	lastGain               float64
}

func (r *ruleTotals) add(region int, admitted, offered float64) {
	r.admitted, r.offered = growTo(r.admitted, region), growTo(r.offered, region)
	r.admitted[region] += admitted
	r.offered[region] += offered
	r.admittedInWindow += admitted
}

// shelved is the most that was seen lately: since the shelf was last cleared, and in
// the time before.
type recentMax struct{ current, previous float64 }

func (s *recentMax) add(v float64)  { s.current = max(s.current, v) }
func (s *recentMax) value() float64 { return max(s.current, s.previous) }
func (s *recentMax) rotate()        { s.current, s.previous = 0, s.current }
