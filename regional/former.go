package regional

import (
	"maps"
	"math"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/rights"
	"aliquot/limit"
	"aliquot/rules"
)

// mostFormer bounds what is remembered of one rule. Of what went before nothing is known.
const mostFormer = 8

// formerRule is what a rule was until a change of it: of its limit, of an override, or of what
// overrides hold. The records of its keys may still be those of that time.
type formerRule struct {
	at budget.Instant // when it ended
	// rule is nil where nothing is known of it.
	rule *rules.Rule
	// missed: it ended some time before at, nobody knows when.
	missed bool
	// unixMS is a time at which the overrides held that held until the change.
	unixMS int64
}

// formerRules are those of one number, the oldest first.
type formerRules struct {
	rules []formerRule
	// byLimit is what is known of a key of which nobody says whose it is, but its limit.
	byLimit map[limit.Limit]rights.Change
	// until is when the last of them has no effect any more.
	until budget.Instant
}

// floorShare is the smallest share that a cold bucket of the region may have of a rule's limit.
func (p *policy) floorShare(r *rules.Rule) budget.Share {
	if r.Enforcement == rules.Independent {
		return budget.Share{Rate: budget.Unit, Burst: budget.Unit}
	}
	return p.least
}

// change is what is remembered of a client's limit of a rule, by the limits that it had in turn.
func (p *policy) change(r *rules.Rule, former []formerRule, limitOf func(*rules.Rule, int64) limit.Limit, now limit.Limit) (c rights.Change) {
	floor, elastic := p.floorShare(r), r.Enforcement == rules.Elastic
	for i := range former {
		f := &former[i]
		if f.rule == nil {
			c = rights.UnknownChange(f.at, r.Limit.Algorithm.Counts())
			continue
		}
		to := now
		if i+1 < len(former) {
			to = limitOf(former[i+1].rule, former[i+1].unixMS)
		}
		if from := limitOf(f.rule, f.unixMS); from != to && from.Capacity > 0 { // of a limit of 0 nothing was used
			if c = c.Then(from, to, floor, elastic, f.at); f.missed {
				c = c.Unknown(to.Algorithm.Counts())
			}
		}
	}
	return c
}

// changed is what is remembered of the limit that a client has of a rule; nil if nothing
// matters.
func (p *policy) changed(number uint32, r *rules.Rule, apiKey string, l limit.Limit, now budget.Instant) *rights.Change {
	former, ok := p.former[number&^aloneBit]
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

// changedLimit is changed for a key of which only the limit is known: the most cautious of what
// is remembered of the clients that have this limit.
func (p *policy) changedLimit(number uint32, l limit.Limit, now budget.Instant) *rights.Change {
	former, ok := p.former[number&^aloneBit]
	if !ok || now > former.until {
		return nil
	}
	if c, ok := former.byLimit[l]; ok {
		return &c
	}
	return nil
}

// holds tells whether the overrides that held when the policy was made hold at a time, Unix
// milliseconds, and no others.
func (p *policy) holds(unixMS int64) bool { return p.fromMS <= unixMS && unixMS < p.untilMS }

// turnsAt notes for how long, around a time, the overrides hold that hold then.
func (p *policy) turnsAt(unixMS int64) {
	p.unixMS, p.fromMS, p.untilMS = unixMS, 0, math.MaxInt64
	if p.set == nil {
		return
	}
	for _, r := range p.set.Rules() {
		for i := range r.Overrides() {
			switch until := r.Overrides()[i].UntilMS; {
			case until == 0:
			case until <= unixMS:
				p.fromMS = max(p.fromMS, until)
			default:
				p.untilMS = min(p.untilMS, until)
			}
		}
	}
}

// at is the policy in force at a time, Unix milliseconds: an override that has ended is a
// change of the rule.
func (p *policies) at(unixMS int64) *policy {
	now := p.load()
	if now.holds(unixMS) {
		return now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn(unixMS)
}

// unseen is for how long nobody may have looked whether overrides hold without the end of one
// being older than it seems.
const unseen = 500 * time.Millisecond

// look sees to it that overrides end, and that the clock knows when limits have changed. It
// returns the instant of the last change; 0: there was none.
func (p *policies) look(clock *clockMap) budget.Instant {
	now := p.at(time.Now().UnixMilli())
	p.seen.Store(int64(p.now()))
	if at := now.changedAt; at != 0 {
		clock.changed(at.Add(rights.LateUse))
	}
	return now.changedAt
}

// turn is at. The caller holds mu.
func (p *policies) turn(unixMS int64) *policy {
	before := p.load()
	if before.holds(unixMS) {
		return before
	}
	next := *before
	next.turnsAt(unixMS)
	at := p.now()
	late := at.Sub(budget.Instant(p.seen.Load())) > unseen
	next.former = p.remember(before, &next, func(r *rules.Rule) *formerRule {
		for _, o := range r.Overrides() {
			if o.Holds(before.unixMS) != o.Holds(unixMS) {
				return &formerRule{at: at, rule: r, unixMS: before.unixMS, missed: late}
			}
		}
		return nil
	})
	p.install(&next)
	return &next
}

// superseded is what the rules of the policy before were, to whom there are others now.
func (p *policies) superseded(before, next *policy) map[uint32]formerRules {
	at := p.now()
	return p.remember(before, next, func(r *rules.Rule) *formerRule {
		if before.set == nil || before.numbers[r.ID] != next.numbers[r.ID] {
			return nil
		}
		old := before.set.Rule(r.ID)
		if old == nil || old.SameLimits(r) {
			return nil
		}
		return &formerRule{at: at, rule: old, unixMS: next.unixMS}
	})
}

// remember adds what rules have just been to what they were before.
func (p *policies) remember(before, next *policy, was func(*rules.Rule) *formerRule) map[uint32]formerRules {
	out := map[uint32]formerRules{}
	for _, r := range next.set.Rules() {
		number := next.numbers[r.ID]
		former := before.former[number].rules
		if f := was(r); f != nil {
			former, next.changedAt = append(slices.Clone(former), *f), f.at
		}
		if len(former) > 0 {
			if known := next.remembered(r, former, p.now()); len(known.rules) > 0 {
				out[number] = known
			}
		}
	}
	return out
}

// remembered is what matters of what a rule was.
func (p *policy) remembered(r *rules.Rule, former []formerRule, now budget.Instant) (out formerRules) {
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

// memory is how long records that limits kept last; r is the rule that has them now.
func (p *policy) memory(r, of *rules.Rule) time.Duration {
	floor, elastic := p.floorShare(r), r.Enforcement == rules.Elastic
	lasts := rights.Memory(of.Limit, floor, elastic)
	for i := range of.Overrides() {
		lasts = max(lasts, rights.Memory(of.Overrides()[i].Limit, floor, elastic))
	}
	return lasts
}

// byLimit finds, for each limit that somebody has now, what its clients had before. A pattern
// stands for the keys that match it.
func (p *policy) byLimit(r *rules.Rule, former []formerRule, now budget.Instant) map[limit.Limit]rights.Change {
	out := map[limit.Limit]rights.Change{}
	add := func(l limit.Limit, c rights.Change) {
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

// formerState is what the state file keeps of one formerRule. When it ended is not kept: a
// daemon that restarts takes it to be just now.
type formerState struct {
	Number    uint32          `json:"number"`
	Unknown   bool            `json:"unknown,omitempty"`
	UnixMS    int64           `json:"unix_ms"`
	Limit     formerLimit     `json:"limit"`
	Overrides []formerPattern `json:"overrides,omitempty"`
}

type formerLimit struct {
	Algorithm limit.Algorithm `json:"algorithm"`
	Capacity  limit.Tokens    `json:"capacity_micro"`
	RateMicro int64           `json:"rate_micro"`
	RateFrac  int64           `json:"rate_frac,omitempty"`
	Window    time.Duration   `json:"window_ns,omitempty"`
}

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

// formerState words what is remembered for the state file.
func (p *policy) formerState() (out []formerState) {
	for _, number := range slices.Sorted(maps.Keys(p.former)) {
		for _, f := range p.former[number].rules {
			s := formerState{Number: number, UnixMS: f.unixMS, Unknown: f.rule == nil}
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

// recall takes what a state file remembers, and what overrides have ended since it was written.
func (p *policies) recall(states []formerState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, at := *p.load(), p.now()
	if next.set == nil {
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
	next.former = p.remember(&before, &next, func(r *rules.Rule) *formerRule {
		ended := int64(0)
		for _, o := range r.Overrides() {
			if !o.Holds(next.unixMS) && time.Duration(next.unixMS-o.UntilMS)*time.Millisecond < next.memory(r, r) {
				ended = max(ended, o.UntilMS)
			}
		}
		if ended == 0 {
			return nil
		}
		return &formerRule{at: at, rule: r, unixMS: ended - 1, missed: true}
	})
	p.install(&next)
}
