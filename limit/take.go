package limit

// Outcome is what one limit of a request came to.
type Outcome struct {
	// Tokens are left after the request, a record's Extra included; for a limit that
	// counts, the rights that are left.
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
}

// Take decides one request of one cost under all its limits: every limit has to
// hold the cost, or none is charged. records[i], views[i] and out[i] belong to one
// limit; no two limits may share a record. The records are settled in place either
// way and have to be written back.
func Take(records []Record, views []View, cost Tokens, now int64, out []Outcome) bool {
	allowed := true
	for i := range records {
		r, bucket, amnesia := Settle(records[i], views[i], now)
		records[i] = r
		out[i] = Outcome{Tokens: r.left(&views[i], bucket, now), Bucket: bucket, Amnesia: amnesia}
		switch {
		case views[i].Algorithm.Counts():
		case r.Hot:
			out[i].Bucket.Cap += r.Extra
		default:
			out[i].Bucket.Cap += views[i].Extra
		}
		allowed = allowed && out[i].Tokens >= cost
	}
	for i := range records {
		r, v := &records[i], &views[i]
		counts := v.Algorithm.Counts()
		switch {
		case allowed && counts:
			r.Use = r.Use.add(v, cost, v.Slot, now)
			out[i].Tokens -= cost
		case allowed:
			out[i].Bucket.Cap -= r.spend(cost)
			out[i].Tokens -= cost
		case counts && out[i].Tokens < cost:
			out[i].Retry = r.Use.retry(v, out[i].Bucket.Cap, cost, now)
		}
		if counts {
			out[i].Reset = r.Use.wait(v, 0, now)
		}
	}
	return allowed
}

// left is what a settled record can admit under the bucket in force.
func (r *Record) left(v *View, in Bucket, now int64) Tokens {
	if v.Algorithm.Counts() {
		return max(0, in.Cap-r.Use.inUse(v, now))
	}
	return r.held()
}
