package rules

import (
	"fmt"

	"aliquot/rules/document"
	"aliquot/rules/source"
)

// Explanation says how a Set treats one request. It names attributes and the values that the file
// requires, never the values of the request.
type Explanation struct {
	// List says whether a list decides, and Entry which of its entries does. The rules are
	// explained as if no list did.
	List  ListKind
	Entry *ListEntry
	// AboveFile: Entry is a block or an allow above the file.
	AboveFile bool
	// Tier is the tier of the request; empty if it has none.
	Tier string
	// Rules has an element for each rule, in the order of the file.
	Rules []Trace
}

// Trace says why one rule applies to a request, or why it does not.
type Trace struct {
	Rule *Rule
	// Matched: the rule applies. Set.Match returns the same rules.
	Matched bool
	// Unmet is a condition that the request does not meet, such as `method "POST"`; empty if it
	// meets all of them.
	Unmet string
	// ReplacedBy is the id of the first rule that replaces this one for the request, because the
	// request meets its conditions; empty if there is none, or if Unmet is not empty.
	ReplacedBy string
	// Override is the override that sets the limit of the request's API key, or nil. It is also set
	// for rules that do not apply.
	Override *Override
}

// WhyNot returns the reason in a sentence; empty if the rule applies.
func (t *Trace) WhyNot() string {
	switch {
	case t.Unmet != "":
		return "the request does not have " + t.Unmet
	case t.ReplacedBy != "":
		return fmt.Sprintf("rule %s replaces it", t.ReplacedBy)
	}
	return ""
}

// Explain says for each rule whether Match finds it for these attributes at nowMS, Unix
// milliseconds, and why not. Its time grows with the number of rules: it is meant for people.
func (s *Set) Explain(attrs Attributes, nowMS int64) Explanation {
	out := s.explain(s.subject(attrs), nowMS)
	if of := s.subject(attrs); s.decode(&of) {
		for i, t := range s.explain(of, nowMS).Rules {
			if t.Matched {
				out.Rules[i] = t
			}
		}
	}
	return out
}

// explain is Explain for one of the paths of a request.
func (s *Set) explain(of subject, nowMS int64) Explanation {
	attrs := of.attrs
	apiKey := attrs.Get(document.APIKeyAttribute)
	out := Explanation{Tier: of.tier(), Rules: make([]Trace, len(s.rules))}
	out.List, out.Entry, out.AboveFile = s.listed(apiKey, nowMS)
	for i, r := range s.rules {
		t := &out.Rules[i]
		t.Rule, t.Override = r, r.OverrideFor(apiKey, nowMS)
		if c := unmet(r.conditions, &of); c != nil {
			t.Unmet = c.String()
			if c.Attribute == document.TierAttribute && of.tier() != "" && of.tier() != attrs.Get(document.TierAttribute) {
				t.Unmet += fmt.Sprintf(": the file assigns it to the tier %q", source.Shorten(of.tier()))
			}
		}
	}
	for i, r := range s.rules {
		t := &out.Rules[i]
		if t.Unmet != "" {
			continue
		}
		for _, by := range r.replacedBy {
			if out.Rules[by].Unmet == "" {
				t.ReplacedBy = s.rules[by].ID
				break
			}
		}
		t.Matched = t.ReplacedBy == ""
	}
	return out
}
