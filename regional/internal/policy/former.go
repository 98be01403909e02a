package policy

import (
	"maps"
	"math"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	"aliquot/rules"
)

// mostFormer bounds the earlier versions that are remembered of one rule. Nothing is known of
// versions before them.
const mostFormer = 8

// formerRule is a rule as it was until a change of its limit, of an override, or of the set of
// overrides that hold. The records of its keys may still date from that time.
type formerRule struct {
	at budget.Instant // when it ended
	// rule is nil if nothing is known of it.
	rule *rules.Rule
	// missed: it ended at an unknown time before at.
	missed bool
	// unixMS is a time at which exactly the overrides held that held until the change.
	unixMS int64
}

// formerRules are the earlier versions of the rule with one number, the oldest first.
type formerRules struct {
	rules []formerRule
	// byLimit is what is known of a key when only its limit is known, and not its client.
	byLimit map[limit.Limit]entitlement.Change
	// until is when the last of them no longer has any effect.
	until budget.Instant
}

// floorShare returns the smallest share that a cold bucket of the region may have of a rule's
// limit.
func (p *Policy) floorShare(r *rules.Rule) budget.Share {
	if r.Enforcement == rules.Independent {
		return budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	}
	return p.least
}

// change returns the changes of a client's limit of a rule that are remembered, from the limits
// that the client had in turn.
func (p *Policy) change(r *rules.Rule, former []formerRule, limitOf func(*rules.Rule, int64) limit.Limit, now limit.Limit) (c entitlement.Change) {
	floor, elastic := p.floorShare(r), r.Enforcement == rules.Elastic
	for i := range former {
		f := &former[i]
		if f.rule == nil {
			c = entitlement.UnknownChange(f.at, r.Limit.Algorithm.Counts())
			continue
		}
		to := now
		if i+1 < len(former) {
			to = limitOf(former[i+1].rule, former[i+1].unixMS)
		}
		if from := limitOf(f.rule, f.unixMS); from != to && from.Capacity > 0 { // a limit of 0 admitted nothing
			if c = c.Then(from, to, floor, elastic, f.at); f.missed {
				c = c.Unknown(to.Algorithm.Counts())
			}
		}
	}
	return c
}

// Changed returns the remembered changes of the limit that a client has of a rule, or nil if none
// matters any more.
func (p *Policy) Changed(number uint32, r *rules.Rule, apiKey string, l limit.Limit, now budget.Instant) *entitlement.Change {
	former, ok := p.former[number&^IndependentBit]
	if !ok || now > former.until {
		return nil
	}
	c := p.change(r, former.rules, func(r *rules.Rule, unixMS int64) limit.Limit {
		l, _ := r.LimitFor(apiKey, unixMS)
		return l
	}, l)
	if c.Settled(l, p.floorShare(r), r.Enforcement == rules.Elastic, now) {
		return nil
	}
	return &c
}

// ChangedLimit returns the same for a key of which only the limit is known: the most cautious of
// the changes of all clients with that limit.
func (p *Policy) ChangedLimit(number uint32, l limit.Limit, now budget.Instant) *entitlement.Change {
	former, ok := p.former[number&^IndependentBit]
	if !ok || now > former.until {
		return nil
	}
	if c, ok := former.byLimit[l]; ok {
		return &c
	}
	return nil
}

// HasFormer reports whether any earlier version of a rule is remembered.
func (p *Policy) HasFormer() bool { return len(p.former) > 0 }

// setBack is the step of a wall clock, in milliseconds, from which on overrides hold again that have ended by it.
const setBack = 60_000

// holds reports whether at a time, in Unix milliseconds, exactly those overrides hold that held
// when the policy was made. Who read the clock before an override ended, and comes later, does not bring it
// back: each way there and back would count as a change of the rule.
func (p *Policy) holds(unixMS int64) bool { return p.fromMS-setBack <= unixMS && unixMS < p.untilMS }

// turnsAt sets the period around a time during which the overrides that hold at that time do not
// change.
func (p *Policy) turnsAt(unixMS int64) {
	p.unixMS, p.fromMS, p.untilMS, p.OverridesEnded = unixMS, 0, math.MaxInt64, 0
	if p.Set == nil {
		return
	}
	for _, r := range p.Set.Rules() {
		for i := range r.Overrides() {
			switch until := r.Overrides()[i].UntilMS; {
			case until == 0:
			case until <= unixMS:
				p.fromMS = max(p.fromMS, until)
				p.OverridesEnded++
			default:
				p.untilMS = min(p.untilMS, until)
			}
		}
	}
}

// At returns the policy in force at a time, in Unix milliseconds. An override that has ended is a
// change of the rule.
func (p *Policies) At(unixMS int64) *Policy {
	now := p.Load()
	if now.holds(unixMS) {
		return now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.updateLocked(unixMS)
}

// EndOverrides makes overrides end on time, and tells the clock when limits have changed.
func (p *Policies) EndOverrides(clock *storeclock.Map) {
	now := p.At(time.Now().UnixMilli())
	p.seen.Store(int64(p.now()))
	if at := now.changedAt; at != 0 {
		clock.Changed(at.Add(entitlement.LateUse))
	}
}

// updateLocked does the work of at. The caller holds mu.
func (p *Policies) updateLocked(unixMS int64) *Policy {
	before := p.Load()
	if before.holds(unixMS) {
		return before
	}
	next := *before
	next.turnsAt(unixMS)
	at := p.now()
	late := at.Sub(budget.Instant(p.seen.Load())) > entitlement.NoticedWithin
	next.former = p.remember(before, &next, func(r *rules.Rule) []formerRule {
		if !sameHold(r, before.unixMS, unixMS) {
			return []formerRule{{at: at, rule: r, unixMS: before.unixMS, missed: late}}
		}
		return nil
	})
	p.install(&next)
	return &next
}

// sameHold reports whether the same overrides of a rule hold at two times, in Unix milliseconds.
func sameHold(r *rules.Rule, a, b int64) bool {
	for _, o := range r.Overrides() {
		if o.Holds(a) != o.Holds(b) {
			return false
		}
	}
	return true
}

// SameLimits returns whether every key of a rule, by its number, has the limit that it had by an earlier policy. What
// limit a request brings does not depend on the rule's own.
func (p *Policy) SameLimits(before *Policy) func(number uint32) bool {
	same := map[uint32]bool{}
	if p.Set == nil || before.Set == nil {
		return func(uint32) bool { return false }
	}
	for _, r := range p.Set.Rules() {
		old, number := before.Set.Rule(r.ID), p.Numbers[r.ID]
		same[number] = old != nil && before.Numbers[r.ID] == number && old.SameLimits(r) && sameHold(r, before.unixMS, p.unixMS)
	}
	return func(number uint32) bool { return same[number] }
}

// superseded returns, for the rules that next changes, what they were in the policy before.
func (p *Policies) superseded(before, next *Policy) map[uint32]formerRules {
	at := p.now()
	return p.remember(before, next, func(r *rules.Rule) []formerRule {
		if before.Set == nil || before.Numbers[r.ID] != next.Numbers[r.ID] {
			return nil
		}
		old := before.Set.Rule(r.ID)
		if old == nil || old.SameLimits(r) {
			return nil
		}
		return []formerRule{{at: at, rule: old, unixMS: next.unixMS}}
	})
}

// remember adds the versions that rules have just had to those that they had before.
func (p *Policies) remember(before, next *Policy, was func(*rules.Rule) []formerRule) map[uint32]formerRules {
	out := map[uint32]formerRules{}
	for _, r := range next.Set.Rules() {
		number := next.Numbers[r.ID]
		former := before.former[number].rules
		if had := was(r); len(had) > 0 {
			former, next.changedAt = slices.Concat(former, had), had[len(had)-1].at
		}
		if len(former) > 0 {
			if known := next.remembered(r, former, p.now()); len(known.rules) > 0 {
				out[number] = known
			}
		}
	}
	return out
}

// remembered returns those earlier versions of a rule that still matter.
func (p *Policy) remembered(r *rules.Rule, former []formerRule, now budget.Instant) (out formerRules) {
	if extra := len(former) - mostFormer; extra > 0 {
		former = slices.Clone(former[extra:])
		former[0].rule = nil
	}
	out.rules = former
	lasts := p.memory(r, r)
	for i := range former {
		if f := &former[i]; f.rule != nil {
			lasts = max(lasts, p.memory(r, f.rule))
		}
	}
	if out.until = former[len(former)-1].at.Add(lasts); now > out.until {
		return formerRules{}
	}
	out.byLimit = p.byLimit(r, former, now)
	return out
}

// memory returns for how long records last that the limits of the rule of wrote. r is the rule that
// has the records now.
func (p *Policy) memory(r, of *rules.Rule) time.Duration {
	floor, elastic := p.floorShare(r), r.Enforcement == rules.Elastic
	lasts := entitlement.Memory(of.Limit, floor, elastic)
	for i := range of.Overrides() {
		lasts = max(lasts, entitlement.Memory(of.Overrides()[i].Limit, floor, elastic))
	}
	return lasts
}

// byLimit finds, for each limit that a client has now, which limits its clients had before. A
// pattern stands for the keys that match it.
func (p *Policy) byLimit(r *rules.Rule, former []formerRule, now budget.Instant) map[limit.Limit]entitlement.Change {
	out := map[limit.Limit]entitlement.Change{}
	add := func(l limit.Limit, c entitlement.Change) {
		if !c.Settled(l, p.floorShare(r), r.Enforcement == rules.Elastic, now) {
			out[l] = out[l].Or(c, l.Algorithm.Counts())
		}
	}
	add(r.Limit, p.change(r, former, func(r *rules.Rule, _ int64) limit.Limit { return r.Limit }, r.Limit))
	seen := map[string]bool{}
	for _, of := range append([]formerRule{{rule: r}}, former...) {
		if of.rule == nil {
			continue
		}
		for _, o := range of.rule.Overrides() {
			if seen[o.Pattern] {
				continue
			}
			seen[o.Pattern] = true
			l, _ := r.LimitFor(o.Pattern, p.unixMS)
			add(l, p.change(r, former, func(r *rules.Rule, unixMS int64) limit.Limit {
				l, _ := r.LimitFor(o.Pattern, unixMS)
				return l
			}, l))
		}
	}
	return out
}

// FormerState is a formerRule in the state file. It does not keep when the version ended: a daemon
// that restarts takes the present for it.
type FormerState struct {
	Number    uint32          `json:"number"`
	Unknown   bool            `json:"unknown,omitempty"`
	UnixMS    int64           `json:"unix_ms"`
	Limit     formerLimit     `json:"limit"`
	Overrides []formerPattern `json:"overrides,omitempty"`
}

// formerLimit is a limit in the state file.
type formerLimit struct {
	Algorithm limit.Algorithm `json:"algorithm"`
	Capacity  limit.Tokens    `json:"capacity_micro"`
	RateMicro int64           `json:"rate_micro"`
	RateFrac  int64           `json:"rate_frac,omitempty"`
	Window    time.Duration   `json:"window_ns,omitempty"`
}

// formerPattern is an override in the state file.
type formerPattern struct {
	Pattern string      `json:"pattern"`
	UntilMS int64       `json:"until_ms,omitempty"`
	Limit   formerLimit `json:"limit"`
}

func formerOut(l limit.Limit) formerLimit {
	return formerLimit{l.Algorithm, l.Capacity, l.Rate.Micro, l.Rate.Frac, l.Window}
}

func (l formerLimit) in() limit.Limit {
	return limit.Limit{Algorithm: l.Algorithm, Capacity: l.Capacity, Rate: limit.Rate{Micro: l.RateMicro, Frac: l.RateFrac}, Window: l.Window}
}

// FormerState returns the remembered versions in the form of the state file.
func (p *Policy) FormerState() (out []FormerState) {
	for _, number := range slices.Sorted(maps.Keys(p.former)) {
		for _, f := range p.former[number].rules {
			s := FormerState{Number: number, UnixMS: f.unixMS, Unknown: f.rule == nil}
			if f.rule != nil {
				s.Limit = formerOut(f.rule.Limit)
				for _, o := range f.rule.Overrides() {
					s.Overrides = append(s.Overrides, formerPattern{o.Pattern, o.UntilMS, formerOut(o.Limit)})
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// Restore restores what a state file remembers, and adds the overrides that have ended since the
// file was written.
func (p *Policies) Restore(states []FormerState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, at := *p.Load(), p.now()
	if next.Set == nil {
		return
	}
	next.changedAt = at
	before := next
	before.former = map[uint32]formerRules{}
	for _, s := range states {
		f := formerRule{at: at, unixMS: s.UnixMS, missed: true}
		if !s.Unknown {
			var overrides []rules.Override
			for _, o := range s.Overrides {
				overrides = append(overrides, rules.Override{Pattern: o.Pattern, Limit: o.Limit.in(), Note: rules.Note{UntilMS: o.UntilMS}})
			}
			f.rule = rules.Former(s.Limit.in(), overrides)
		}
		known := before.former[s.Number]
		known.rules = append(known.rules, f)
		before.former[s.Number] = known
	}
	next.former = p.remember(&before, &next, func(r *rules.Rule) (had []formerRule) {
		for _, until := range next.endedLately(r) {
			had = append(had, formerRule{at: at, rule: r, unixMS: until - 1, missed: true})
		}
		return had
	})
	p.install(&next)
}

// endedLately returns when overrides of a rule ended of which records may still be there, in Unix milliseconds and in
// order.
func (p *Policy) endedLately(r *rules.Rule) (ends []int64) {
	for _, o := range r.Overrides() {
		if !o.Holds(p.unixMS) && time.Duration(p.unixMS-o.UntilMS)*time.Millisecond < p.memory(r, r) {
			ends = append(ends, o.UntilMS)
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}
