package limit

// Outcome is what one limit of a request came to.
type Outcome struct {
	// Tokens are left after the request, a record's Extra included, below 0 what is
	// owed; for a limit that counts, the rights that are left.
	Tokens Tokens
	// Bucket is the bucket in force: share, floor, or the smaller of the two. Its
	// capacity includes what Extra is left, or that of a cold bucket.
	Bucket Bucket
	// Amnesia tells that the store had lost or rolled back the record of a hot
	// key: it starts from 0 and the session has to end.
	Amnesia bool
	// Reset is in how many microseconds nothing is in use any more, and Retry in how
	// many the cost would be admitted if nothing else was; -1 if it is more than the
	// share (for a limit that counts).
	Reset, Retry int64
	// Lent was lent by this call, and is not in Tokens any more; see ChunkView.
	Lent Tokens
	// LentUntil is when all that the caller has of this key must be spent or back,
	// microseconds of the store's clock, and LentFor in how many microseconds from the
	// store's now on that is; 0 if it has nothing.
	LentUntil, LentFor int64
	// Kept tells that what the caller had was still lent, so that what it kept is its
	// own, and what it brought back has counted.
	Kept bool
}

// Take decides one request under all its limits: every limit has to hold what the
// request costs there, its View.Cost or else the cost given, or none is charged.
// records[i], views[i] and out[i] belong to one limit; no two limits may share a
// record. The records are settled in place either way and have to be written back, and
// what their views bring back and borrow counts, whatever the answer.
func Take(records []Record, views []View, cost Tokens, now int64, out []Outcome) bool {
	allowed := true
	for i := range records {
		out[i] = records[i].look(&views[i], views[i].price(cost), now)
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

// borrowed lends what the view wants, and tells what the caller has then.
func (out *Outcome) borrowed(r *Record, v *View, now int64) {
	kept := Tokens(0)
	if out.Kept {
		kept = v.Chunk.Keep
	}
	out.Lent = r.lend(v, kept, now)
	out.Tokens -= out.Lent
	if kept+out.Lent > 0 {
		out.LentUntil, out.LentFor = r.LentUntil, r.LentUntil-now
	}
}

// look settles a record and tells what a price would find there.
func (r *Record) look(v *View, price Tokens, now int64) Outcome {
	settled, in, amnesia := settle(*r, *v, now)
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

// left is what a settled record can admit under the bucket in force.
func (r *Record) left(v *View, in Bucket, now int64) Tokens {
	if v.Algorithm.Counts() {
		return max(0, in.Cap-r.Use.inUse(v, now))
	}
	return r.held()
}
