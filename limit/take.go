package limit

// Outcome is what one limit of a request came to.
type Outcome struct {
	// Tokens are left after the request.
	Tokens Tokens
	// Bucket is the bucket in force: share, floor, or the smaller of the two.
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
		out[i] = Outcome{Tokens: r.Tokens, Bucket: bucket, Amnesia: amnesia}
		allowed = allowed && r.Tokens >= cost
	}
	if !allowed {
		return false
	}
	for i := range records {
		records[i].Tokens -= cost
		out[i].Tokens = records[i].Tokens
	}
	return true
}
