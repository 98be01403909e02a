package rules

import (
	"slices"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
)

// anchor is one condition under which a rule can be indexed. For requests that do not meet it the
// rule need not be tried.
type anchor struct {
	attribute string
	prefix    bool
	text      string
}

// ruleIndex finds the rules that could match a request. A rule may be indexed in several places,
// for a condition that accepts several values.
type ruleIndex struct {
	attributes map[string]*attributeIndex
	// tiers is the element of attributes for rules indexed under a tier; nil if there are none.
	tiers  *attributeIndex
	always []int32
}

type attributeIndex struct {
	exact    map[string][]int32
	prefixes pattern.Prefixes
}

// newRuleIndex indexes each rule under its rarest condition, so that ten thousand rules of one tier
// are distinguished by something else than the tier. A condition is as common as the most common of
// the values that it accepts.
func newRuleIndex(rules []*Rule) ruleIndex {
	index := ruleIndex{attributes: make(map[string]*attributeIndex)}
	common := make(map[anchor]int)
	for _, r := range rules {
		for i := range r.conditions {
			for _, a := range anchorsOf(&r.conditions[i]) {
				common[a]++
			}
		}
	}
	for ordinal, r := range rules {
		var best []anchor
		least := 0
		for i := range r.conditions {
			anchors := anchorsOf(&r.conditions[i])
			most := 0
			for _, a := range anchors {
				most = max(most, common[a])
			}
			if most > 0 && (best == nil || most < least) {
				best, least = anchors, most
			}
		}
		if best == nil {
			index.always = append(index.always, int32(ordinal))
		}
		for _, a := range best {
			index.file(a, int32(ordinal))
		}
	}
	index.tiers = index.attributes[document.TierAttribute]
	return index
}

func (x *ruleIndex) file(a anchor, ordinal int32) {
	under := x.attributes[a.attribute]
	if under == nil {
		under = &attributeIndex{exact: make(map[string][]int32)}
		x.attributes[a.attribute] = under
	}
	if a.prefix {
		under.prefixes.Add(a.text, ordinal)
	} else {
		under.exact[a.text] = append(under.exact[a.text], ordinal)
	}
}

// anchorsOf returns the anchors under which a rule can be indexed by the condition: one for each
// value that it accepts, each once. An absent attribute counts as empty, so a condition that may
// accept an empty value has none. The tier is an exception, because it is looked up for every
// request.
func anchorsOf(c *pattern.Condition) []anchor {
	var out []anchor
	for i := range c.Values {
		m := &c.Values[i]
		a := anchor{attribute: c.Attribute, text: m.Prefix}
		if !m.IsExact() {
			a.prefix, a.text = true, pattern.IndexedPrefix(m.Prefix)
		}
		if a.text == "" {
			return nil
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	if c.OrNone {
		out = append(out, anchor{attribute: c.Attribute})
	}
	return out
}

// unindexed returns the rules that are tried for every request without a tier.
func (x *ruleIndex) unindexed() []int32 {
	if x.tiers != nil && len(x.tiers.exact[""]) > 0 {
		return slices.Sorted(slices.Values(slices.Concat(x.always, x.tiers.exact[""])))
	}
	return x.always
}
