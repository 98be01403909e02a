package rules

import (
	"slices"

	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// compile computes what every rule inherits. The result may be used only if there are no problems.
func (d *decoder) compile(doc *document) *Set {
	s := &Set{
		byID:      make(map[string]*Rule, len(doc.rules)),
		whitelist: newAccessList(doc.whitelist),
		blacklist: newAccessList(doc.blacklist),
	}
	d.misplacedShared(doc)
	s.tiers = d.tiersOf(doc)
	d.ties(doc, &s.tiers)
	for i, text := range doc.rules {
		r := d.compileRule(doc, text)
		r.ordinal = i
		if slices.Contains(r.Key, tierAttribute) {
			r.tiers = &s.tiers
		}
		s.rules = append(s.rules, r)
		s.byID[r.ID] = r
	}
	s.index = newRuleIndex(s.rules)
	if unindexed := s.index.unindexed(); len(unindexed) > maxUnindexed {
		n := len(unindexed)
		d.Warn(doc.rules[unindexed[0]].at, "this and %d other rules are tried for every request, which takes its time; ask for an exact value, or begin patterns with a text and regular expressions with ^ and a text", n-1)
	}
	d.resolveReplaces(s, doc.rules)
	d.resolveInRequest(s, doc.rules)
	d.unreached(doc, s)
	if id := s.DeniesAll(); id != "" {
		d.Warn(doc.rules[s.byID[id].ordinal].at, "rule %s denies every request; rules apply refuses it without --allow-deny-all", id)
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
func (d *decoder) misplacedShared(doc *document) {
	defaults := doc.defaults.over(builtIn())
	d.misplaced(doc.defaults, defaults)
	for _, name := range doc.sortedTiers() {
		tier := doc.tiers[name]
		d.misplaced(tier.settings, tier.over(defaults))
		d.contradictions(tier.at, "tier "+source.Shorten(name), tier.conditions)
	}
}

func (d *decoder) compileRule(doc *document, text *ruleText) *Rule {
	inherited := doc.defaults.over(builtIn())
	if tier := doc.tiers[text.tier]; tier != nil {
		inherited = tier.over(inherited)
	}
	all := text.settings.over(inherited)
	d.misplaced(text.settings, all)
	r := &Rule{
		ID:             text.id,
		Tier:           text.tier,
		Algorithm:      all.algorithm,
		Queue:          all.algorithm == LeakyBucket && all.mode == modeQueue,
		Unit:           unitOf(all),
		Key:            all.key,
		Enforcement:    all.enforcement,
		Placement:      all.placement,
		BorrowWait:     all.borrowWait,
		OnRedisFailure: all.onRedisFailure,
		LocalCache:     all.localCache != nil && *all.localCache,
		ShadowPPM:      *all.shadow,
		CoolDown:       *all.coolDown,
		AutoBlock:      *all.autoBlock,
		Debt:           all.overrun == overrunDebt,
		Forgives:       all.onDataLoss == lossForgive,
		RequestLimit:   all.requestLimit == requestLimitAllow,
		Version:        text.version,
		sortedKey:      slices.Sorted(slices.Values(all.key)),
		conditions:     text.conditions,
	}
	if r.Placement == Split {
		r.BorrowWait = 0
	}
	if r.Enforcement == Elastic && algorithmNamed(r.Algorithm).Counts() {
		r.Enforcement = Strict // such an algorithm saves up nothing
	}
	if r.Watched() && len(r.Key) == 0 {
		d.Warn(text.at, "cool_down and auto_block hold back whom the key names, and key: [] of %s names everybody: what one client does is answered to all; name the attributes that tell clients apart", text)
	}
	d.contradictions(text.at, text.String(), text.conditions)
	if all.broken {
		return r
	}
	l, window, why := all.params.under(all.algorithm)
	if why != "" {
		d.Add(text.paramsAt, "%s: %s", text, why)
		return r
	}
	r.Limit, r.Window, r.params, r.Unlimited = l, window, all.params, all.params.unlimited
	d.compileOverrides(r, text, all.params)
	if len(text.overrides) > 0 && !slices.Contains(all.key, apiKeyAttribute) {
		d.Warn(text.overrides[0].at, "the API keys of this override share their buckets with others, which have another limit; add api_key to the key of %s", text)
	}
	return r
}

// compileOverrides computes the limit of each override and sorts the overrides: exact ones first,
// then longer patterns first, then in the order of the file.
func (d *decoder) compileOverrides(r *Rule, text *ruleText, inherited params) {
	ordered := slices.Clone(text.overrides)
	slices.SortStableFunc(ordered, func(a, b overrideText) int { return pattern.Compare(a.pattern, b.pattern) })
	for _, o := range ordered {
		if o.broken {
			continue
		}
		own := o.params.over(inherited)
		l, window, why := own.under(r.Algorithm)
		if why != "" {
			d.Add(o.at, "override %q of %s: %s", source.Shorten(o.pattern.Text), text, why)
			continue
		}
		r.overrides = append(r.overrides, Override{Pattern: o.pattern.Text, Limit: l, Window: window, Unlimited: own.unlimited, Note: o.note, params: o.params})
	}
	r.patterns = pattern.NewSet(heldBy(r.overrides))
}

func unitOf(all settings) string {
	switch {
	case all.unit != "":
		return all.unit
	case all.algorithm == Concurrency:
		return UnitConcurrency
	}
	return UnitRequests
}
