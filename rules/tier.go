package rules

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
)

// subject is a request in the form that conditions compare. path is its endpoint after pathOf.
type subject struct {
	attrs Attributes
	path  string
	// tiers assigns the tier that tier returns, which few rules ask for; nil: assigned has it.
	tiers    *tiers
	assigned string
}

// tier returns the tier of the request.
func (s *subject) tier() string {
	if t := s.tiers; t != nil {
		s.tiers, s.assigned = nil, t.of(s)
	}
	return s.assigned
}

// value returns the value of an attribute that conditions compare.
func (s *subject) value(attribute string) string {
	switch attribute {
	case document.EndpointAttribute:
		return s.path
	case document.TierAttribute:
		return s.tier()
	}
	return s.attrs.Get(attribute)
}

// subject returns a request in the form that conditions compare.
func (s *Set) subject(attrs Attributes) subject {
	return subject{attrs: attrs, path: pathOf(attrs.Get(document.EndpointAttribute)), tiers: &s.tiers}
}

// TierOf returns the tier of a request. It is the tier that the request names in the attribute
// tier, if a rule or the file's tiers know it. Otherwise it is the tier that the file assigns, or
// "". A file without tiers accepts every name. TierOf allocates nothing and only reads attrs.
func (s *Set) TierOf(attrs Attributes) string {
	of := s.subject(attrs)
	return of.tier()
}

// UnknownTier reports whether a request names a tier that the file does not know although it knows
// others. Such a name counts as none.
func (s *Set) UnknownTier(attrs Attributes) bool {
	if !s.tiers.inUse() {
		return false
	}
	named := attrs.Get(document.TierAttribute)
	return named != "" && !s.tiers.knows(named)
}

// HasTier reports whether a rule names the tier or the file assigns requests to it.
func (s *Set) HasTier(tier string) bool { return slices.Contains(s.tiers.named, tier) }

// Tiers returns the tiers that a rule names or that the file assigns requests to, sorted. The
// caller must not change the slice.
func (s *Set) Tiers() []string { return s.tiers.named }

// tiers finds the tier of a request. The zero value knows none.
type tiers struct {
	// named are the tiers that rules name and those with a match, sorted.
	named []string
	// known are all exact names in rules and in the file's tiers.
	known map[string]struct{}
	// patterns are the values that rules accept for the attribute tier, other than exact names.
	patterns []pattern.Matcher
	// assigned are in the order of their strength: the exact key, then the longest pattern for
	// keys, then assignments without one. A tier has one assignment for each API key that it lists.
	assigned []assignment
	exact    map[string][]int32
	globs    pattern.Prefixes
	others   []int32
}

// assignment gives a tier to requests that meet all its conditions.
type assignment struct {
	tier string
	// key is the pattern for API keys that the request must match; the zero value if the assignment
	// has none.
	key        pattern.Matcher
	strength   int
	conditions []pattern.Condition
}

// exactKey is the strength of an assignment that names one API key. It is above the strength of any
// pattern, which is the pattern's length.
const exactKey = pattern.MaxChars + 1

// inUse reports whether the file states anything about tiers.
func (t *tiers) inUse() bool { return len(t.known) > 0 || len(t.patterns) > 0 }

func (t *tiers) knows(name string) bool {
	if _, known := t.known[name]; known {
		return true
	}
	for i := range t.patterns {
		if t.patterns[i].Match(name) {
			return true
		}
	}
	return false
}

// of returns the tier of a request. It does not call s.tier.
func (t *tiers) of(s *subject) string {
	named := s.attrs.Get(document.TierAttribute)
	if !t.inUse() || named != "" && t.knows(named) {
		return named
	}
	if len(t.assigned) == 0 {
		return ""
	}
	apiKey := s.attrs.Get(document.APIKeyAttribute)
	best := t.first(t.exact[apiKey], s, apiKey, int32(len(t.assigned)))
	for _, n := range t.globs.Lengths {
		if n > len(apiKey) {
			break
		}
		best = t.first(t.globs.Under[apiKey[:n]], s, apiKey, best)
	}
	best = t.first(t.others, s, apiKey, best)
	if int(best) == len(t.assigned) {
		return ""
	}
	return t.assigned[best].tier
}

// first returns the first of the ascending candidates that the request meets, or best if none
// before best does.
func (t *tiers) first(candidates []int32, s *subject, apiKey string, best int32) int32 {
	for _, i := range candidates {
		if i >= best {
			break
		}
		if a := &t.assigned[i]; (a.strength == 0 || a.key.Match(apiKey)) && unmet(a.conditions, s) == nil {
			return i
		}
	}
	return best
}

// tiersOf finds all tiers and the requests that belong to them.
func (d *draft) tiersOf(doc *document.Document) tiers {
	t := tiers{known: make(map[string]struct{}), exact: make(map[string][]int32)}
	named := make(map[string]struct{})
	for _, r := range doc.Rules {
		if r.Tier != "" {
			named[r.Tier] = struct{}{}
		}
		for i := range r.Conditions {
			if c := &r.Conditions[i]; c.Attribute == document.TierAttribute {
				t.learn(c)
			}
		}
	}
	for name, text := range doc.Tiers {
		t.known[name] = struct{}{}
		if text.Assigns() {
			named[name] = struct{}{}
			t.assigned = append(t.assigned, assignmentsOf(name, text)...)
		}
	}
	for name := range named {
		t.named = append(t.named, name)
	}
	slices.Sort(t.named)
	slices.SortStableFunc(t.assigned, func(a, b assignment) int {
		return cmp.Or(cmp.Compare(b.strength, a.strength), strings.Compare(a.key.Text, b.key.Text), strings.Compare(a.tier, b.tier))
	})
	for i := range t.assigned {
		switch a := &t.assigned[i]; {
		case a.strength == exactKey:
			t.exact[a.key.Text] = append(t.exact[a.key.Text], int32(i))
		case a.strength == 0:
			t.others = append(t.others, int32(i))
		default:
			t.globs.Add(a.key.Prefix, int32(i))
		}
	}
	return t
}

// learn adds the tiers that a condition of a rule names.
func (t *tiers) learn(c *pattern.Condition) {
	for _, m := range c.Values {
		switch {
		case !m.IsExact():
			t.patterns = append(t.patterns, m)
		case m.Text != "":
			t.known[m.Text] = struct{}{}
		}
	}
}

// assignmentsOf returns one assignment for each API key or pattern for keys that the tier's match
// lists, and one if it lists none.
func assignmentsOf(name string, text *document.Tier) []assignment {
	at := slices.IndexFunc(text.Conditions, func(c pattern.Condition) bool {
		return c.Attribute == document.APIKeyAttribute && !slices.ContainsFunc(c.Values, func(m pattern.Matcher) bool { return m.Regex != nil })
	})
	if at < 0 {
		return []assignment{{tier: name, conditions: text.Conditions}}
	}
	rest := slices.Concat(text.Conditions[:at], text.Conditions[at+1:])
	var out []assignment
	for _, m := range text.Conditions[at].Values {
		a := assignment{tier: name, key: m, strength: exactKey, conditions: rest}
		if m.Glob {
			a.strength = utf8.RuneCountInString(m.Text)
		}
		out = append(out, a)
	}
	return out
}
