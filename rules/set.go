package rules

import (
	"time"

	"aliquot/limit"
)

// TokenBucket is the algorithm of this version, as a Rule names it.
const TokenBucket = "token_bucket"

// How the regions hold one limit together, as Rule.Enforcement names it.
const (
	// Strict: all regions together never admit more than the limit.
	Strict = "strict"
	// Elastic, the default: the rate of all regions together is just as exact, and a
	// key that was idle everywhere may burst once in each region.
	Elastic = "elastic"
	// Independent: each region holds the limit alone, so that N regions admit N times
	// the limit.
	Independent = "independent"
)

// Where the regions hold one limit, as Rule.Placement names it.
const (
	// Auto, the default: Home for limits under about ten requests a region, else Split.
	Auto = "auto"
	// Split: each region that asks holds a part of the limit.
	Split = "split"
	// Home: while a key is in use one region holds all of it, and it follows the client.
	Home = "home"
)

// DefaultBorrowWait is the BorrowWait of a rule that states none: what a share needs
// to move between regions that are near each other, and what a client hardly notices.
const DefaultBorrowWait = 150 * time.Millisecond

// What decides while a region's store does not answer, as Rule.OnRedisFailure
// names it.
const (
	// FailLocal: a limit in the daemon's memory, below what the region may admit.
	FailLocal = "local"
	// FailOpen: every request passes.
	FailOpen = "open"
	// FailClosed: every request is denied.
	FailClosed = "closed"
)

const (
	apiKeyAttribute   = "api_key"
	endpointAttribute = "endpoint"
	tierAttribute     = "tier"
)

// Set is one version of the rules. It is immutable and safe for concurrent use.
// The zero value has no rules: every request passes.
type Set struct {
	rules     []*Rule
	byID      map[string]*Rule
	index     ruleIndex
	whitelist patternSet
	blacklist patternSet
}

// Rules returns the rules in the order of the file. The caller must not change the
// slice.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule returns the rule with this id, nil if there is none.
func (s *Set) Rule(id string) *Rule { return s.byID[id] }

// Rule is one rule with everything it inherits worked out. Rules come from Parse
// and are immutable; the caller must not change them.
type Rule struct {
	ID string
	// Tier is the tier a request must name; "" if the rule asks for none.
	Tier string
	// Algorithm is TokenBucket.
	Algorithm string
	// Key names the attributes that have a bucket for each combination of their
	// values, in the order of the file; none means one bucket for all requests.
	Key []string
	// Limit is the limit of a request without an override.
	Limit limit.Limit
	// Window is the period the limit is stated over, for display: the stated one,
	// else the time to fill, in whole seconds.
	Window time.Duration
	// Enforcement is Strict, Elastic or Independent; Elastic where the file says
	// nothing.
	Enforcement string
	// Placement is Auto, Split or Home; Auto where the file says nothing.
	Placement string
	// BorrowWait is how long a request may wait for the share of a limit that has a
	// home to come here; 0 for Split.
	BorrowWait time.Duration
	// OnRedisFailure is FailLocal, FailOpen or FailClosed.
	OnRedisFailure string
	// LocalCache tells whether answers may come from memory.
	LocalCache bool
	// Shadow rules decide and count but never deny.
	Shadow bool
	// Version is the rule's own number, for people; 0 if it states none.
	Version int64
	// Replaces names the rules that a request which matches this one is not asked, in
	// the order of the file. See Set.Match.
	Replaces []string

	ordinal    int
	switchOff  []int // ordinals of the rules replaced
	sortedKey  []string
	conditions []condition
	endpoint   *endpointRegex
	patterns   patternSet // of overrides, strongest first
	overrides  []Override // parallel to patterns
}

// Override is the limit of the API keys that match Pattern.
type Override struct {
	Pattern string
	Limit   limit.Limit
	Window  time.Duration
}

// Overrides returns the rule's overrides, those that win first. The caller must not
// change the slice.
func (r *Rule) Overrides() []Override { return r.overrides }

// LimitFor returns the rule's limit for an API key: that of the override that names
// it exactly, else of the longest override pattern that matches it (of two equally
// long ones the first in the file), else the rule's own. An absent key is "".
func (r *Rule) LimitFor(apiKey string) limit.Limit {
	l, _ := r.limitFor(apiKey)
	return l
}

// WindowFor returns the window to show beside LimitFor.
func (r *Rule) WindowFor(apiKey string) time.Duration {
	_, w := r.limitFor(apiKey)
	return w
}

func (r *Rule) limitFor(apiKey string) (limit.Limit, time.Duration) {
	if len(r.overrides) > 0 {
		if i := r.patterns.first(apiKey); i >= 0 {
			return r.overrides[i].Limit, r.overrides[i].Window
		}
	}
	return r.Limit, r.Window
}
