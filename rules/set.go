package rules

import (
	"encoding/binary"
	"time"

	"aliquot/limit"
)

// How a rule counts, as Rule.Algorithm names it; package limit says what each does.
const (
	// TokenBucket, the default: a burst of capacity, refilled at refill_rate.
	TokenBucket = "token_bucket"
	// LeakyBucket is a queue of capacity that drains at refill_rate.
	LeakyBucket = "leaky_bucket"
	// FixedWindow: limit in each window of the clock.
	FixedWindow = "fixed_window"
	// SlidingWindowLog: limit in any window of time.
	SlidingWindowLog = "sliding_window_log"
	// SlidingWindowCounter: limit in any window of time, by an estimate.
	SlidingWindowCounter = "sliding_window_counter"
	// Concurrency: limit requests at a time, each for at most window.
	Concurrency = "concurrency"
)

// What a limit counts unless its rule names another unit.
const (
	// UnitRequests counts the cost of a request.
	UnitRequests = "requests"
	// UnitConcurrency, the default of the algorithm Concurrency, counts slots: one for
	// a request that says nothing.
	UnitConcurrency = "concurrency"
)

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
	// Auto, the default: Home for limits under about ten requests and ten a second a region, else Split.
	Auto = "auto"
	// Split: each region that asks holds a part of the limit.
	Split = "split"
	// Home: while a key is in use one region holds all of it, and it follows the client.
	Home = "home"
)

// AutoBorrowWait is the BorrowWait of a rule that states none: the daemon takes as long as a
// share needs to move, by its round trips to the leader, and half a second at the most.
const AutoBorrowWait time.Duration = -1

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

// DecodedEndpoint is the attribute with the path of the endpoint as a server may read it that
// decodes it further; absent where that is the endpoint itself. A rule about endpoints applies
// if it applies by either of the two, so that no spelling of a path evades it.
const DecodedEndpoint = "endpoint_decoded"

// Set is one version of the rules. It is immutable and safe for concurrent use.
// The zero value has no rules: every request passes.
type Set struct {
	rules []*Rule
	byID  map[string]*Rule
	index ruleIndex
	tiers tiers
	// unlimited, debts, takes and inRequest tell that a rule is Unlimited, or has Debt, RequestLimit or
	// ReplacesInRequest.
	unlimited, debts, takes, inRequest bool
	// file is the set without entries; nil: it has none.
	file      *Set
	whitelist accessList
	blacklist accessList
	// blocks and allows are those of entries above the file.
	blocks, allows accessList
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
	// Tier is the tier of the rule: a request that belongs to another one does not meet
	// it. One that belongs to none meets it if the rule has other conditions. "" if the
	// rule asks for none.
	Tier string
	// Algorithm is TokenBucket, LeakyBucket, FixedWindow, SlidingWindowLog,
	// SlidingWindowCounter or Concurrency. Limit.Algorithm says the same.
	Algorithm string
	// Queue tells, of a LeakyBucket, that an admitted request is to wait for those
	// before it; else it passes at once.
	Queue bool
	// Unit is what the limit counts: UnitRequests, UnitConcurrency or a name of the
	// file's own; see Cost.
	Unit string
	// Key names the attributes that have a bucket for each combination of their
	// values, in the order of the file; none means one bucket for all requests.
	Key []string
	// Limit is the limit of a request without an override; of one that counts it
	// carries the window. Its capacity is 0 where the rule denies all (limit: 0).
	Limit limit.Limit
	// Unlimited tells that the rule limits nothing; Limit is of no use then.
	Unlimited bool
	// Window is the period the limit is stated over, for display: the stated one,
	// else the time to fill, in whole seconds.
	Window time.Duration
	// SetForTier tells that Limit is the value that an entry has set for the tier; see Set.With.
	SetForTier bool
	// Enforcement is Strict, Elastic or Independent; where the file says nothing or
	// Elastic it is Elastic, of an algorithm that counts use Strict.
	Enforcement string
	// Placement is Auto, Split or Home; Auto where the file says nothing.
	Placement string
	// BorrowWait is how long a request may wait for what other regions lend of the limit to
	// come here; AutoBorrowWait where the file says nothing, 0 for Split.
	BorrowWait time.Duration
	// OnRedisFailure is FailLocal, FailOpen or FailClosed.
	OnRedisFailure string
	// LocalCache tells whether answers may come from memory.
	LocalCache bool
	// ShadowPPM is which part of the keys, in millionths, the rule only watches: for
	// these it decides and counts but never denies. See Shadows.
	ShadowPPM int32
	// CoolDown is how long clients that do not wait are held back; zero: not at all.
	CoolDown CoolDown
	// AutoBlock is when clients are blocked by themselves; zero: never.
	AutoBlock AutoBlock
	// Version is the rule's own number, for people; 0 if it states none.
	Version int64
	// Debt tells that a limit is charged what a request costs though it does not hold it, and
	// denies it: what the request asks to be charged was used already.
	Debt bool
	// RequestLimit tells that a descriptor of Envoy's protocol may bring a limit in place of this one.
	RequestLimit bool
	// Replaces names the rules that a request which matches this one is not asked, in
	// the order of the file. See Set.Match.
	Replaces []string
	// ReplacesInRequest names the rules that no descriptor of a request of Envoy's protocol is asked, one
	// of whose descriptors matches this rule, in the order of the file.
	ReplacesInRequest []string

	ordinal    int
	replacedBy []int32 // ordinals of the rules that replace it, ascending
	sortedKey  []string
	tiers      *tiers // of the set, where the key has the tier; else nil
	params     params // as the file states and inherits them
	conditions []condition
	patterns   patternSet // of overrides, strongest first
	overrides  []Override // parallel to patterns
}

// Override is the limit of the API keys that match Pattern.
type Override struct {
	Pattern string
	Limit   limit.Limit
	Window  time.Duration
	// Unlimited tells that nothing limits these API keys.
	Unlimited bool
	// Note is the file's; of an override by an entry it is zero.
	Note
	// Entry is the entry above the file that the override is, nil if it is the file's.
	Entry *Entry

	params params // as the file states them
}

// Note is until when an entry holds, why it was made, and by whom.
type Note struct {
	// UntilMS is the first instant at which the entry does not hold any more, Unix
	// milliseconds; 0 if it holds for good.
	UntilMS int64  `json:"until_ms,omitempty"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// Holds tells whether the entry holds at nowMS, Unix milliseconds.
func (n *Note) Holds(nowMS int64) bool { return n.UntilMS == 0 || nowMS < n.UntilMS }

// ListEntry is one entry of the whitelist or the blacklist.
type ListEntry struct {
	Pattern string
	Note
}

// Whitelist returns its entries in the order of the file, those that do not hold any
// more among them. The caller must not change the slice.
func (s *Set) Whitelist() []ListEntry { return s.whitelist.entries }

// Blacklist is like Whitelist.
func (s *Set) Blacklist() []ListEntry { return s.blacklist.entries }

// Shadows tells whether the rule only watches the key of this hash (HashKey). Which
// keys these are depends on the hash alone: a larger part holds all keys of a smaller
// one, and rules with the same key attributes watch the same keys.
func (r *Rule) Shadows(hash [16]byte) bool {
	place := uint64(binary.BigEndian.Uint32(hash[12:])) * wholePPM >> 32
	return place < uint64(r.ShadowPPM)
}

// Cost is how much a request consumes of what the rule counts: its own cost for
// UnitRequests, else what it says of the unit, and one slot for UnitConcurrency of
// which it says nothing. A request that has none of the unit is not limited by the
// rule.
func (r *Rule) Cost(requests int64, others Costs) (cost int64, applies bool) {
	if r.Unit == UnitRequests {
		return requests, true
	}
	cost, said := others.Of(r.Unit)
	if !said && r.Unit == UnitConcurrency {
		return 1, true
	}
	return cost, said
}

// Overrides returns the rule's overrides, those that win first. The caller must not
// change the slice.
func (r *Rule) Overrides() []Override { return r.overrides }

// LimitFor returns the rule's limit for an API key and the window to show beside it,
// at nowMS, Unix milliseconds: those of OverrideFor, else the rule's own. An absent
// key is "".
func (r *Rule) LimitFor(apiKey string, nowMS int64) (limit.Limit, time.Duration) {
	if o := r.OverrideFor(apiKey, nowMS); o != nil {
		return o.Limit, o.Window
	}
	return r.Limit, r.Window
}

// OverrideFor returns the override of an API key, nil if it has none: of those that
// hold at nowMS the one that names the key exactly, else the longest pattern that
// matches it, of two equally long ones the first in the file. Those of entries come
// before all of the file.
func (r *Rule) OverrideFor(apiKey string, nowMS int64) *Override {
	if len(r.overrides) == 0 {
		return nil
	}
	i := r.patterns.first(apiKey, nowMS)
	if i < 0 {
		return nil
	}
	return &r.overrides[i]
}
