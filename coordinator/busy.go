package coordinator

import "aliquot/budget"

// busyPeriod finds an interval in which more was spent than a rate explains, from
// sums that come late: each says how many tokens were spent between two instants,
// not when. Everything counted lies between since and now for certain, so what it
// shows was really admitted in that interval, whatever the order and the delay of
// the sums: it may miss an excess, it never makes one up.
type busyPeriod struct {
	since    budget.Instant
	asOf     budget.Instant // over is as of this instant
	tokens   float64        // spent since since
	overRate float64        // tokens less rate x (at - since)
}

// counting is what became of tokens in a busy period.
type addOutcome uint8

const (
	ignored   addOutcome = iota // they would only weaken what it shows
	included                    // they are in it
	restarted                   // it begins with them
)

// spend counts tokens spent between from and now. It keeps the more telling of three
// intervals: the present one, lengthened to begin at from if need be; the present one
// without these tokens; or one that begins anew at from.
func (b *busyPeriod) add(tokens, rate float64, from, now budget.Instant) (became addOutcome) {
	restart := busyPeriod{since: from, asOf: now, tokens: tokens, overRate: tokens - rate*now.Sub(from).Seconds()}
	if b.tokens == 0 {
		*b = restart
		return restarted
	}
	b.overRate -= rate * now.Sub(b.asOf).Seconds()
	b.asOf = now
	if earlier := rate * max(0, b.since.Sub(from).Seconds()); tokens > earlier {
		b.tokens += tokens
		b.overRate += tokens - earlier
		b.since = min(b.since, from)
		became = included
	}
	if restart.overRate >= b.overRate {
		*b = restart
		return restarted
	}
	return became
}

// giveBack takes tokens off what was spent.
func (b *busyPeriod) refund(tokens float64) {
	tokens = min(tokens, b.tokens)
	b.tokens -= tokens
	b.overRate -= tokens
}
