package limit

// Outcome is what one limit of a request came to.
type Outcome struct {
	// Tokens are left after the request, a record's Extra included.
	Tokens Tokens
	// Bucket is the bucket in force: share, floor, or the smaller of the two. Its
	// capacity includes what Extra is left, or that of a cold bucket.
	Bucket Bucket
	// Amnesia tells that the store had lost or rolled back the record of a hot
	// key: it starts from 0 and the session has to end.
	Amnesia bool
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
		out[i] = Outcome{Tokens: r.held(), Bucket: bucket, Amnesia: amnesia}
		if r.Hot {
			out[i].Bucket.Cap += r.Extra
		} else {
			out[i].Bucket.Cap += views[i].Extra
		}
		allowed = allowed && r.held() >= cost
	}
	if !allowed {
		return false
	}
	for i := range records {
		out[i].Bucket.Cap -= records[i].spend(cost)
		out[i].Tokens -= cost
	}
	return true
}
