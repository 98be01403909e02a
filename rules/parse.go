package rules

import (
	"slices"

	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

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
		Reader:  source.NewReader(file, placeOf),
		regexes: &pattern.Regexes{},
	}
	root := d.Read(data)
	if root == nil {
		return nil, nil, d.Err()
	}
	set := d.compile(d.document(root))
	if err := d.Err(); err != nil {
		return nil, nil, err
	}
	return set, d.FirstWarnings(), nil
}

func (d *decoder) document(n *source.Node) *document {
	doc := &document{tiers: make(map[string]*tierText)}
	if n.Kind == source.KindNull {
		d.Add(n.At, "the file is empty; write \"rules: []\" if nothing is to be limited")
		return doc
	}
	d.Mapping(n, "the rules file", source.Schema{
		"defaults":  func(f *source.Field) { doc.defaults = d.settingsOf(f.Value, "defaults") },
		"tiers":     func(f *source.Field) { d.tiers(f, doc.tiers) },
		"rules":     func(f *source.Field) { doc.rules = d.ruleTexts(f) },
		"whitelist": func(f *source.Field) { doc.whitelist = d.allowed(f) },
		"blacklist": func(f *source.Field) { doc.blacklist = d.blocked(f) },
	})
	hasRules := slices.ContainsFunc(n.Fields, func(f source.Field) bool { return f.Name == "rules" })
	if n.Kind == source.KindMapping && !hasRules {
		d.Add(n.At, "the file has no rules; write \"rules: []\" if nothing is to be limited")
	}
	return doc
}

func (d *decoder) tiers(f *source.Field, tiers map[string]*tierText) {
	if !d.Is(f.Value, source.KindMapping, "tiers") {
		return
	}
	if len(f.Value.Fields) > MaxTiers {
		d.Add(f.At, "tiers has %d entries; at most %d are accepted", len(f.Value.Fields), MaxTiers)
		return
	}
	d.EachField(f.Value, func(tier *source.Field) {
		if d.Named(tier.At, tier.Name, "the tier's name", MaxNameChars) {
			tiers[tier.Name] = d.tierText(tier)
		}
	})
}

func (d *decoder) tierText(f *source.Field) *tierText {
	t := &tierText{at: f.At}
	known := d.settingsSchema(&t.settings)
	known["match"] = func(m *source.Field) {
		t.matchAt = m.At
		t.conditions = d.match(m)
		for i := range t.conditions {
			if c := &t.conditions[i]; c.Attribute == tierAttribute {
				d.Add(c.At, "the match of a tier asks for the attribute tier, but it is for requests that name none; remove it")
			}
		}
	}
	if !d.Mapping(f.Value, "a tier", known) {
		t.broken = true
	}
	return t
}
