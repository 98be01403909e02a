package regional

import (
	"fmt"
	"math"
	"strconv"

	"aliquot/internal/abuse"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
)

// basis returns a sentence on where the wait of a denial comes from, and an empty text for a limit
// that would let the request pass. a is nil if the limit was not asked.
func (v *verdict) basis(a *ask) string {
	switch {
	case v.decision.Allowed:
		return ""
	case v.never():
		return fmt.Sprintf("the cost of %s is above the limit's capacity of %d: no waiting helps", whole(v.cost), v.decision.Limit)
	case v.held != abuse.Free:
		return v.whyHeld()
	case v.mode == modes.FailClosed:
		return "the regional store does not answer and the rule fails closed: it is asked again after the wait told"
	case a != nil && a.limit.Algorithm.Counts():
		return v.countedBasis()
	}
	rate, source := perSecond(v.found.Bucket.Rate), "what this region may spend of the limit now refills"
	if v.mode == modes.Emergency {
		source = "the regional store does not answer: an emergency limit of this daemon, empty at first, refills"
	}
	switch {
	case rate == 0:
		return "this region holds nothing of the limit's rate at present: " + wholeWait
	case v.found.Bucket.Cap < v.cost:
		return fmt.Sprintf("the cost of %s is above the %s that this region may hold at present, of which there are %s: %s",
			whole(v.cost), figure(tokens(v.found.Bucket.Cap)), figure(tokens(v.found.Tokens)), wholeWait)
	}
	return fmt.Sprintf("%s tokens are missing of the cost of %s, and %s %s a second",
		figure(tokens(v.cost-v.found.Tokens)), whole(v.cost), source, figure(rate))
}

// wholeWait explains the wait when a share has to grow; see limit.Decide.
const wholeWait = "asking brings its share back, and the wait told is no longer than the whole limit, unused, would take, and a second for the share to move"

// countedBasis returns the basis of a counting limit.
func (v *verdict) countedBasis() string {
	switch {
	case v.mode == modes.Emergency:
		return "the regional store does not answer: what is in use is not known before it does"
	case v.found.Retry < 0:
		return fmt.Sprintf("the cost of %s is above the %s that this region may have in use now: %s",
			whole(v.cost), figure(tokens(v.found.Bucket.Cap)), wholeWait)
	case v.found.Bucket.Cap == 0:
		return "what is in use is not known, because the store has lost it or a new share does not count yet: nothing passes until none of it can be left"
	}
	return fmt.Sprintf("%s of the %s that this region may have in use are: by then enough of them has ended",
		figure(tokens(v.found.Bucket.Cap-v.found.Tokens)), figure(tokens(v.found.Bucket.Cap)))
}

func tokens(t limit.Tokens) float64 { return float64(t) / float64(limit.Token) }

func perSecond(r limit.Rate) float64 { return (float64(r.Micro) + float64(r.Frac)/1e6) / 1e6 }

// whole prints a cost, which is a whole number of tokens.
func whole(t limit.Tokens) string { return strconv.FormatInt(int64(t/limit.Token), 10) }

// figure prints at most three decimals.
func figure(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }
