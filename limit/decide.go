package limit

import "time"

const (
	// noRefill is the wait told for a bucket that does not refill here at all: its
	// region was lent empty; a day is long enough to stop a retry loop.
	noRefill = 24 * time.Hour
	// longestWait bounds every wait told.
	longestWait = maxSecs * time.Second
)

// Decide words the outcome of one limit l for a request of one cost; allowed is
// the answer to the whole request. Waits are rounded up to a millisecond, are
// never early, and hold if nobody else spends and the bucket in force stays.
func Decide(l Limit, out Outcome, cost Tokens, allowed bool) Decision {
	d := Decision{
		Allowed:   allowed,
		Limit:     int64(l.Capacity / Token),
		Remaining: int64(max(0, out.Tokens) / Token),
	}
	if l.Algorithm.Counts() {
		d.ResetAfter = ceilMilli(out.Reset)
	} else {
		d.ResetAfter = timeToEarn(out.Bucket.Cap-out.Tokens, out.Bucket.Rate)
	}
	switch {
	case allowed && l.Algorithm == LeakyBucket:
		d.Delay = timeToEarn(out.Bucket.Cap-out.Tokens-cost, out.Bucket.Rate)
	case allowed:
	case cost > l.Capacity:
		d.RetryAfter = Never
	case l.Algorithm.Counts() && out.Retry < 0:
		d.RetryAfter = noRefill // the share has to grow first
	case l.Algorithm.Counts():
		d.RetryAfter = ceilMilli(out.Retry)
	default:
		d.RetryAfter = timeToEarn(cost-out.Tokens, out.Bucket.Rate)
	}
	return d
}

// ceilMilli is a wait of so many microseconds in whole milliseconds.
func ceilMilli(micros int64) time.Duration {
	return min(time.Duration((micros+999)/1000)*time.Millisecond, longestWait)
}

// timeToEarn is the shortest whole number of milliseconds in which a rate earns
// the missing tokens. A float gives the guess, exact integers the answer.
func timeToEarn(missing Tokens, r Rate) time.Duration {
	if missing <= 0 {
		return 0
	}
	if r.Micro == 0 && r.Frac == 0 {
		return noRefill
	}
	guess := float64(missing) / (float64(r.Micro) + float64(r.Frac)/million) * 1000
	if guess >= float64(longestWait/time.Millisecond) {
		return longestWait
	}
	ms := max(int64(guess)-1, 0)
	for !earns(missing, r, ms) {
		ms++
	}
	for ms > 0 && earns(missing, r, ms-1) {
		ms--
	}
	return time.Duration(ms) * time.Millisecond
}

func earns(missing Tokens, r Rate, ms int64) bool {
	whole, low := earned(r, ms/1000, ms%1000*1000)
	return whole+low/million >= int64(missing)
}
