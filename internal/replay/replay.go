package replay

import (
	"cmp"
	"iter"
	"slices"

	"aliquot/limit"
	"aliquot/rules"
)

// Request is one request of the past.
type Request struct {
	// At is the time of its decision in microseconds, above 0, by one clock for all requests.
	At         int64
	Namespace  string
	Attributes rules.Attributes
	// Cost is its cost in requests, and Costs the cost in other units, in whole tokens.
	Cost  int64
	Costs rules.Costs
	// Descriptor reports whether it is a descriptor of Envoy's rate limit protocol.
	Descriptor bool
}

// Right is what a region may hold of one key's limit: the bucket in force, and how much more of the
// burst if the limit is elastic.
type Right struct {
	Bucket limit.Bucket
	Extra  limit.Tokens
}

// Key is a key of a rule. Like is the old version's rule for the same request and key if the old
// version does not have Rule, and nil if there is none.
type Key struct {
	Rule *rules.Rule
	Hash [16]byte
	Like *rules.Rule
}

// Config holds what a replay needs.
type Config struct {
	Old, New *rules.Set
	Hasher   *rules.KeyHasher
	// NowMS is the time by which entries of lists and overrides end, in Unix milliseconds.
	NowMS int64
	// Right returns what the region may hold now of a key with this limit.
	Right func(Key, limit.Limit) Right
	// Stop reports whether the replay has to end. It is called every stopEvery requests.
	Stop func() bool
}

const (
	// MaxBuckets bounds the memory of a replay to about 100 MB. A sample with so many different
	// keys shows little more after them.
	MaxBuckets = 200_000
	// MaxExamples caps the newly denied keys that the result of a rule names.
	MaxExamples = 10
	// BlockList stands for the rule where the block list decides.
	BlockList = "(blacklist)"
	// stopEvery is the number of requests between two calls of Stop.
	stopEvery = 256
)

// Result counts the differences between two versions of the rules.
type Result struct {
	// Requests counts the requests that were replayed, and Keys their different keys.
	Requests, Keys int64
	// NewlyDenied and NewlyAllowed count the requests that only the old or only the new version
	// allows.
	NewlyDenied, NewlyAllowed int64
	// Rules has the rules that deny in one version what the other version allows. Those with the
	// most newly denied keys come first.
	Rules []RuleResult
	// Cut is the reason why the replay ended before the last request, or empty.
	Cut string
}

// RuleResult counts what one rule denies under only one version of the rules. A request that several
// rules deny counts for each of them.
type RuleResult struct {
	ID                              string
	DeniedKeys, AllowedKeys         int64
	DeniedRequests, AllowedRequests int64
	// Examples are the first of the newly denied keys, at most MaxExamples.
	Examples [][16]byte
}

// Run replays requests in the order of their decisions. It keeps no request after the iterator's
// next step.
func Run(c Config, requests iter.Seq[*Request]) Result {
	r := run{
		before: newSide(c.Old, &c), after: newSide(c.New, &c),
		rules: map[string]*ruleTally{}, keys: map[[16]byte]struct{}{},
	}
	r.after.old = r.before
	var out Result
	for req := range requests {
		if out.Requests%stopEvery == 0 && c.Stop() {
			out.Cut = "the time for the replay was up"
			break
		}
		if len(r.before.buckets)+len(r.after.buckets) >= MaxBuckets {
			out.Cut = "the sample has more keys than a replay keeps"
			break
		}
		out.Requests++
		before, after := r.before.decide(req), r.after.decide(req)
		r.addKeys(before)
		r.addKeys(after)
		switch {
		case before.allowed() && !after.allowed():
			out.NewlyDenied++
			for _, d := range after.denials {
				r.tally(d).addDenied(d.hash)
			}
		case !before.allowed() && after.allowed():
			out.NewlyAllowed++
			for _, d := range before.denials {
				r.tally(d).addAllowed(d.hash)
			}
		}
	}
	out.Keys = int64(len(r.keys))
	out.Rules = r.results()
	return out
}

// run is a replay under way.
type run struct {
	before, after *side
	rules         map[string]*ruleTally
	keys          map[[16]byte]struct{}
}

// addKeys adds the keys of a verdict to those that are counted.
func (r *run) addKeys(v verdict) {
	for _, k := range v.keys {
		r.keys[k.hash] = struct{}{}
	}
	for _, d := range v.denials {
		r.keys[d.hash] = struct{}{}
	}
}

// tally returns the counts of the rule that denied.
func (r *run) tally(d denial) *ruleTally {
	t := r.rules[d.rule]
	if t == nil {
		t = &ruleTally{denied: map[[16]byte]struct{}{}, allowed: map[[16]byte]struct{}{}}
		t.ID = d.rule
		r.rules[d.rule] = t
	}
	return t
}

// results returns the counts of all rules in the order of Result.Rules.
func (r *run) results() []RuleResult {
	out := make([]RuleResult, 0, len(r.rules))
	for _, t := range r.rules {
		t.DeniedKeys, t.AllowedKeys = int64(len(t.denied)), int64(len(t.allowed))
		out = append(out, t.RuleResult)
	}
	slices.SortFunc(out, func(a, b RuleResult) int {
		return cmp.Or(cmp.Compare(b.DeniedKeys, a.DeniedKeys), cmp.Compare(b.DeniedRequests, a.DeniedRequests),
			cmp.Compare(b.AllowedKeys, a.AllowedKeys), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// ruleTally counts the keys of a rule.
type ruleTally struct {
	RuleResult
	denied, allowed map[[16]byte]struct{}
}

func (t *ruleTally) addDenied(hash [16]byte) {
	t.DeniedRequests++
	if _, known := t.denied[hash]; !known && len(t.Examples) < MaxExamples {
		t.Examples = append(t.Examples, hash)
	}
	t.denied[hash] = struct{}{}
}

func (t *ruleTally) addAllowed(hash [16]byte) {
	t.AllowedRequests++
	t.allowed[hash] = struct{}{}
}
