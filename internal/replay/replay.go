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
	// At is when it was decided, microseconds of any one clock, above 0.
	At         int64
	Namespace  string
	Attributes rules.Attributes
	// Cost is what it consumed of requests, Costs of other units; whole tokens.
	Cost  int64
	Costs rules.Costs
	// Descriptor: it came as a descriptor of Envoy's rate limit protocol.
	Descriptor bool
}

// Right is what a region may hold of one key's limit: the bucket in force and, of an
// elastic limit, how much more of the burst.
type Right struct {
	Bucket limit.Bucket
	Extra  limit.Tokens
}

// Key is a key of a rule. A rule that the old version does not have may be like one of
// those that the same request has under it with the same key: that is Like, else nil.
type Key struct {
	Rule *rules.Rule
	Hash [16]byte
	Like *rules.Rule
}

// Config is what a replay goes by.
type Config struct {
	Old, New *rules.Set
	Hasher   *rules.KeyHasher
	// NowMS is the time at which lists and overrides hold, Unix milliseconds.
	NowMS int64
	// Right tells what the region may hold now of a key with this limit.
	Right func(Key, limit.Limit) Right
	// Stop is asked now and then whether the time is up.
	Stop func() bool
}

const (
	// MaxBuckets bounds the memory of a replay: about 100 MB at the worst, for a
	// sample of so many different keys that the rest would tell little more.
	MaxBuckets = 200_000
	// MaxExamples is how many of the keys that are newly denied a rule names.
	MaxExamples = 10
	// BlockList stands for the rule where the block list decides.
	BlockList = "(blacklist)"
	// stopEvery is how many requests are replayed between two looks at the time.
	stopEvery = 256
)

// Result is what differs.
type Result struct {
	// Requests that were replayed, and how many different keys they had.
	Requests, Keys int64
	// Requests that only one version of the rules lets pass.
	NewlyDenied, NewlyAllowed int64
	// Rules that deny, in either version, what the other lets pass, those with the most
	// newly denied keys first.
	Rules []RuleResult
	// Cut is why the replay ended before the last request; empty if it did not.
	Cut string
}

// RuleResult counts what one rule denies under one version of the rules alone. A
// request that several rules deny counts at each.
type RuleResult struct {
	ID                              string
	DeniedKeys, AllowedKeys         int64
	DeniedRequests, AllowedRequests int64
	// Examples are some of the keys newly denied, the first ones.
	Examples [][16]byte
}

// Run replays requests in the order they were decided. A request must not be used by
// the caller while it is being looked at, nor is it kept.
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
		was, is := r.before.decide(req), r.after.decide(req)
		r.see(was)
		r.see(is)
		switch {
		case was.allowed() && !is.allowed():
			out.NewlyDenied++
			for _, d := range is.denials {
				r.of(d).deniedNewly(d.hash)
			}
		case !was.allowed() && is.allowed():
			out.NewlyAllowed++
			for _, d := range was.denials {
				r.of(d).allowedNewly(d.hash)
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

func (r *run) see(v verdict) {
	for _, k := range v.keys {
		r.keys[k.hash] = struct{}{}
	}
	for _, d := range v.denials {
		r.keys[d.hash] = struct{}{}
	}
}

func (r *run) of(d denial) *ruleTally {
	t := r.rules[d.rule]
	if t == nil {
		t = &ruleTally{denied: map[[16]byte]struct{}{}, allowed: map[[16]byte]struct{}{}}
		t.ID = d.rule
		r.rules[d.rule] = t
	}
	return t
}

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

func (t *ruleTally) deniedNewly(hash [16]byte) {
	t.DeniedRequests++
	if _, known := t.denied[hash]; !known && len(t.Examples) < MaxExamples {
		t.Examples = append(t.Examples, hash)
	}
	t.denied[hash] = struct{}{}
}

func (t *ruleTally) allowedNewly(hash [16]byte) {
	t.AllowedRequests++
	t.allowed[hash] = struct{}{}
}
