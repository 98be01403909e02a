package rules

import (
	"hash/fnv"
	"slices"
	"strconv"

	"aliquot/rules/pattern"
)

// NamesKey reports whether the override names one API key, and has no wildcard.
func (o *Override) NamesKey() bool { return !pattern.OfKey(o.Pattern).Glob }

// Wildcards identifies the rule's overrides that have wildcards: their patterns, ends and precedence. It is 0
// if there are none.
func (r *Rule) Wildcards() uint64 { return r.wildcards }

func wildcardsOf(overrides []Override) uint64 {
	sum, some := fnv.New64a(), false
	for i := range overrides {
		if o := &overrides[i]; !o.NamesKey() {
			some = true
			_, _ = sum.Write(strconv.AppendInt(append([]byte(o.Pattern), 0), o.UntilMS, 10))
		}
	}
	if !some {
		return 0
	}
	return max(1, sum.Sum64())
}

// OverrideAgain returns the override of a client whose API key is not known, or nil. was is the pattern of the
// client's override in an earlier version of the rule, whose Wildcards are given; empty if it had none. named
// returns the API key if an override of some rule names it. known is false if nothing says which override it is.
//
// Which overrides with wildcards match a client depends on its API key alone. So as long as they are the same
// ones, the first that matches is the same one, until it ends.
func (r *Rule) OverrideAgain(was string, wildcards uint64, named func() (string, bool), nowMS int64) (o *Override, known bool) {
	if len(r.overrides) == 0 {
		return nil, true
	}
	key, is := was, was != "" && !pattern.OfKey(was).Glob
	if !is {
		key, is = named()
	}
	switch {
	case is:
		return r.OverrideFor(key, nowMS), true
	case r.wildcards == 0, r.wildcards == wildcards && was == "":
		return nil, true
	case r.wildcards != wildcards:
		return nil, false
	}
	i := slices.IndexFunc(r.overrides, func(o Override) bool { return o.Pattern == was && o.Holds(nowMS) })
	if i < 0 {
		return nil, false
	}
	return &r.overrides[i], true
}
