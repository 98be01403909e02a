package rules

import "slices"

// maxIndexedPrefix bounds the prefix a pattern is filed under, and with it the
// number of look-ups for one value.
const maxIndexedPrefix = 32

// prefixTable finds ordinals by a prefix of a value. The zero value is empty.
type prefixTable struct {
	lengths []int // the distinct lengths of prefixes, ascending
	under   map[string][]int32
}

func indexedPrefix(s string) string { return s[:min(len(s), maxIndexedPrefix)] }

// add files an ordinal; ordinals come in ascending order.
func (t *prefixTable) add(prefix string, ordinal int32) {
	if t.under == nil {
		t.under = make(map[string][]int32)
	}
	prefix = indexedPrefix(prefix)
	if at, found := slices.BinarySearch(t.lengths, len(prefix)); !found {
		t.lengths = slices.Insert(t.lengths, at, len(prefix))
	}
	t.under[prefix] = append(t.under[prefix], ordinal)
}

// patternSet finds the first of many patterns that matches a text. It is immutable
// once built; the zero value matches nothing.
type patternSet struct {
	patterns []pattern
	exact    map[string]int32
	globs    prefixTable
}

func newPatternSet(patterns []pattern) patternSet {
	s := patternSet{patterns: patterns, exact: make(map[string]int32)}
	for i, p := range patterns {
		if p.glob {
			s.globs.add(p.prefix, int32(i))
		} else if _, twice := s.exact[p.text]; !twice {
			s.exact[p.text] = int32(i)
		}
	}
	return s
}

// first returns the lowest ordinal whose pattern matches, -1 if none does.
func (s *patternSet) first(text string) int {
	best := int32(len(s.patterns))
	if i, ok := s.exact[text]; ok {
		best = i
	}
	for _, n := range s.globs.lengths {
		if n > len(text) {
			break
		}
		for _, i := range s.globs.under[text[:n]] {
			if i >= best {
				break
			}
			if s.patterns[i].match(text) {
				best = i
			}
		}
	}
	if int(best) == len(s.patterns) {
		return -1
	}
	return int(best)
}

// anchor is one condition a rule can be filed under: requests that do not meet it
// need not look at the rule.
type anchor struct {
	attribute string
	prefix    bool
	text      string
}

// ruleIndex finds the rules that could match a request. Each rule is in one place.
type ruleIndex struct {
	attributes map[string]*attributeIndex
	always     []int32
}

type attributeIndex struct {
	exact    map[string][]int32
	prefixes prefixTable
}

// newRuleIndex files each rule under its rarest condition, so that ten thousand
// rules of one tier are told apart by something else than the tier.
func newRuleIndex(rules []*Rule) ruleIndex {
	index := ruleIndex{attributes: make(map[string]*attributeIndex)}
	common := make(map[anchor]int)
	for _, r := range rules {
		r.eachAnchor(func(a anchor) { common[a]++ })
	}
	for i, r := range rules {
		var best anchor
		r.eachAnchor(func(a anchor) {
			if best == (anchor{}) || common[a] < common[best] {
				best = a
			}
		})
		index.file(best, int32(i))
	}
	return index
}

func (x *ruleIndex) file(a anchor, ordinal int32) {
	if a == (anchor{}) {
		x.always = append(x.always, ordinal)
		return
	}
	under := x.attributes[a.attribute]
	if under == nil {
		under = &attributeIndex{exact: make(map[string][]int32)}
		x.attributes[a.attribute] = under
	}
	if a.prefix {
		under.prefixes.add(a.text, ordinal)
	} else {
		under.exact[a.text] = append(under.exact[a.text], ordinal)
	}
}

// eachAnchor names the conditions the rule can be filed under. An absent attribute
// counts as empty, so a condition that an empty value meets is none of them.
func (r *Rule) eachAnchor(yield func(a anchor)) {
	for _, c := range r.conditions {
		switch {
		case c.pattern.prefix == "":
		case c.pattern.glob:
			yield(anchor{attribute: c.attribute, prefix: true, text: indexedPrefix(c.pattern.prefix)})
		default:
			yield(anchor{attribute: c.attribute, text: c.pattern.text})
		}
	}
	if r.endpoint != nil && r.endpoint.prefix != "" {
		yield(anchor{attribute: endpointAttribute, prefix: true, text: indexedPrefix(r.endpoint.prefix)})
	}
}
