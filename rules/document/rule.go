package document

import (
	"slices"
	"strings"

	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// Rule is one rule as written.
type Rule struct {
	At         source.Position
	ID         string
	idAt       source.Position
	Tier       string
	tierAt     source.Position
	ParamsAt   source.Position
	Version    int64
	Conditions []pattern.Condition
	Overrides  []Override
	Replaces   []source.Reference
	InRequest  []source.Reference
	Settings
}

// String names the rule in a message.
func (r *Rule) String() string {
	if r.ID == "" {
		return "the rule"
	}
	return "rule " + r.ID
}

// Override is one entry of a rule's override as written.
type Override struct {
	At      source.Position
	Pattern pattern.Pattern
	Params  Params
	Note    Note
	Broken  bool
}

func (d *decoder) ruleTexts(f *source.Field) []*Rule {
	var out []*Rule
	seen := make(map[string]source.Position)
	d.List(f.Value, "rules", MaxRules, func(item *source.Node) {
		r := d.rule(item)
		if first, twice := seen[r.ID]; twice && r.ID != "" {
			d.Add(r.idAt, "rule id %q is already used on line %d; ids must differ", r.ID, first.Line)
		} else {
			seen[r.ID] = r.idAt
		}
		out = append(out, r)
	})
	return out
}

func (d *decoder) rule(n *source.Node) *Rule {
	r := &Rule{At: n.At, idAt: n.At, ParamsAt: n.At}
	known := d.settingsSchema(&r.Settings)
	readParams := known["params"]
	known["params"] = func(f *source.Field) { r.ParamsAt = f.At; readParams(f) }
	known["id"] = func(f *source.Field) { r.idAt = f.Value.At; r.ID = d.id(f) }
	known["tier"] = func(f *source.Field) { r.tierAt = f.At; r.Tier, _ = d.Text(f.Value, "tier", source.MaxNameChars) }
	known["match"] = func(f *source.Field) { r.Conditions = append(r.Conditions, d.match(f)...) }
	known["override"] = func(f *source.Field) { r.Overrides = d.overrides(f) }
	known["version"] = func(f *source.Field) { r.Version = d.version(f) }
	known["replaces"] = func(f *source.Field) { r.Replaces = d.Names(f, "a rule id of replaces", MaxReplaces) }
	known["replaces_in_request"] = func(f *source.Field) { r.InRequest = d.Names(f, "a rule id of replaces_in_request", MaxReplaces) }
	if !d.Mapping(n, "a rule", known) {
		r.Broken = true
	}
	if r.Tier != "" {
		r.Conditions = slices.Insert(r.Conditions, 0, r.tierCondition())
	}
	if n.Kind == source.KindMapping && !hasField(n, "id") {
		d.Add(n.At, "the rule has no id; add one, like id: orders-pro")
	}
	return r
}

func hasField(n *source.Node, name string) bool {
	for _, f := range n.Fields {
		if f.Name == name {
			return true
		}
	}
	return false
}

// id reads a rule id, which becomes a metrics label and part of headers.
func (d *decoder) id(f *source.Field) string {
	id, ok := d.Text(f.Value, "id", source.MaxNameChars)
	if !ok {
		return ""
	}
	if strings.ContainsFunc(id, func(r rune) bool { return !IsIDRune(r) }) {
		d.Add(f.Value.At, "id %q must be of letters, digits, dots, underscores and hyphens; change the others", source.Shorten(id))
		return ""
	}
	return id
}

func IsIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}

// tierCondition returns the condition of a rule's tier: a request must have that tier. If the rule
// has other conditions, a request without a tier meets it too.
func (r *Rule) tierCondition() pattern.Condition {
	return pattern.Condition{
		Attribute: TierAttribute, Values: []pattern.Matcher{{Pattern: pattern.New(r.Tier, false)}}, At: r.tierAt,
		OrNone: slices.ContainsFunc(r.Conditions, func(c pattern.Condition) bool { return c.Attribute != TierAttribute }),
	}
}

func (d *decoder) version(f *source.Field) int64 {
	if !d.Is(f.Value, source.KindNumber, "version") {
		return 0
	}
	v, ok := parseVersion(f.Value.Text)
	if !ok {
		d.Add(f.Value.At, "version must be a whole number, 0 or more; write it like 3")
	}
	return v
}

// match reads the conditions of a rule or a tier.
func (d *decoder) match(f *source.Field) []pattern.Condition {
	var out []pattern.Condition
	d.Mapping(f.Value, "match", source.Schema{
		"api_key_pattern": func(f *source.Field) {
			if text, ok := d.Text(f.Value, f.Name, pattern.MaxChars); ok {
				out = append(out, pattern.Condition{Attribute: APIKeyAttribute, Values: []pattern.Matcher{{Pattern: pattern.OfKey(text)}}, At: f.At})
			}
		},
		"endpoint_regex": func(f *source.Field) {
			if m, ok := d.regex(f); ok {
				out = append(out, pattern.Condition{Attribute: EndpointAttribute, Values: []pattern.Matcher{m}, At: f.At})
			}
		},
		"attributes": func(f *source.Field) { out = append(out, d.attributes(f)...) },
	})
	return out
}

// regex reads a regular expression.
func (d *decoder) regex(f *source.Field) (m pattern.Matcher, ok bool) {
	text, ok := d.Text(f.Value, f.Name, pattern.MaxChars)
	if !ok {
		return m, false
	}
	m, why := d.regexes.Compile(text)
	if why != "" {
		d.Add(f.Value.At, "%s %s", f.Name, why)
	}
	return m, why == ""
}

func (d *decoder) attributes(f *source.Field) []pattern.Condition {
	var out []pattern.Condition
	if !d.Is(f.Value, source.KindMapping, "attributes") {
		return nil
	}
	if len(f.Value.Fields) > MaxAttributes {
		d.Add(f.At, "attributes has %d entries; at most %d are accepted", len(f.Value.Fields), MaxAttributes)
		return nil
	}
	d.EachField(f.Value, func(a *source.Field) {
		named := d.Named(a.At, a.Name, "the attribute's name", source.MaxNameChars)
		if values := d.attributeValues(a); len(values) > 0 && named {
			out = append(out, pattern.Condition{Attribute: a.Name, Values: values, At: a.At})
		}
	})
	return out
}

// attributeValues reads the values that an attribute may have: one value or a list. No values means
// that there was a problem.
func (d *decoder) attributeValues(a *source.Field) []pattern.Matcher {
	if a.Value.Kind != source.KindSequence {
		if m, ok := d.attributeValue(a.Name, a.Value); ok {
			return []pattern.Matcher{m}
		}
		return nil
	}
	if len(a.Value.Items) == 0 {
		d.Add(a.Value.At, "the value of attribute %s is an empty list, which no request matches; write a value", source.Shorten(a.Name))
		return nil
	}
	var out []pattern.Matcher
	sound := true
	d.List(a.Value, "the value of attribute "+source.Shorten(a.Name), MaxValues, func(item *source.Node) {
		m, ok := d.attributeValue(a.Name, item)
		out, sound = append(out, m), sound && ok
	})
	if !sound {
		return nil
	}
	return out
}

// attributeValue reads one value: an exact text or a glob, or {regex: ...}. An empty text requires
// that the attribute is absent.
func (d *decoder) attributeValue(attribute string, n *source.Node) (m pattern.Matcher, ok bool) {
	switch n.Kind {
	case source.KindMapping:
		d.Mapping(n, "a value of attribute "+source.Shorten(attribute), source.Schema{
			"regex": func(f *source.Field) { m, ok = d.regex(f) },
		})
		if len(n.Fields) == 0 {
			d.Add(n.At, "a value of attribute %s is an empty mapping; write a text or {regex: ...}", source.Shorten(attribute))
		}
		return m, ok
	case source.KindString:
		if n.Text == "" {
			return pattern.Matcher{}, true
		}
	}
	text, ok := d.Text(n, "the value of attribute "+source.Shorten(attribute), pattern.MaxChars)
	if attribute == APIKeyAttribute {
		return pattern.Matcher{Pattern: pattern.OfKey(text)}, ok
	}
	return pattern.Matcher{Pattern: pattern.OfValue(text)}, ok
}

func (d *decoder) overrides(f *source.Field) []Override {
	if !d.Is(f.Value, source.KindMapping, "override") {
		return nil
	}
	if len(f.Value.Fields) > MaxOverrides {
		d.Add(f.At, "override has %d entries; at most %d are accepted", len(f.Value.Fields), MaxOverrides)
		return nil
	}
	var out []Override
	d.EachField(f.Value, func(o *source.Field) {
		before := d.Count()
		d.Named(o.At, o.Name, "the override's API key pattern", pattern.MaxChars)
		text := Override{At: o.At, Pattern: pattern.OfKey(o.Name)}
		text.Params = d.paramsWith(o.Value, "an override", d.noteSchema(&text.Note))
		text.Broken = d.Count() > before
		if text.Params == (Params{}) && !text.Broken {
			d.Warn(o.At, "the override of %q states no number, so these API keys have the rule's limit; state one, or remove the override", source.Shorten(o.Name))
		}
		out = append(out, text)
	})
	return out
}
