package limit

// Outcome is the result of one limit of a request.
type Outcome struct {
	// Tokens is what is left after the request, including a record's Extra; below 0 it is a debt.
	// For a counting limit it is the rights less what is in use. Below 0 more is in use than there
	// are rights; see InUse.
	Tokens Tokens
	// Bucket is the bucket in force: share, floor, or the smaller of the two. Its capacity includes
	// the Extra that is left, or the Extra of a cold bucket.
	Bucket Bucket
	// Amnesia: the store had lost or rolled back the record of a hot key. The record starts at 0
	// and the session has to end.
	Amnesia bool
	// Reset is in how many microseconds nothing is in use any more. Retry is in how many the cost
	// would be admitted if nothing else was, or -1 if the cost is more than the share. Both are for
	// a counting limit.
	Reset, Retry int64
	// Lent is what this call lent. It is no longer part of Tokens; see ChunkView.
	Lent Tokens
	// LentUntil is when everything that the caller has of this key must be spent or returned, in
	// microseconds of the store's clock. LentFor is the same, in microseconds from the store's
	// present. Both are 0 if the caller has nothing.
	LentUntil, LentFor int64
	// Kept: the caller's chunk was still lent. What it kept is its own, and what it returned has
	// counted.
	Kept bool
}

// InUse returns what is in use of a counting limit; MaxTokens or more: that is not known.
func (out *Outcome) InUse() Tokens { return out.Bucket.Cap - out.Tokens }

// Take decides one request under all its limits. Either every limit holds what the request costs
// there and is charged, or none is. The cost at a limit is its View.Cost if that is set, else cost.
// records[i], views[i] and out[i] belong to one limit, and no two limits may share a record.
// Whatever the answer, the records are settled in place and must be written back, and the chunks
// that the views return and borrow count.
func Take(records []Record, views []View, cost Tokens, now int64, out []Outcome) bool {
	allowed := true
	for i := range records {
		out[i] = records[i].peek(&views[i], views[i].price(cost), now)
		allowed = allowed && out[i].Tokens >= views[i].price(cost)
	}
	for i := range records {
		r, v := &records[i], &views[i]
		counts := v.Algorithm.Counts()
		switch price := v.price(cost); {
		case !allowed:
		case counts:
			r.Use = r.Use.add(v, price, v.Slot, now)
			out[i].Tokens -= price
		default:
			out[i].Bucket.Cap -= r.spend(price)
			out[i].Tokens -= price
		}
		switch {
		case counts:
			out[i].Reset = r.Use.wait(v, 0, now)
		case v.Chunk.Asked():
			out[i].borrowed(r, v, now)
		}
	}
	return allowed
}

// kept returns what the caller of a view still has of its chunk.
func (out *Outcome) kept(c *ChunkView) Tokens {
	if !out.Kept {
		return 0
	}
	return c.Keep
}

// borrowed lends what the view wants, and records what the caller then has.
func (out *Outcome) borrowed(r *Record, v *View, now int64) {
	kept := out.kept(&v.Chunk)
	out.Lent = r.lend(v, kept, now)
	out.Tokens -= out.Lent
	if kept+out.Lent > 0 {
		out.LentUntil, out.LentFor = r.LentUntil, r.LentUntil-now
	}
}

// peek settles a record and returns what a request of a price would find there.
func (r *Record) peek(v *View, price Tokens, now int64) Outcome {
	settled, in, amnesia := settle(*r, v, now)
	*r = settled
	out := Outcome{Bucket: in, Amnesia: amnesia}
	switch {
	case v.Algorithm.Counts():
		out.Bucket.Cap = r.Use.rights(in.Cap, now)
		if out.Tokens = r.left(v, out.Bucket, now); out.Tokens < price {
			out.Retry = r.Use.retry(v, in.Cap, price, now)
		}
		return out
	case r.Hot:
		out.Bucket.Cap += r.Extra
	default:
		out.Bucket.Cap += v.Extra
	}
	out.Kept = !amnesia && r.bringBack(v, in)
	out.Tokens = r.held()
	return out
}

// left returns what a settled record can admit under the bucket in force. Below 0 it owes something,
// or more is in use.
func (r *Record) left(v *View, in Bucket, now int64) Tokens {
	if v.Algorithm.Counts() {
		return in.Cap - r.Use.inUse(v, now)
	}
	return r.held()
}
