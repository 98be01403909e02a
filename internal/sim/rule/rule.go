// Package rule is a rule of a simulated world, with its limits by the versions of the rules.
package rule

import (
	"fmt"
	"math"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/oracle"
	"aliquot/internal/sim/timeline"
	"aliquot/limit"
)

// Rule is one rule with its one key, which limits a client. The rules change with their version.
// Each daemon has one version, and so has each coordinator.
type Rule struct {
	line  *timeline.Timeline
	Index int // in the world's rules
	Key   budget.KeyID
	Terms []Term // oldest first
	// Elastic: every region may save up a burst of the whole capacity.
	Elastic   bool
	Local     bool // daemons may borrow its tokens, and remember denials
	Forgives  bool // a key starts afresh if a store has lost its contents and nothing is known
	Placement budget.Placement
	Ideal     *oracle.Bucket
	Book      *oracle.Book   // of a counting limit
	Got       []limit.Tokens // by region: what was admitted there
	Gone      uint64         // the first version without it; 0: none yet
	Next      *Rule          // the rule that replaced it
	// Suspect: what is enforced of the key may have grown.
	Suspect bool
	// words is the result of KeyLimit for the limit worded.
	worded limit.Limit
	words  budget.KeyLimit
}

// Term is a limit, with the version of the rules that brought it and the true time of that. If
// Ends, a true time, is not 0, it is an override that ends then.
type Term struct {
	Since uint64
	Limit limit.Limit
	At    int64
	Ends  int64
}

// New returns a rule on a timeline: the rule of an index, with one limit from a version of the rules on.
func New(line *timeline.Timeline, index int, l limit.Limit, version uint64) *Rule {
	r := &Rule{line: line, Index: index, Terms: []Term{{Since: version, Limit: l, At: line.Now()}}}
	r.Key = budget.KeyID{Rule: uint32(index + 1)}
	r.Key.Hash[0] = byte(index)
	return r
}

// At returns the limit by a version of the rules, at a time that decides whether overrides hold.
func (r *Rule) At(version uint64, now int64) limit.Limit {
	l := r.Terms[0].Limit
	for _, t := range r.Terms[1:] {
		if t.Since <= version && (t.Ends == 0 || now < t.Ends) {
			l = t.Limit
		}
	}
	return l
}

// Ended returns how many overrides of a version of the rules have ended by now.
func (r *Rule) Ended(version uint64, now int64) (n int) {
	for _, t := range r.Terms {
		if t.Since <= version && t.Ends != 0 && t.Ends <= now {
			n++
		}
	}
	return n
}

// Past returns the limits that a version of the rules knows of up to now, the oldest first.
func (r *Rule) Past(version uint64, now int64) (out []limit.Limit) {
	var times []int64
	for _, t := range r.Terms {
		if t.Since <= version {
			times = append(times, t.At)
			if t.Ends != 0 && t.Ends <= now {
				times = append(times, t.Ends)
			}
		}
	}
	slices.Sort(times)
	for _, at := range times {
		l := r.Terms[0].Limit
		for _, t := range r.Terms[1:] {
			if t.Since <= version && t.At <= at && (t.Ends == 0 || at < t.Ends) {
				l = t.Limit
			}
		}
		out = append(out, l)
	}
	return out
}

// LongestTail returns the longest Tail of the rule's limits, by any version so far.
func (r *Rule) LongestTail() (longest time.Duration) {
	for _, t := range r.Terms {
		longest = max(longest, t.Limit.Tail())
	}
	return longest
}

// KeyLimit returns a limit of the rule in the protocol's terms. It remembers the latest result,
// because the limit is nearly always the same.
func (r *Rule) KeyLimit(l limit.Limit) budget.KeyLimit {
	if l != r.worded {
		r.worded, r.words = l, entitlement.KeyLimit(l)
		r.words.Placement = r.Placement
	}
	return r.words
}

// Latest returns the limit by the latest version.
func (r *Rule) Latest() limit.Limit { return r.At(math.MaxUint64, r.line.Now()) }

// InForce reports whether a version of the rules has the rule.
func (r *Rule) InForce(version uint64) bool {
	return r.Terms[0].Since <= version && (r.Gone == 0 || version < r.Gone)
}

// Under returns the rule that has r's place in a version of the rules; nil: none.
func (r *Rule) Under(version uint64) *Rule {
	for r.Next != nil && version >= r.Next.Terms[0].Since {
		r = r.Next
	}
	if !r.InForce(version) {
		return nil
	}
	return r
}

// Burst describes what the rule may admit at once.
func (r *Rule) Burst() string {
	if r.Elastic {
		return fmt.Sprintf("%d C", r.Ideal.Bursts())
	}
	return "C"
}

// Lowered returns the rule's limit divided by a factor.
func (r *Rule) Lowered(factor int64) limit.Limit {
	l := r.Latest()
	l.Capacity = max(l.Capacity/limit.Tokens(factor), limit.Token)
	if !l.Algorithm.Counts() {
		l.Rate.Micro = max(l.Rate.Micro/factor, 100_000)
	}
	return l
}

// Raised returns the rule's limit multiplied by a factor.
func (r *Rule) Raised(factor int64) limit.Limit {
	l := r.Latest()
	l.Capacity = min(l.Capacity*limit.Tokens(factor), 1000*limit.Token)
	if !l.Algorithm.Counts() {
		l.Rate.Micro = min(l.Rate.Micro*factor, 1_000_000_000)
	}
	return l
}

// WallApart is the largest difference between a daemon's wall clock, by which overrides end, and
// true time.
const WallApart = 100_000_000
