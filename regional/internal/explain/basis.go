package explain

import (
	"fmt"
	"math"
	"strconv"

	"aliquot/internal/penalty"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
)

// basisOf returns a sentence on where the wait of a denial comes from, and an empty text for a limit
// that would let the request pass. a is nil if the limit was not asked.
func basisOf(v *charge.Verdict, a *charge.Charge) string {
	switch {
	case v.Decision.Allowed:
		return ""
	case v.Never():
		return fmt.Sprintf("the cost of %s is above the limit's capacity of %d: no waiting helps", whole(v.Cost), v.Decision.Limit)
	case v.Held != penalty.Free:
		return v.WhyHeld()
	case v.Mode == modes.FailClosed:
		return "the regional store does not answer and the rule fails closed: it is asked again after retry_after"
	case a != nil && a.Limit.Algorithm.Counts():
		return countedBasisOf(v, a)
	}
	rate, source := perSecond(v.Found.Bucket.Rate), "what this region may spend of the limit now refills"
	if v.Mode == modes.Emergency {
		source = "the regional store does not answer: an emergency limit of this daemon, empty at first, refills"
	}
	switch {
	case rate == 0:
		return "this region holds nothing of the limit's rate at present: " + wholeWait
	case v.Found.Bucket.Cap < v.Cost:
		return fmt.Sprintf("the cost of %s is above the %s that this region may hold at present, of which there are %s: %s",
			whole(v.Cost), figure(tokens(v.Found.Bucket.Cap)), figure(tokens(v.Found.Tokens)), wholeWait)
	}
	return fmt.Sprintf("%s tokens are missing of the cost of %s, and %s %s a second%s",
		figure(tokens(v.Cost-v.Found.Tokens)), whole(v.Cost), source, figure(rate), lentWait(v, a))
}

// wholeWait explains the wait when a share has to grow; see limit.Decide.
const wholeWait = "asking brings its share back, and the wait told is no longer than the whole limit, unused, would take, and a second for the share to move"

// lentWait explains the wait where other regions hold more of the limit than they keep; see
// limit.Decision.CapWait.
func lentWait(v *charge.Verdict, a *charge.Charge) string {
	if a == nil || !a.Lent || v.Mode != modes.Store {
		return ""
	}
	return "; other regions may hold more of the limit than they keep, and asking brings it here, so the wait told is ten seconds at most"
}

// countedBasisOf returns the basis of a counting limit.
func countedBasisOf(v *charge.Verdict, a *charge.Charge) string {
	switch {
	case v.Mode == modes.Emergency:
		return "the regional store does not answer: what is in use is not known before it does"
	case v.Found.Retry < 0:
		return fmt.Sprintf("the cost of %s is above the %s that this region may have in use now: %s",
			whole(v.Cost), figure(tokens(v.Found.Bucket.Cap)), wholeWait)
	case v.Found.Bucket.Cap == 0:
		return "what is in use is not known, because the store has lost it or a new share does not count yet: nothing passes until none of it can be left"
	}
	return fmt.Sprintf("%s of the %s that this region may have in use are: by then enough of them has ended%s",
		figure(tokens(v.Found.Bucket.Cap-v.Found.Tokens)), figure(tokens(v.Found.Bucket.Cap)), lentWait(v, a))
}

func tokens(t limit.Tokens) float64 { return float64(t) / float64(limit.Token) }

func perSecond(r limit.Rate) float64 { return (float64(r.Micro) + float64(r.Frac)/1e6) / 1e6 }

// whole prints a cost, which is a whole number of tokens.
func whole(t limit.Tokens) string { return strconv.FormatInt(int64(t/limit.Token), 10) }

// figure prints at most three decimals.
func figure(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }
