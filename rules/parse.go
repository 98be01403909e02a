package rules

import "slices"

const (
	// MaxRules caps the rules of a file.
	MaxRules = 10_000
	// MaxOverrides caps the overrides of one rule.
	MaxOverrides = 1_000
	// MaxTiers caps the tiers. Each plan that is sold is a tier.
	MaxTiers = 1_000
	// MaxListed caps the entries of whitelist and of blacklist.
	MaxListed = 50_000
	// MaxAttributes caps the attributes of one match, and the attributes of a request.
	MaxAttributes = 64
	// MaxValues caps the values that one attribute of a match may have.
	MaxValues = 1_000
	// MaxKeyAttributes caps the attributes of one key.
	MaxKeyAttributes = 16
)

// document is a rules file as written, before inheritance.
type document struct {
	defaults  settings
	tiers     map[string]*tierText
	rules     []*ruleText
	whitelist []ListEntry
	blacklist []ListEntry
}

// Parse reads a rules file. file is its name in messages. It returns a Set with at most MaxProblems
// warnings, or an *Error with every problem of the file. It refuses the whole file for one problem.
// The result depends only on the arguments.
func Parse(file string, data []byte) (*Set, []Warning, error) {
	d := &decoder{
		problems: &problems{file: file},
		regexes:  &regexes{known: make(map[string]matcher)},
	}
	text, ok := cleanText(d.problems, data)
	if !ok {
		return nil, nil, d.err()
	}
	root := parseYAML(d.problems, text)
	if root == nil {
		return nil, nil, d.err()
	}
	set := d.compile(d.document(root))
	if err := d.err(); err != nil {
		return nil, nil, err
	}
	return set, firstOf(d.warnings), nil
}

func (d *decoder) document(n *node) *document {
	doc := &document{tiers: make(map[string]*tierText)}
	if n.kind == kindNull {
		d.add(n.at, "the file is empty; write \"rules: []\" if nothing is to be limited")
		return doc
	}
	d.mapping(n, "the rules file", schema{
		"defaults":  func(f *field) { doc.defaults = d.settingsOf(f.value, "defaults") },
		"tiers":     func(f *field) { d.tiers(f, doc.tiers) },
		"rules":     func(f *field) { doc.rules = d.ruleTexts(f) },
		"whitelist": func(f *field) { doc.whitelist = d.allowed(f) },
		"blacklist": func(f *field) { doc.blacklist = d.blocked(f) },
	})
	hasRules := slices.ContainsFunc(n.fields, func(f field) bool { return f.name == "rules" })
	if n.kind == kindMapping && !hasRules {
		d.add(n.at, "the file has no rules; write \"rules: []\" if nothing is to be limited")
	}
	return doc
}

func (d *decoder) tiers(f *field, tiers map[string]*tierText) {
	if !d.is(f.value, kindMapping, "tiers") {
		return
	}
	if len(f.value.fields) > MaxTiers {
		d.add(f.at, "tiers has %d entries; at most %d are accepted", len(f.value.fields), MaxTiers)
		return
	}
	d.eachField(f.value, func(tier *field) {
		if d.named(tier.at, tier.name, "the tier's name", MaxNameChars) {
			tiers[tier.name] = d.tierText(tier)
		}
	})
}

func (d *decoder) tierText(f *field) *tierText {
	t := &tierText{at: f.at}
	known := d.settingsSchema(&t.settings)
	known["match"] = func(m *field) {
		t.matchAt = m.at
		t.conditions = d.match(m)
		for i := range t.conditions {
			if c := &t.conditions[i]; c.attribute == tierAttribute {
				d.add(c.at, "the match of a tier asks for the attribute tier, but it is for requests that name none; remove it")
			}
		}
	}
	if !d.mapping(f.value, "a tier", known) {
		t.broken = true
	}
	return t
}
