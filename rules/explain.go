package rules

import "fmt"

// Explanation tells how a Set sees one request. It names attributes and what the file
// asks of them, never what the request carries.
type Explanation struct {
	// List tells whether a list decides, Entry by which of its entries. The rules
	// are explained all the same, as if it did not.
	List  ListKind
	Entry *ListEntry
	// AboveFile tells that Entry is a block or an allow above the file.
	AboveFile bool
	// Tier is the tier that the request belongs to; empty if to none.
	Tier string
	// Rules has an element for each rule, in the order of the file.
	Rules []Trace
}

// Trace tells why one rule applies to a request, or why it does not.
type Trace struct {
	Rule *Rule
	// Matched tells whether the rule applies; Set.Match gives the same ones.
	Matched bool
	// Unmet is the condition that the request does not meet, such as
	// `method "POST"`; empty if it meets all.
	Unmet string
	// ReplacedBy is the id of the first rule that replaces this one for the request,
	// of those whose conditions it meets; empty if none does, or Unmet is not.
	ReplacedBy string
	// Override is the override that sets the limit of the request's API key, nil if
	// none does. It is there for rules that do not apply as well.
	Override *Override
}

// WhyNot is the reason in a sentence; empty if the rule applies.
func (t *Trace) WhyNot() string {
	switch {
	case t.Unmet != "":
		return "the request does not have " + t.Unmet
	case t.ReplacedBy != "":
		return fmt.Sprintf("rule %s replaces it", t.ReplacedBy)
	}
	return ""
}

// Explain tells for each rule whether Match finds it for these attributes at nowMS,
// Unix milliseconds, and why not. Its time is in the number of rules: it is for
// people.
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

// explain is Explain for the one path that a request is given with.
func (s *Set) explain(of subject, nowMS int64) Explanation {
	attrs := of.attrs
	apiKey := attrs.Get(apiKeyAttribute)
	out := Explanation{Tier: of.tier, Rules: make([]Trace, len(s.rules))}
	out.List, out.Entry, out.AboveFile = s.listed(apiKey, nowMS)
	for i, r := range s.rules {
		t := &out.Rules[i]
		t.Rule, t.Override = r, r.OverrideFor(apiKey, nowMS)
		if c := unmet(r.conditions, &of); c != nil {
			t.Unmet = c.String()
			if c.attribute == tierAttribute && of.tier != "" && of.tier != attrs.Get(tierAttribute) {
				t.Unmet += fmt.Sprintf(": the file assigns it to the tier %q", shorten(of.tier))
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
