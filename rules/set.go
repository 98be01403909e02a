package rules

import (
	"encoding/binary"
	"time"

	"aliquot/limit"
	"aliquot/rules/document"
	"aliquot/rules/pattern"
)

// DecodedEndpoint is the attribute with the path of the endpoint as a server may read it that
// decodes it further. It is absent if that is the endpoint itself. A rule about endpoints applies
// if it applies by either path, so that no spelling of a path evades it.
const DecodedEndpoint = "endpoint_decoded"

// Set is one version of the rules. It is immutable and safe for concurrent use. The zero value has
// no rules: every request passes.
type Set struct {
	rules []*Rule
	byID  map[string]*Rule
	index ruleIndex
	tiers tiers
	// unlimited, debts, takes and inRequest: some rule is Unlimited, or has Debt, RequestLimit or
	// ReplacesInRequest.
	unlimited, debts, takes, inRequest bool
	// file is the set without entries; nil if it has none.
	file      *Set
	whitelist accessList
	blacklist accessList
	// blocks and allows are those of entries above the file.
	blocks, allows accessList
}

// Rules returns the rules in the order of the file. The caller must not change the slice.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule returns the rule with this id, or nil.
func (s *Set) Rule(id string) *Rule { return s.byID[id] }

// Rule is one rule together with everything that it inherits. Rules come from Parse and are
// immutable; the caller must not change them.
type Rule struct {
	ID string
	// Tier is the tier of the rule, or "". A request of another tier does not meet the rule. A
	// request without a tier meets it only if the rule has other conditions.
	Tier string
	// Algorithm is the name of Limit.Algorithm.
	Algorithm string
	// Queue, for a LeakyBucket: an admitted request must wait for those before it. Otherwise it
	// passes at once.
	Queue bool
	// Unit is what the limit counts: UnitRequests, UnitConcurrency or a name from the file; see
	// Cost.
	Unit string
	// Key names the attributes in the order of the file. Each combination of their values has its
	// own bucket. An empty Key means one bucket for all requests.
	Key []string
	// Limit is the limit of a request without an override, with the window of a counting limit. Its
	// capacity is 0 if the rule denies everything (limit: 0).
	Limit limit.Limit
	// Unlimited: the rule limits nothing. Limit has no meaning then.
	Unlimited bool
	// Window is the period over which the limit is stated, for display. For a bucket it is the stated
	// one only if the bucket fills in that time, within a hundredth, and else the time to fill, in whole
	// seconds.
	Window time.Duration
	// SetForTier: Limit is the value that an entry has set for the tier; see Set.With.
	SetForTier bool
	// Enforcement is Strict, Elastic or Independent. If the file says nothing or Elastic, it is
	// Strict for a counting algorithm and Elastic for all others.
	Enforcement string
	// Placement is Auto, Split or Home; Auto if the file says nothing.
	Placement string
	// BorrowWait is how long a request may wait for the part of the limit that other regions lend.
	// It is AutoBorrowWait if the file says nothing, and 0 for Split.
	BorrowWait time.Duration
	// OnRedisFailure is FailLocal, FailOpen or FailClosed.
	OnRedisFailure string
	// Forgives: a key starts afresh, full or unused, if its region's store has lost its contents and
	// nothing is known of the key. Otherwise it starts from nothing: a bucket is empty, and a counting
	// limit is used up until nothing of before counts.
	Forgives bool
	// LocalCache: answers may come from memory.
	LocalCache bool
	// ShadowPPM is the part of the keys, in millionths, that the rule only watches: it decides and
	// counts for them but never denies. See Shadows.
	ShadowPPM int32
	// CoolDown is how long clients that do not wait are held back; the zero value means not at all.
	CoolDown CoolDown
	// AutoBlock is when the rule blocks clients by itself; the zero value means never.
	AutoBlock AutoBlock
	// Version is the rule's own number, for people; 0 if it states none.
	Version int64
	// Debt: the limit is charged the cost of a request that it denies because it does not hold the
	// cost. Such a cost was already used.
	Debt bool
	// RequestLimit: a descriptor of Envoy's protocol may bring a limit in place of this one.
	RequestLimit bool
	// Replaces names the rules that do not apply to a request which matches this rule, in the order
	// of the file. See Set.Match.
	Replaces []string
	// ReplacesInRequest names the rules that apply to no descriptor of an Envoy request if one of
	// its descriptors matches this rule, in the order of the file.
	ReplacesInRequest []string

	ordinal    int
	replacedBy []int32 // ordinals of the rules that replace it, ascending
	sortedKey  []string
	tiers      *tiers          // of the set, if the key has the tier; otherwise nil
	params     document.Params // as stated in the file or inherited
	conditions []pattern.Condition
	patterns   pattern.Set // of overrides, in the order of precedence
	overrides  []Override  // parallel to patterns
	wildcards  uint64      // of overrides
}

// Override is the limit of the API keys that match Pattern.
type Override struct {
	Pattern string
	Limit   limit.Limit
	Window  time.Duration
	// Unlimited: nothing limits these API keys.
	Unlimited bool
	// Note is that of the file; zero for an override by an entry.
	Note
	// Entry is the entry above the file that makes the override; nil if the file makes it.
	Entry *Entry

	params document.Params // as stated in the file
}

// Whitelist returns its entries in the order of the file, also those that no longer apply. The
// caller must not change the slice.
func (s *Set) Whitelist() []ListEntry { return s.whitelist.entries }

// Blacklist returns its entries in the same way.
func (s *Set) Blacklist() []ListEntry { return s.blacklist.entries }

// Shadows reports whether the rule only watches the key with this hash (HashKey). That depends only
// on the hash: a larger part has all keys of a smaller one, and rules with the same key attributes
// watch the same keys.
func (r *Rule) Shadows(hash [16]byte) bool {
	place := uint64(binary.BigEndian.Uint32(hash[12:])) * document.WholePPM >> 32
	return place < uint64(r.ShadowPPM)
}

// Cost returns how much a request consumes of the unit that the rule counts: its own cost for
// UnitRequests, otherwise its cost in the unit. For UnitConcurrency the default is one slot. If the
// request has no cost in the unit, applies is false and the rule does not limit it.
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

// Overrides returns the rule's overrides, in the order of precedence. The caller must not change
// the slice.
func (r *Rule) Overrides() []Override { return r.overrides }

// LimitFor returns the rule's limit for an API key at nowMS, Unix milliseconds, and the window to
// show beside it: those of OverrideFor, or else the rule's own. An absent key is "".
func (r *Rule) LimitFor(apiKey string, nowMS int64) (limit.Limit, time.Duration) {
	if o := r.OverrideFor(apiKey, nowMS); o != nil {
		return o.Limit, o.Window
	}
	return r.Limit, r.Window
}

// OverrideFor returns the override of an API key, or nil. Among those that apply at nowMS, it is
// the one that names the key exactly, or else the longest pattern that matches it. Of two equally
// long patterns it is the first in the file. Overrides of entries have precedence over all
// overrides of the file.
func (r *Rule) OverrideFor(apiKey string, nowMS int64) *Override {
	if len(r.overrides) == 0 {
		return nil
	}
	i := r.patterns.First(apiKey, nowMS)
	if i < 0 {
		return nil
	}
	return &r.overrides[i]
}

// Watched reports whether the rule needs to know how its clients behave.
func (r *Rule) Watched() bool { return r.CoolDown.After > 0 || r.AutoBlock.After > 0 }
