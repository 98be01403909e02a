package budget

// A reservation that is settled for less than it took gives tokens back: to the bucket
// they came from, and what that has no room for to the pool, as tokens that a shrinking
// share released. Neither makes any: each was admitted before and was not used. Pool and
// shares together hold the limit's capacity at the most, as ever, for the leader cuts the
// pool to what no share takes up.

// Refund tells, before a store is asked to, that up to an amount of what was admitted of
// a key may be given back, micro-tokens. It changes nothing but the count in reports.
func (r *Region) Refund(k KeyID, amount int64) {
	if h := r.hot[k]; h != nil {
		h.refunded = counted(h.refunded, amount)
		r.queue(k, h)
	}
}

// Release gives the pool what a refund found no room for in the bucket of a key's share
// of a generation, micro-tokens. If the share is another one now, or no session is open,
// or the tokens may be of a limit by older rules, they are lost.
func (r *Region) Release(k KeyID, gen Gen, amount int64) {
	h := r.hot[k]
	if h == nil || h.gen != gen || !r.session.open || r.newRules || r.applying != nil && r.applying.oldRules {
		return
	}
	h.released = counted(h.released, amount)
	r.queue(k, h)
}
