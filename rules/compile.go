package rules

import (
	"slices"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// compile computes what every rule inherits. The result may be used only if there are no problems.
func (d *draft) compile(doc *document.Document) *Set {
	s := &Set{
		byID:      make(map[string]*Rule, len(doc.Rules)),
		whitelist: newAccessList(doc.Whitelist),
		blacklist: newAccessList(doc.Blacklist),
	}
	d.misplacedShared(doc)
	s.tiers = d.tiersOf(doc)
	d.ties(doc, &s.tiers)
	for i, text := range doc.Rules {
		r := d.compileRule(doc, text)
		r.ordinal = i
		if slices.Contains(r.Key, document.TierAttribute) {
			r.tiers = &s.tiers
		}
		s.rules = append(s.rules, r)
		s.byID[r.ID] = r
	}
	s.index = newRuleIndex(s.rules)
	if unindexed := s.index.unindexed(); len(unindexed) > maxUnindexed {
		n := len(unindexed)
		d.Warn(doc.Rules[unindexed[0]].At, "this and %d other rules are tried for every request, which takes its time; ask for an exact value, or begin patterns with a text and regular expressions with ^ and a text", n-1)
	}
	d.resolveReplaces(s, doc.Rules)
	d.resolveInRequest(s, doc.Rules)
	d.unreached(doc, s)
	if id := s.DeniesAll(); id != "" {
		d.Warn(doc.Rules[s.byID[id].ordinal].At, "rule %s denies every request; rules apply refuses it without --allow-deny-all", id)
	}
	for _, r := range s.rules {
		s.unlimited = s.unlimited || r.Unlimited || slices.ContainsFunc(r.overrides, func(o Override) bool { return o.Unlimited })
		s.debts, s.takes = s.debts || r.Debt, s.takes || r.RequestLimit
		s.inRequest = s.inRequest || len(r.ReplacesInRequest) > 0
	}
	return s
}

// maxUnindexed is how many rules without an indexed condition cause no warning. To try that many
// takes some ten microseconds.
const maxUnindexed = 200

// misplacedShared reports misplaced settings of defaults and tiers, once and not for each rule that
// inherits them.
func (d *draft) misplacedShared(doc *document.Document) {
	defaults := doc.Defaults.Over(document.BuiltIn())
	doc.Defaults.ReportMisplaced(d.Reader, defaults)
	for _, name := range doc.SortedTiers() {
		tier := doc.Tiers[name]
		tier.Settings.ReportMisplaced(d.Reader, tier.Over(defaults))
		d.contradictions(tier.At, "tier "+source.Shorten(name), tier.Conditions)
	}
}

func (d *draft) compileRule(doc *document.Document, text *document.Rule) *Rule {
	inherited := doc.Defaults.Over(document.BuiltIn())
	if tier := doc.Tiers[text.Tier]; tier != nil {
		inherited = tier.Over(inherited)
	}
	all := text.Settings.Over(inherited)
	text.Settings.ReportMisplaced(d.Reader, all)
	r := &Rule{
		ID:             text.ID,
		Tier:           text.Tier,
		Algorithm:      all.Algorithm,
		Queue:          all.Algorithm == LeakyBucket && all.Mode == document.ModeQueue,
		Unit:           document.UnitOf(all),
		Key:            all.Key,
		Enforcement:    all.Enforcement,
		Placement:      all.Placement,
		BorrowWait:     all.BorrowWait,
		OnRedisFailure: all.OnRedisFailure,
		LocalCache:     all.LocalCache != nil && *all.LocalCache,
		ShadowPPM:      *all.Shadow,
		CoolDown:       *all.CoolDown,
		AutoBlock:      *all.AutoBlock,
		Debt:           all.Overrun == document.OverrunDebt,
		Forgives:       all.OnDataLoss == document.LossForgive,
		RequestLimit:   all.RequestLimit == document.RequestLimitAllow,
		Version:        text.Version,
		sortedKey:      slices.Sorted(slices.Values(all.Key)),
		conditions:     text.Conditions,
	}
	if r.Placement == Split {
		r.BorrowWait = 0
	}
	if r.Enforcement == Elastic && document.AlgorithmOf(r.Algorithm).Counts() {
		r.Enforcement = Strict // such an algorithm saves up nothing
	}
	if r.Watched() && len(r.Key) == 0 {
		d.Warn(text.At, "cool_down and auto_block hold back whom the key names, and key: [] of %s names every client: what one client does holds back all; name the attributes that distinguish clients", text)
	}
	d.contradictions(text.At, text.String(), text.Conditions)
	if all.Broken {
		return r
	}
	l, window, why := all.Params.LimitFor(all.Algorithm)
	if why != "" {
		d.Add(text.ParamsAt, "%s: %s", text, why)
		return r
	}
	r.Limit, r.Window, r.params, r.Unlimited = l, window, all.Params, all.Params.Unlimited
	d.compileOverrides(r, text, all.Params)
	if len(text.Overrides) > 0 && !slices.Contains(all.Key, document.APIKeyAttribute) {
		d.Warn(text.Overrides[0].At, "the API keys of this override share their buckets with others, which have another limit; add api_key to the key of %s", text)
	}
	return r
}

// compileOverrides computes the limit of each override and sorts the overrides: exact ones first,
// then longer patterns first, then in the order of the file.
func (d *draft) compileOverrides(r *Rule, text *document.Rule, inherited document.Params) {
	ordered := slices.Clone(text.Overrides)
	slices.SortStableFunc(ordered, func(a, b document.Override) int { return pattern.Compare(a.Pattern, b.Pattern) })
	for _, o := range ordered {
		if o.Broken {
			continue
		}
		own := o.Params.Over(inherited)
		l, window, why := own.LimitFor(r.Algorithm)
		if why != "" {
			d.Add(o.At, "override %q of %s: %s", source.Shorten(o.Pattern.Text), text, why)
			continue
		}
		r.overrides = append(r.overrides, Override{Pattern: o.Pattern.Text, Limit: l, Window: window, Unlimited: own.Unlimited, Note: o.Note, params: o.Params})
	}
	r.setPatterns()
}
