package sim

import (
	"math/rand/v2"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/oracle"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// newRule adds a rule, from a version of the rules on.
func (w *world) newRule(l limit.Limit, elastic, local bool, p budget.Placement, version uint64) *rule.Rule {
	r := rule.New(&w.Timeline, len(w.Rules), l, version)
	r.Elastic, r.Local, r.Placement = elastic && !l.Algorithm.Counts(), local, p
	r.Got = make([]limit.Tokens, len(w.Stores))
	r.Ideal, r.Book = oracle.NewBucket(l, w.Config.RhoPPM, len(w.Stores), w.bursts(r), w.Now()), oracle.NewBook(l, w.Config.RhoPPM, len(w.Stores), w)
	if d := w.opts.driven; d != nil {
		r.Forgives = d.Keys[r.Index].Forgives
	} else {
		r.Forgives = rand.New(rand.NewPCG(w.seed^forgiveStream, uint64(r.Index))).IntN(4) == 0
	}
	w.Rules = append(w.Rules, r)
	return r
}

// ruleChange is an operator's change of one rule.
type ruleChange func(version uint64)

// changeRules puts a new version of the rules in force: in the log first, and then wherever an
// answer to a region comes from.
func (w *world) changeRules(what string, r *rule.Rule, change ruleChange) {
	w.version++
	change(w.version)
	l := r.Latest()
	w.Note(what, int(r.Key.Rule), int64(w.version), int64(l.Capacity), l.Rate.Micro, 0)
	w.ledger.DropRules(w.kept(w.version))
	w.rulesApplied()
}

// rulesApplied handles another state of the rules in the log. The leader learns of it soon.
func (w *world) rulesApplied() {
	w.VersionsChanged()
	if c := w.leader; c != nil {
		w.After(w.Between(0, 200*milli), c.when(func() {
			if c.leads() {
				c.takeRules()
			}
		}))
	}
}

// kept returns a function that reports which rule numbers a version has.
func (w *world) kept(version uint64) func(uint32) bool {
	return func(number uint32) bool { return w.Rules[number-1].InForce(version) }
}

// proposeRules adds a change of the rules to the log, if there is a leader.
func (w *world) proposeRules(what string, r *rule.Rule, change ruleChange) {
	w.After(w.logDelay(), func() {
		if w.leader != nil && !w.Faults.Over() && r.Gone == 0 && !w.staging() {
			w.changeRules(what, r, change)
		}
	})
}

// operateRules lets the operator change a rule.
func (w *world) operateRules(f faults.Kind) {
	r := w.clients[w.Rand.IntN(len(w.clients))].rule()
	if f == faults.StageLimit {
		w.stageRule(r)
		return
	}
	l := r.Latest()
	if f == faults.LowerLimit || f == faults.RaiseLimit {
		l = w.redrawn(f, l)
	}
	switch f {
	case faults.LowerLimit, faults.RaiseLimit:
		lasts := int64(0)
		if w.Chance(1, 3) {
			lasts = w.Between(second, 40*second)
		}
		w.proposeRules(f.String(), r, func(version uint64) { w.limitRule(r, version, l, lasts) })
	case faults.ReplaceRule:
		elastic := w.Chance(1, 2)
		w.proposeRules(f.String(), r, func(version uint64) { w.replaceRule(r, version, elastic) })
	case faults.RemakeRule:
		again := w.Between(0, 20*second)
		w.proposeRules(f.String(), r, func(version uint64) {
			r.Gone = version
			w.After(again, func() { w.remakeRule(r) })
		})
	}
}

// redrawn returns a limit lowered or raised: its burst, its rate, or both. The rate of a counting limit
// follows from its window.
func (w *world) redrawn(f faults.Kind, l limit.Limit) limit.Limit {
	factor, part := w.Between(2, 6), w.Rand.IntN(4)
	if part == 0 {
		factor *= factor
	}
	if l.Algorithm == limit.Concurrency {
		part = 2 // slots have no rate, and who holds one would have to know for how long
	}
	if burst := part != 1; burst && f == faults.LowerLimit {
		l.Capacity = max(l.Capacity/limit.Tokens(factor), limit.Token)
	} else if burst {
		l.Capacity = min(l.Capacity*limit.Tokens(factor), 1000*limit.Token)
	}
	rate := part != 2
	switch {
	case rate && l.Algorithm.Counts():
		l.Window = w.rewindowed(f, l.Window, factor)
	case rate && f == faults.LowerLimit:
		l.Rate.Micro = max(l.Rate.Micro/factor, million/10)
	case rate:
		l.Rate.Micro = min(l.Rate.Micro*factor, 1000*million)
	}
	return l
}

// rewindowed returns a window lengthened, which lowers a limit, or shortened.
func (w *world) rewindowed(f faults.Kind, window time.Duration, factor int64) time.Duration {
	if f == faults.RaiseLimit {
		return max(window/time.Duration(factor), time.Second)
	}
	longest := 31 * time.Second
	if w.operated() {
		longest = 4 * time.Second
	}
	return min(window*time.Duration(factor), longest)
}

// limitRule gives the rule another limit, from a version on. If lasts is not 0, the limit is an
// override for that time.
func (w *world) limitRule(r *rule.Rule, version uint64, l limit.Limit, lasts int64) {
	t := rule.Term{Since: version, Limit: l, At: w.Now()}
	if lasts != 0 {
		t.Ends = w.Now() + lasts
		w.After(lasts-rule.WallApart, w.VersionsChanged)
		w.After(lasts+rule.WallApart, w.VersionsChanged)
	}
	r.Terms = append(r.Terms, t)
}

// replaceRule puts another rule, with its own number, in r's place.
func (w *world) replaceRule(r *rule.Rule, version uint64, elastic bool) {
	if r.Gone == 0 {
		r.Gone = version
	}
	r.Next = w.newRule(r.Latest(), elastic, r.Local, r.Placement, version)
	r.Next.Forgives = r.Forgives
}

// remakeRule brings back a rule that was deleted. It gets another number, because what is stored under
// a number never means another rule.
func (w *world) remakeRule(r *rule.Rule) {
	if r.Next != nil {
		return
	}
	if w.staging() {
		w.After(second, func() { w.remakeRule(r) })
		return
	}
	w.changeRules("rule made again", r, func(version uint64) { w.replaceRule(r, version, r.Elastic) })
}

// takeRules lets a coordinator apply the rules in the log.
func (c *coord) takeRules() {
	c.version = c.w.version
	c.steps.SetRules(c.w.slowestFill(&c.cfg), c.w.longestTail())
	kept := c.w.kept(c.version)
	tails := make([]time.Duration, len(c.w.Rules))
	for i, r := range c.w.Rules {
		tails[i] = r.LongestTail()
	}
	c.step(budget.RulesChanged{
		Kept: kept, Version: c.w.inForce(c.version), Newest: c.version, Tail: func(number uint32) time.Duration { return tails[number-1] },
	})
	for _, effect := range c.machine.ReleaseAll(c.now()) {
		c.do(effect)
	}
}

// wanted returns a report's keys without requests to make keys hot whose rule is not in force.
func (c *coord) wanted(keys []budget.KeyReport) []budget.KeyReport {
	var out []budget.KeyReport
	kept := c.w.kept(c.version)
	for _, k := range keys {
		if k.Gen != (budget.Gen{}) || k.Cold || kept(k.Key.Rule) {
			out = append(out, k)
		}
	}
	return out
}
