package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"aliquot/limit"
)

// MaxTierValues bounds the tiers that have a value of their own.
const MaxTierValues = MaxTiers

// TierValue is the limit that an operator has set for a tier, above the numbers that the
// file states for the tier and its rules. It holds for rules of the tier that count
// requests; overrides stay above it. What is zero or empty is not stated:
//   - Limit: for a limit that counts, its limit; for a bucket, as many requests in each
//     window of the rule, and the burst where Capacity is not stated.
//   - Capacity: the burst of a bucket. A limit that counts has none and takes Limit.
//   - RefillRate: requests a second of a bucket; not beside Limit.
//   - Window: in place of the rule's, beside Limit or Capacity.
type TierValue struct {
	Tier string `json:"tier"`
	ParamsText
}

// StatedTier is a tier's value as a message carries it.
type StatedTier interface {
	GetTier() string
	GetCapacity() int64
	GetLimit() int64
	GetRefillRate() string
	GetWindowMicros() int64
}

// TierValuesOf returns the values that messages carry.
func TierValuesOf[M StatedTier](messages []M) []TierValue {
	out := make([]TierValue, len(messages))
	for i, m := range messages {
		out[i] = TierValue{Tier: m.GetTier(), ParamsText: ParamsText{
			Capacity: m.GetCapacity(), Limit: m.GetLimit(), RefillRate: m.GetRefillRate(),
			Window: time.Duration(m.GetWindowMicros()) * time.Microsecond,
		}}
	}
	return out
}

// String returns the value as people state it, such as "limit 500, window 1m0s".
func (v TierValue) String() string {
	var out []string
	state := func(name string, is bool, value any) {
		if is {
			out = append(out, fmt.Sprintf("%s %v", name, value))
		}
	}
	state("limit", v.Limit != 0, v.Limit)
	state("capacity", v.Capacity != 0, v.Capacity)
	state("refill_rate", v.RefillRate != "", v.RefillRate)
	state("window", v.Window != 0, v.Window)
	return strings.Join(out, ", ")
}

// With returns the set under tier values: a copy in which they are the limits of the
// rules that they hold for. A value that says nothing about any rule of s, or nothing
// that suits it, is without effect there. Values that s had before are not kept. s is
// not changed.
func (s *Set) With(values []TierValue) *Set {
	file := s.asInFile()
	if len(values) == 0 {
		return file
	}
	stated := make(map[string]*TierValue, len(values))
	for i := range values {
		stated[values[i].Tier] = &values[i]
	}
	out := *file
	out.file = file
	out.rules, out.byID = slices.Clone(file.rules), make(map[string]*Rule, len(file.rules))
	for i, r := range out.rules {
		if v := stated[r.Tier]; v != nil {
			if under, why := r.under(v); why == "" {
				out.rules[i] = under
			}
		}
		out.byID[r.ID] = out.rules[i]
	}
	return &out
}

// asInFile returns the set without tier values.
func (s *Set) asInFile() *Set {
	if s.file != nil {
		return s.file
	}
	return s
}

// CheckTierValue tells what is wrong with a value, nil if nothing is: ErrNotThere if no
// rule names the tier and the file assigns no request to it, ErrBadEdit if its numbers
// make no sense for a rule that it is to hold for.
func (s *Set) CheckTierValue(v TierValue) error {
	if !s.HasTier(v.Tier) {
		if len(s.Tiers()) == 0 {
			return fmt.Errorf("%w: no rule names a tier, and the file assigns none", ErrNotThere)
		}
		return fmt.Errorf("%w: no rule names the tier %q, and the file assigns no request to it; %s", ErrNotThere, shorten(v.Tier), knownHere(s.Tiers()))
	}
	if _, why := v.params(); why != "" {
		return fmt.Errorf("%w: %s", ErrBadEdit, why)
	}
	there, counts := false, false
	for _, r := range s.asInFile().rules {
		if r.Tier != v.Tier {
			continue
		}
		there = true
		if r.Unit != UnitRequests {
			continue
		}
		counts = true
		if _, why := r.under(&v); why != "" {
			return fmt.Errorf("%w: rule %s: %s", ErrBadEdit, r.ID, why)
		}
	}
	if there && !counts {
		return fmt.Errorf("%w: no rule of the tier %q counts requests, and only those have the value of a tier; change the file", ErrBadEdit, shorten(v.Tier))
	}
	return nil
}

// params reads the numbers as those of a file are read; why says what is wrong with them
// whatever they are for, "" if nothing is.
func (v *TierValue) params() (p params, why string) {
	stated, err := v.fields()
	if err != nil {
		return params{}, err.Error()
	}
	d := &decoder{problems: &problems{}}
	p = d.params(mappingNode(stated...), "params")
	switch {
	case len(d.found) > 0:
		return p, d.found[0].Message
	case p == params{}:
		return p, "no limit is stated; state limit or capacity"
	case p.limit != 0 && p.rate != limit.Rate{}:
		return p, "limit and refill_rate both state a rate; state one of them"
	case p.limit == 0 && p.capacity == 0 && p.window != 0:
		return p, "window alone states no limit; state limit beside it"
	}
	return p, ""
}

// under returns the rule with the limit of its tier's value, or why it has none.
func (r *Rule) under(v *TierValue) (out *Rule, why string) {
	if r.Unit != UnitRequests {
		return nil, "it counts " + r.Unit + ", not requests"
	}
	stated, why := v.params()
	if why != "" {
		return nil, why
	}
	p := r.params
	switch {
	case r.Limit.Algorithm.Counts():
		if stated.limit == 0 {
			return nil, r.Algorithm + " has a limit and a window, no capacity or refill_rate; state limit"
		}
		p.limit, p.window = stated.limit, cmp.Or(stated.window, p.window)
	default:
		p = stated.over(p)
		if p.limit != 0 && p.window == 0 {
			p.window = r.Window
		}
	}
	changed := *r
	if changed.Limit, changed.Window, why = p.under(r.Algorithm); why != "" {
		return nil, why
	}
	changed.SetForTier = true
	changed.overrides = slices.Clone(r.overrides)
	for i := range changed.overrides {
		o := &changed.overrides[i]
		if l, window, why := o.params.over(p).under(r.Algorithm); why == "" {
			o.Limit, o.Window = l, window
		}
	}
	return &changed, ""
}
