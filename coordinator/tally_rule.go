package coordinator

import (
	"time"

	"aliquot/budget"
)

// tallyRegion tells when what a region reports was spent, by this node's own clock:
// a region sends a report after it has received the answer to the one before it, so
// the counters in it are no older than that answer.
type tallyRegion struct {
	session  uint64
	opened   budget.Instant // about when the session began, not before
	answered budget.Instant // the latest report so far
	// unseen is before any use in this session that is not told yet, of a key that was not
	// told of for slack by then.
	unseen budget.Instant
	slack  time.Duration
}

// next is a report of a session, answered now: what it tells was read at from or
// later.
func (r *tallyRegion) next(session uint64, began, now budget.Instant) (from budget.Instant) {
	from = max(began, r.answered)
	if r.session != session {
		// It began after the last answer within the one before.
		r.session, r.opened, r.unseen = session, now, from
	}
	r.answered = now
	return from
}

// tallyRule is the sum over the keys of one rule.
type tallyRule struct {
	admitted, offered []float64 // tokens, by region
	keys              int       // that are counted here
	limit             float64   // tokens a second that they refill
	excess, shortfall shelved   // tokens
	inWindow, gain    float64   // of the present window: tokens admitted, the largest gain
	utilisation       float64   // of the last whole window
	lastGain          float64
}

func (r *tallyRule) add(region int, admitted, offered float64) {
	r.admitted, r.offered = reach(r.admitted, region), reach(r.offered, region)
	r.admitted[region] += admitted
	r.offered[region] += offered
	r.inWindow += admitted
}

// shelved is the most that was seen lately: since the shelf was last cleared, and in
// the time before.
type shelved struct{ latest, before float64 }

func (s *shelved) see(v float64) { s.latest = max(s.latest, v) }
func (s *shelved) most() float64 { return max(s.latest, s.before) }
func (s *shelved) age()          { s.latest, s.before = 0, s.latest }
