package rules

import "slices"

// maxIndexedPrefix caps the prefix under which a pattern is indexed, and so the number of look-ups
// for one value.
const maxIndexedPrefix = 32

// prefixTable finds ordinals by a prefix of a value. The zero value is empty.
type prefixTable struct {
	lengths []int // the distinct lengths of prefixes, ascending
	under   map[string][]int32
}

func indexedPrefix(s string) string { return s[:min(len(s), maxIndexedPrefix)] }

// add indexes an ordinal. Ordinals must come in ascending order.
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
	prefixes prefixTable
}

// newRuleIndex indexes each rule under its rarest condition, so that ten thousand rules of one tier
// are distinguished by something else than the tier. A condition is as common as the most common of
// the values that it accepts.
func newRuleIndex(rules []*Rule) ruleIndex {
	index := ruleIndex{attributes: make(map[string]*attributeIndex)}
	common := make(map[anchor]int)
	for _, r := range rules {
		for i := range r.conditions {
			for _, a := range r.conditions[i].anchors() {
				common[a]++
			}
		}
	}
	for ordinal, r := range rules {
		var best []anchor
		least := 0
		for i := range r.conditions {
			anchors := r.conditions[i].anchors()
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
	index.tiers = index.attributes[tierAttribute]
	return index
}

func (x *ruleIndex) file(a anchor, ordinal int32) {
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

// anchors returns the anchors under which a rule can be indexed by the condition: one for each
// value that it accepts, each once. An absent attribute counts as empty, so a condition that may
// accept an empty value has none. The tier is an exception, because it is looked up for every
// request.
func (c *condition) anchors() []anchor {
	var out []anchor
	for i := range c.values {
		m := &c.values[i]
		a := anchor{attribute: c.attribute, text: m.prefix}
		if !m.isExact() {
			a.prefix, a.text = true, indexedPrefix(m.prefix)
		}
		if a.text == "" {
			return nil
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	if c.orNone {
		out = append(out, anchor{attribute: c.attribute})
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
