package limit

import "time"

const (
	// shareMoves is added to the wait for a share that has to grow first: several round trips to
	// the farthest leader, and a commit.
	shareMoves = time.Second
	// longestGuess bounds the wait for such a share. Once the share has arrived the answer is
	// exact.
	longestGuess = 10 * time.Second
	// longestWait bounds every wait in an answer.
	longestWait = maxSecs * time.Second
)

// Decide turns the outcome of one limit l for a request of one cost into a Decision. allowed is the
// answer to the whole request. Waits are rounded up to a millisecond and are never early. They are
// right if no other request spends and the bucket in force stays. A bucket may be unable to hold
// the cost, because the region's share was lent or is too small. Then the wait is a guess: the time
// in which the whole limit, unused, would hold the cost, but only some seconds at most, because
// asking is what brings the share.
func Decide(l Limit, out Outcome, cost Tokens, allowed bool) Decision {
	d := Decision{
		Allowed:   allowed,
		Limit:     int64(l.Capacity / Token),
		Remaining: int64(max(0, out.Tokens) / Token),
	}
	if l.Algorithm.Counts() {
		d.ResetAfter = ceilMilli(out.Reset)
	} else {
		d.ResetAfter = timeToEarn(out.Bucket.Cap-out.Tokens, out.Bucket.Rate, l)
	}
	switch {
	case allowed && l.Algorithm == LeakyBucket:
		d.Delay = timeToEarn(out.Bucket.Cap-out.Tokens-cost, out.Bucket.Rate, l)
	case allowed:
	case cost > l.Capacity:
		d.RetryAfter = Never
	case l.Algorithm.Counts() && out.Retry < 0:
		d.RetryAfter = ofTheWhole(l, cost)
	case l.Algorithm.Counts():
		d.RetryAfter = ceilMilli(out.Retry)
	case out.Bucket.Rate == Rate{}:
		d.RetryAfter = ofTheWhole(l, cost)
	case cost > out.Bucket.Cap:
		d.RetryAfter = min(timeToEarn(cost-out.Tokens, out.Bucket.Rate, l), ofTheWhole(l, cost))
	default:
		d.RetryAfter = timeToEarn(cost-out.Tokens, out.Bucket.Rate, l)
	}
	return d
}

// CapWait returns the decision with a wait of at most some seconds. It is for a denial by a limit of
// which other regions hold more than they keep. How much of that is unused is not known here, and
// asking is what brings it.
func (d Decision) CapWait() Decision {
	if d.RetryAfter != Never {
		d.RetryAfter = min(d.RetryAfter, longestGuess)
	}
	return d
}

// ofTheWhole returns the wait until the whole limit, unused, has a cost and a share of it has moved
// here.
func ofTheWhole(l Limit, cost Tokens) time.Duration {
	earned := timeToEarn(cost, l.Rate, l)
	if l.Algorithm.Counts() {
		earned = ceilMilli(l.Window.Microseconds())
	}
	return min(earned+shareMoves, longestGuess)
}

// ceilMilli returns a wait of the given microseconds in whole milliseconds.
func ceilMilli(micros int64) time.Duration {
	return min(time.Duration((micros+999)/1000)*time.Millisecond, longestWait)
}

// timeToEarn returns the shortest whole number of milliseconds in which a rate earns the missing
// tokens. If the rate is 0, because no share of it was left here, it uses the limit's. A float
// gives the first guess, exact integers give the answer.
func timeToEarn(missing Tokens, r Rate, l Limit) time.Duration {
	if missing <= 0 {
		return 0
	}
	if r == (Rate{}) {
		r = l.Rate
	}
	if r == (Rate{}) {
		return longestWait
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
