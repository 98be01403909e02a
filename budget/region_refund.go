package budget

// A reservation that is settled for less than it took gives tokens back: to the bucket they came
// from, and what does not fit there to the pool, like tokens that a shrinking share releases.
// Neither creates tokens: each was admitted before and was not used. Pool and shares together never
// hold more than the limit's capacity, because the leader cuts the pool to what no share takes up.

// Refund counts, before a store is asked to give it back, an amount that may be given back of what
// was admitted of a key, in micro-tokens. It changes only the count in reports.
func (r *Region) Refund(k KeyID, amount int64) {
	if h := r.hot[k]; h != nil {
		h.refunded = counted(h.refunded, amount)
		r.queue(k, h)
	}
}

// Release gives the pool what a refund could not fit into the bucket of a key's share, in
// micro-tokens. The tokens are lost if the share's generation is no longer gen, if no session is
// open, or if they may be of a limit by older rules.
func (r *Region) Release(k KeyID, gen Gen, amount int64) {
	h := r.hot[k]
	if h == nil || h.gen != gen || !r.session.open || r.newRules || r.applying != nil && r.applying.oldRules {
		return
	}
	h.released = counted(h.released, amount)
	r.queue(k, h)
}
