package rules

import (
	"slices"
	"strings"
)

// ruleText is one rule as written.
type ruleText struct {
	at         position
	id         string
	idAt       position
	tier       string
	tierAt     position
	paramsAt   position
	version    int64
	conditions []condition
	overrides  []overrideText
	replaces   []reference
	inRequest  []reference
	settings
}

// String names the rule in a message.
func (r *ruleText) String() string {
	if r.id == "" {
		return "the rule"
	}
	return "rule " + r.id
}

type overrideText struct {
	at      position
	pattern pattern
	params  params
	note    Note
	broken  bool
}

func (d *decoder) ruleTexts(f *field) []*ruleText {
	var out []*ruleText
	seen := make(map[string]position)
	d.list(f.value, "rules", MaxRules, func(item *node) {
		r := d.rule(item)
		if first, twice := seen[r.id]; twice && r.id != "" {
			d.add(r.idAt, "rule id %q is already used on line %d; ids must differ", r.id, first.line)
		} else {
			seen[r.id] = r.idAt
		}
		out = append(out, r)
	})
	return out
}

func (d *decoder) rule(n *node) *ruleText {
	r := &ruleText{at: n.at, idAt: n.at, paramsAt: n.at}
	known := d.settingsSchema(&r.settings)
	readParams := known["params"]
	known["params"] = func(f *field) { r.paramsAt = f.at; readParams(f) }
	known["id"] = func(f *field) { r.idAt = f.value.at; r.id = d.id(f) }
	known["tier"] = func(f *field) { r.tierAt = f.at; r.tier, _ = d.text(f.value, "tier", MaxNameChars) }
	known["match"] = func(f *field) { r.conditions = append(r.conditions, d.match(f)...) }
	known["override"] = func(f *field) { r.overrides = d.overrides(f) }
	known["version"] = func(f *field) { r.version = d.version(f) }
	known["replaces"] = func(f *field) { r.replaces = d.names(f, "a rule id of replaces", MaxReplaces) }
	known["replaces_in_request"] = func(f *field) { r.inRequest = d.names(f, "a rule id of replaces_in_request", MaxReplaces) }
	if !d.mapping(n, "a rule", known) {
		r.broken = true
	}
	if r.tier != "" {
		r.conditions = slices.Insert(r.conditions, 0, r.tierCondition())
	}
	if n.kind == kindMapping && !hasField(n, "id") {
		d.add(n.at, "the rule has no id; add one, like id: orders-pro")
	}
	return r
}

func hasField(n *node, name string) bool {
	for _, f := range n.fields {
		if f.name == name {
			return true
		}
	}
	return false
}

// id reads a rule id, which becomes a metrics label and part of headers.
func (d *decoder) id(f *field) string {
	id, ok := d.text(f.value, "id", MaxNameChars)
	if !ok {
		return ""
	}
	if strings.ContainsFunc(id, func(r rune) bool { return !isIDRune(r) }) {
		d.add(f.value.at, "id %q must be of letters, digits, dots, underscores and hyphens; change the others", shorten(id))
		return ""
	}
	return id
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}

// tierCondition returns the condition of a rule's tier: a request must have that tier. If the rule
// has other conditions, a request without a tier meets it too.
func (r *ruleText) tierCondition() condition {
	return condition{
		attribute: tierAttribute, values: []matcher{{pattern: newPattern(r.tier, false)}}, at: r.tierAt,
		orNone: slices.ContainsFunc(r.conditions, func(c condition) bool { return c.attribute != tierAttribute }),
	}
}

func (d *decoder) version(f *field) int64 {
	if !d.is(f.value, kindNumber, "version") {
		return 0
	}
	v, ok := parseVersion(f.value.text)
	if !ok {
		d.add(f.value.at, "version must be a whole number, 0 or more; write it like 3")
	}
	return v
}

// match reads the conditions of a rule or a tier.
func (d *decoder) match(f *field) []condition {
	var out []condition
	d.mapping(f.value, "match", schema{
		"api_key_pattern": func(f *field) {
			if text, ok := d.text(f.value, f.name, maxPatternChars); ok {
				out = append(out, condition{attribute: apiKeyAttribute, values: []matcher{{pattern: keyPattern(text)}}, at: f.at})
			}
		},
		"endpoint_regex": func(f *field) {
			if m, ok := d.regex(f); ok {
				out = append(out, condition{attribute: endpointAttribute, values: []matcher{m}, at: f.at})
			}
		},
		"attributes": func(f *field) { out = append(out, d.attributes(f)...) },
	})
	return out
}

// regex reads a regular expression.
func (d *decoder) regex(f *field) (m matcher, ok bool) {
	text, ok := d.text(f.value, f.name, maxPatternChars)
	if !ok {
		return m, false
	}
	m, why := d.regexes.compile(text)
	if why != "" {
		d.add(f.value.at, "%s %s", f.name, why)
	}
	return m, why == ""
}

func (d *decoder) attributes(f *field) []condition {
	var out []condition
	if !d.is(f.value, kindMapping, "attributes") {
		return nil
	}
	if len(f.value.fields) > MaxAttributes {
		d.add(f.at, "attributes has %d entries; at most %d are accepted", len(f.value.fields), MaxAttributes)
		return nil
	}
	d.eachField(f.value, func(a *field) {
		named := d.named(a.at, a.name, "the attribute's name", MaxNameChars)
		if values := d.attributeValues(a); len(values) > 0 && named {
			out = append(out, condition{attribute: a.name, values: values, at: a.at})
		}
	})
	return out
}

// attributeValues reads the values that an attribute may have: one value or a list. No values means
// that there was a problem.
func (d *decoder) attributeValues(a *field) []matcher {
	if a.value.kind != kindSequence {
		if m, ok := d.attributeValue(a.name, a.value); ok {
			return []matcher{m}
		}
		return nil
	}
	if len(a.value.items) == 0 {
		d.add(a.value.at, "the value of attribute %s is an empty list, which no request matches; write a value", shorten(a.name))
		return nil
	}
	var out []matcher
	sound := true
	d.list(a.value, "the value of attribute "+shorten(a.name), MaxValues, func(item *node) {
		m, ok := d.attributeValue(a.name, item)
		out, sound = append(out, m), sound && ok
	})
	if !sound {
		return nil
	}
	return out
}

// attributeValue reads one value: an exact text or a glob, or {regex: ...}. An empty text requires
// that the attribute is absent.
func (d *decoder) attributeValue(attribute string, n *node) (m matcher, ok bool) {
	switch n.kind {
	case kindMapping:
		d.mapping(n, "a value of attribute "+shorten(attribute), schema{
			"regex": func(f *field) { m, ok = d.regex(f) },
		})
		if len(n.fields) == 0 {
			d.add(n.at, "a value of attribute %s is an empty mapping; write a text or {regex: ...}", shorten(attribute))
		}
		return m, ok
	case kindString:
		if n.text == "" {
			return matcher{}, true
		}
	}
	text, ok := d.text(n, "the value of attribute "+shorten(attribute), maxPatternChars)
	if attribute == apiKeyAttribute {
		return matcher{pattern: keyPattern(text)}, ok
	}
	return matcher{pattern: valuePattern(text)}, ok
}

func (d *decoder) overrides(f *field) []overrideText {
	if !d.is(f.value, kindMapping, "override") {
		return nil
	}
	if len(f.value.fields) > MaxOverrides {
		d.add(f.at, "override has %d entries; at most %d are accepted", len(f.value.fields), MaxOverrides)
		return nil
	}
	var out []overrideText
	d.eachField(f.value, func(o *field) {
		before := d.count()
		d.named(o.at, o.name, "the override's API key pattern", maxPatternChars)
		text := overrideText{at: o.at, pattern: keyPattern(o.name)}
		text.params = d.paramsWith(o.value, "an override", d.noteSchema(&text.note))
		text.broken = d.count() > before
		out = append(out, text)
	})
	return out
}
