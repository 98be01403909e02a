package document

import (
	"aliquot/rules/pattern"
	"aliquot/rules/source"
	"maps"
	"slices"
)

// MaxReplaces caps the rules that one rule replaces.
const MaxReplaces = 64

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

// The attributes that have a meaning of their own.
const (
	APIKeyAttribute   = "api_key"
	EndpointAttribute = "endpoint"
	TierAttribute     = "tier"
)

// Document is a rules file as written, before inheritance.
type Document struct {
	Defaults  Settings
	Tiers     map[string]*Tier
	Rules     []*Rule
	Whitelist []ListEntry
	Blacklist []ListEntry
}

// Read reads the file that a reader has read. It reports what is wrong with it to the reader.
// The result may be used only if there are no problems.
func Read(r *source.Reader, n *source.Node) *Document {
	d := &decoder{Reader: r}
	doc := &Document{Tiers: make(map[string]*Tier)}
	if n.Kind == source.KindNull {
		d.Add(n.At, "the file is empty; write \"rules: []\" if nothing is to be limited")
		return doc
	}
	d.Mapping(n, "the rules file", source.Schema{
		"defaults":  func(f *source.Field) { doc.Defaults = d.settingsOf(f.Value, "defaults") },
		"tiers":     func(f *source.Field) { d.tiers(f, doc.Tiers) },
		"rules":     func(f *source.Field) { doc.Rules = d.ruleTexts(f) },
		"whitelist": func(f *source.Field) { doc.Whitelist = d.allowed(f) },
		"blacklist": func(f *source.Field) { doc.Blacklist = d.blocked(f) },
	})
	hasRules := slices.ContainsFunc(n.Fields, func(f source.Field) bool { return f.Name == "rules" })
	if n.Kind == source.KindMapping && !hasRules {
		d.Add(n.At, "the file has no rules; write \"rules: []\" if nothing is to be limited")
	}
	return doc
}

func (d *decoder) tiers(f *source.Field, tiers map[string]*Tier) {
	if !d.Is(f.Value, source.KindMapping, "tiers") {
		return
	}
	if len(f.Value.Fields) > MaxTiers {
		d.Add(f.At, "tiers has %d entries; at most %d are accepted", len(f.Value.Fields), MaxTiers)
		return
	}
	d.EachField(f.Value, func(tier *source.Field) {
		if d.Named(tier.At, tier.Name, "the tier's name", source.MaxNameChars) {
			tiers[tier.Name] = d.tierText(tier)
		}
	})
}

func (d *decoder) tierText(f *source.Field) *Tier {
	t := &Tier{At: f.At}
	known := d.settingsSchema(&t.Settings)
	known["match"] = func(m *source.Field) {
		t.MatchAt = m.At
		t.Conditions = d.match(m)
		for i := range t.Conditions {
			if c := &t.Conditions[i]; c.Attribute == TierAttribute {
				d.Add(c.At, "the match of a tier asks for the attribute tier, but it is for requests that name none; remove it")
			}
		}
	}
	if !d.Mapping(f.Value, "a tier", known) {
		t.Broken = true
	}
	return t
}

// Tier is one tier as written.
type Tier struct {
	At source.Position
	Settings
	// MatchAt is the place of its match; zero if it has none.
	MatchAt    source.Position
	Conditions []pattern.Condition
}

// Assigns reports whether the tier says which requests belong to it.
func (t *Tier) Assigns() bool { return t.MatchAt != (source.Position{}) }

// SortedTiers returns the names of a file's tiers, sorted.
func (doc *Document) SortedTiers() []string { return slices.Sorted(maps.Keys(doc.Tiers)) }
