package coordinator

import (
	"time"

	"aliquot/budget"
)

// tallyKey is one hot key and what all regions together spent of it.
type tallyKey struct {
	id             budget.KeyID
	limit          budget.KeyLimit
	version        uint64  // of what is promised
	capacity, rate float64 // tokens, tokens a second with rho
	rho            float64 // that is in rate
	excess         float64 // promised, tokens
	counts         budget.Counting
	changed        budget.Instant // what was spent before says nothing
	busy           busyPeriod
	most           float64 // that it was seen above its limit, tokens
	told           float64 // of the breach that was last told, tokens beyond excess
	short          shortWindow
	seen           []seen // by region
	// alsoSeen are the counters under the number that the key's rule has in the staged
	// version, by region; of busy they count nothing.
	alsoSeen []seen
}

// seen is what a region last reported of a key.
type seen struct {
	session           uint64
	admitted, offered int64          // cumulative, micro-tokens
	refunded          int64          // likewise
	from              budget.Instant // these were read no earlier than this
	told              budget.Instant // and told here
	busy              float64        // of what the key's busy period counts, tokens
}

// spent is what one region used of a key between two reports of it.
type spent struct {
	region            int
	admitted, offered float64        // tokens
	refunded          float64        // of what was admitted, also before; at most
	from              budget.Instant // not before this
	pace              time.Duration  // between the region's reports of one key
}

// refill is what the key's limit earns, tokens a second; 0 for slots, which nothing is
// earned of.
func (key *tallyKey) refill() float64 {
	if key.counts == budget.Slots {
		return 0
	}
	return key.rate / (1 + key.rho)
}

// above is how far the key is above its limit in the busy period, tokens.
func (key *tallyKey) above() float64 { return key.busy.over - key.capacity }

// learn takes in a limit and what is promised of it. After a change of the limit, or of
// the promise to less, what was spent before it says nothing of the new one, and a
// region may report by the old one for a while: the count begins again with each
// change that is seen. It reports whether less is promised than before.
func (key *tallyKey) learn(limit budget.KeyLimit, promise budget.Promise, rho float64, now budget.Instant) (less bool) {
	before := *key
	key.limit, key.rho, key.capacity = limit, rho, tokens(limit.Capacity)
	key.excess, key.counts = tokens(promise.Excess), promise.Counts
	key.rate = (tokens(limit.Rate) + float64(limit.RateFrac)/microToken/1e6) * (1 + rho)
	if before.capacity == 0 {
		return false // a new one
	}
	changed := key.capacity != before.capacity || key.rate != before.rate
	less = !changed && key.excess < before.excess
	if changed || less {
		key.changed, key.busy, key.most, key.told, key.short = now, busyPeriod{}, 0, 0, shortWindow{}
	}
	return less
}

// newSessions: what regions report next begins at zero.
func (key *tallyKey) newSessions() {
	for i := range key.seen {
		key.seen[i] = seen{busy: key.seen[i].busy}
	}
	clear(key.alsoSeen)
}

// read takes in a region's counters, told now and read no earlier than from, and
// returns what was used since the last.
func (key *tallyKey) read(rep budget.Report, k budget.KeyReport, from budget.Instant, region *tallyRegion, now budget.Instant) spent {
	key.seen = reach(key.seen, rep.Region)
	s := &key.seen[rep.Region]
	if k.Key.Rule != key.id.Rule {
		key.alsoSeen = reach(key.alsoSeen, rep.Region)
		s = &key.alsoSeen[rep.Region]
	}
	if s.session != rep.Session {
		*s = seen{session: rep.Session, from: region.unseen, busy: s.busy} // counters begin at zero
	}
	out := spent{
		region:   rep.Region,
		admitted: tokens(max(0, k.Admitted-s.admitted)),
		offered:  tokens(max(0, k.Offered-s.offered)),
		refunded: tokens(max(0, k.Refunded-s.refunded)),
		from:     s.from,
		pace:     rep.Pace,
	}
	if region.unseen.Sub(s.told) >= region.slack {
		out.from = max(s.from, region.unseen) // it was left out of reports since: it was not used
	}
	s.admitted, s.offered, s.refunded, s.from, s.told = k.Admitted, k.Offered, k.Refunded, from, now
	return out
}

// spend counts what a region used in the busy period. What it has given back is taken
// off, whenever it was admitted: that may hide an excess, and makes none up.
func (key *tallyKey) spend(s spent, now budget.Instant) {
	net := s.admitted - s.refunded
	if net < 0 {
		key.busy.giveBack(-net)
		key.seen[s.region].busy += net
		net = 0
	}
	switch key.busy.spend(net, key.rate, s.from, now) {
	case begunAnew:
		for i := range key.seen {
			key.seen[i].busy = 0
		}
		fallthrough
	case counted:
		key.seen[s.region].busy += net
	}
	key.most = max(key.most, key.above())
}
