package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/oracle"
	"aliquot/limit"
)

// rule is one rule with its one key, which limits a client. The rules change with their version.
// Each daemon has one version, and so has each coordinator.
type rule struct {
	w     *world
	index int // in the world's rules
	key   budget.KeyID
	terms []term // oldest first
	// elastic: every region may save up a burst of the whole capacity.
	elastic   bool
	local     bool // daemons may borrow its tokens, and remember denials
	forgives  bool // a key starts afresh if a store has lost its contents and nothing is known
	placement budget.Placement
	ideal     *oracle.Bucket
	book      *oracle.Book   // of a counting limit
	got       []limit.Tokens // by region: what was admitted there
	gone      uint64         // the first version without it; 0: none yet
	next      *rule          // the rule that replaced it
	// suspect: what is enforced of the key may have grown.
	suspect bool
	// words is the result of keyLimit for the limit worded.
	worded limit.Limit
	words  budget.KeyLimit
}

// term is a limit, with the version of the rules that brought it and the true time of that. If
// ends, a true time, is not 0, it is an override that ends then.
type term struct {
	since uint64
	limit limit.Limit
	at    int64
	ends  int64
}

// newRule adds a rule, from a version of the rules on.
func (w *world) newRule(l limit.Limit, elastic, local bool, p budget.Placement, version uint64) *rule {
	r := &rule{
		w: w, index: len(w.rules), elastic: elastic && !l.Algorithm.Counts(), local: local, placement: p, terms: []term{{since: version, limit: l, at: w.Now()}},
		got: make([]limit.Tokens, len(w.stores)),
	}
	r.key = budget.KeyID{Rule: uint32(r.index + 1)}
	r.key.Hash[0] = byte(r.index)
	r.ideal, r.book = oracle.NewBucket(l, w.cfg.RhoPPM, len(w.stores), r.bursts(), w.Now()), oracle.NewBook(l, w.cfg.RhoPPM, len(w.stores), w)
	if d := w.opts.driven; d != nil {
		r.forgives = d.Keys[r.index].Forgives
	} else {
		r.forgives = rand.New(rand.NewPCG(w.seed^forgiveStream, uint64(r.index))).IntN(4) == 0
	}
	w.rules = append(w.rules, r)
	return r
}

// ruleOf returns the rule of a key.
func (w *world) ruleOf(k budget.KeyID) *rule { return w.rules[k.Rule-1] }

// at returns the limit by a version of the rules, at a time that decides whether overrides hold.
func (r *rule) at(version uint64, now int64) limit.Limit {
	l := r.terms[0].limit
	for _, t := range r.terms[1:] {
		if t.since <= version && (t.ends == 0 || now < t.ends) {
			l = t.limit
		}
	}
	return l
}

// ended returns how many overrides of a version of the rules have ended by now.
func (r *rule) ended(version uint64, now int64) (n int) {
	for _, t := range r.terms {
		if t.since <= version && t.ends != 0 && t.ends <= now {
			n++
		}
	}
	return n
}

// past returns the limits that a version of the rules knows of up to now, the oldest first.
func (r *rule) past(version uint64, now int64) (out []limit.Limit) {
	var times []int64
	for _, t := range r.terms {
		if t.since <= version {
			times = append(times, t.at)
			if t.ends != 0 && t.ends <= now {
				times = append(times, t.ends)
			}
		}
	}
	slices.Sort(times)
	for _, at := range times {
		l := r.terms[0].limit
		for _, t := range r.terms[1:] {
			if t.since <= version && t.at <= at && (t.ends == 0 || at < t.ends) {
				l = t.limit
			}
		}
		out = append(out, l)
	}
	return out
}

// keyLimit returns a limit of the rule in the protocol's terms. It remembers the latest result,
// because the limit is nearly always the same.
func (r *rule) keyLimit(l limit.Limit) budget.KeyLimit {
	if l != r.worded {
		r.worded, r.words = l, entitlement.KeyLimit(l)
		r.words.Placement = r.placement
	}
	return r.words
}

// latest returns the limit by the latest version.
func (r *rule) latest() limit.Limit { return r.at(math.MaxUint64, r.w.Now()) }

// inForce reports whether a version of the rules has the rule.
func (r *rule) inForce(version uint64) bool {
	return r.terms[0].since <= version && (r.gone == 0 || version < r.gone)
}

// under returns the rule that has r's place in a version of the rules; nil: none.
func (r *rule) under(version uint64) *rule {
	for r.next != nil && version >= r.next.terms[0].since {
		r = r.next
	}
	if !r.inForce(version) {
		return nil
	}
	return r
}

// burst describes what the rule may admit at once.
func (r *rule) burst() string {
	if r.elastic {
		return fmt.Sprintf("%d C", r.ideal.Bursts())
	}
	return "C"
}

// ruleChange is an operator's change of one rule.
type ruleChange func(version uint64)

// changeRules puts a new version of the rules in force: in the log first, and then wherever an
// answer to a region comes from.
func (w *world) changeRules(what string, r *rule, change ruleChange) {
	w.version++
	change(w.version)
	l := r.latest()
	w.Note(what, int(r.key.Rule), int64(w.version), int64(l.Capacity), l.Rate.Micro, 0)
	w.ledger.DropRules(w.kept(w.version))
	w.rulesApplied()
}

// rulesApplied handles another state of the rules in the log. The leader learns of it soon.
func (w *world) rulesApplied() {
	w.versionsChanged()
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
	return func(number uint32) bool { return w.rules[number-1].inForce(version) }
}

// proposeRules adds a change of the rules to the log, if there is a leader.
func (w *world) proposeRules(what string, r *rule, change ruleChange) {
	w.After(w.logDelay(), func() {
		if w.leader != nil && !w.faults.Over() && r.gone == 0 && !w.staging() {
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
	l := r.latest()
	if f == faults.LowerLimit || f == faults.RaiseLimit {
		if r.book != nil {
			return // there is no exact account of what is in use by which limit
		}
		l = w.redrawn(f, l)
	}
	switch f {
	case faults.LowerLimit, faults.RaiseLimit:
		lasts := int64(0)
		if w.Chance(1, 3) {
			lasts = w.Between(second, 40*second)
		}
		w.proposeRules(f.String(), r, func(version uint64) { r.changes(version, l, lasts) })
	case faults.ReplaceRule:
		elastic := w.Chance(1, 2)
		w.proposeRules(f.String(), r, func(version uint64) { r.replaced(version, elastic) })
	case faults.RemakeRule:
		again := w.Between(0, 20*second)
		w.proposeRules(f.String(), r, func(version uint64) {
			r.gone = version
			w.After(again, r.remake)
		})
	}
}

// lowered and raised return the rule's limit divided or multiplied by a factor.
func (r *rule) lowered(factor int64) limit.Limit {
	l := r.latest()
	l.Capacity = max(l.Capacity/limit.Tokens(factor), limit.Token)
	l.Rate.Micro = max(l.Rate.Micro/factor, million/10)
	return l
}

func (r *rule) raised(factor int64) limit.Limit {
	l := r.latest()
	l.Capacity = min(l.Capacity*limit.Tokens(factor), 1000*limit.Token)
	l.Rate.Micro = min(l.Rate.Micro*factor, 1000*million)
	return l
}

// redrawn returns a bucket's limit lowered or raised: its burst, its rate, or both.
func (w *world) redrawn(f faults.Kind, l limit.Limit) limit.Limit {
	factor, part := w.Between(2, 6), w.Rand.IntN(4)
	if part == 0 {
		factor *= factor
	}
	if burst := part != 1; burst && f == faults.LowerLimit {
		l.Capacity = max(l.Capacity/limit.Tokens(factor), limit.Token)
	} else if burst {
		l.Capacity = min(l.Capacity*limit.Tokens(factor), 1000*limit.Token)
	}
	if rate := part != 2; rate && f == faults.LowerLimit {
		l.Rate.Micro = max(l.Rate.Micro/factor, million/10)
	} else if rate {
		l.Rate.Micro = min(l.Rate.Micro*factor, 1000*million)
	}
	return l
}

// changes gives the rule another limit, from a version on. If lasts is not 0, the limit is an
// override for that time.
func (r *rule) changes(version uint64, l limit.Limit, lasts int64) {
	t := term{since: version, limit: l, at: r.w.Now()}
	if lasts != 0 {
		t.ends = r.w.Now() + lasts
		r.w.After(lasts-wallApart, r.w.versionsChanged)
		r.w.After(lasts+wallApart, r.w.versionsChanged)
	}
	r.terms = append(r.terms, t)
}

// wallApart is the largest difference between a daemon's wall clock, by which overrides end, and
// true time.
const wallApart = 100 * milli

// replaced puts another rule, with its own number, in r's place.
func (r *rule) replaced(version uint64, elastic bool) {
	if r.gone == 0 {
		r.gone = version
	}
	r.next = r.w.newRule(r.latest(), elastic, r.local, r.placement, version)
	r.next.forgives = r.forgives
}

// remake brings back a rule that was deleted. It gets another number, because what is stored under
// a number never means another rule.
func (r *rule) remake() {
	if r.next != nil {
		return
	}
	if r.w.staging() {
		r.w.After(second, r.remake)
		return
	}
	r.w.changeRules("rule made again", r, func(version uint64) { r.replaced(version, r.elastic) })
}

// takeRules lets a coordinator apply the rules in the log.
func (c *coord) takeRules() {
	c.version = c.w.version
	c.steps.SetRules(c.w.slowestFill(&c.cfg), c.w.longestTail())
	kept := c.w.kept(c.version)
	c.step(budget.RulesChanged{Kept: kept, Version: c.w.inForce(c.version)})
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

// noteEnds tells a daemon's state machine that overrides have ended, before the machine gets an answer.
func (n *node) noteEnds() {
	var ended uint32
	for _, r := range n.w.rules {
		ended += uint32(r.ended(n.version, n.wall()))
	}
	if ended != n.ended {
		n.ended = ended
		n.step(budget.RulesReplaced{})
	}
}

// takeRules lets a daemon adopt the rules that came with an answer.
func (n *node) takeRules(version uint64) {
	if version > n.version {
		if n.version == 0 {
			n.toldFormers(version)
		}
		n.noteLimits()
		n.version = version
		n.noteLimits()
		n.recalled.Revise(n.now())
		n.step(budget.RulesReplaced{})
		n.w.known[n.region].rules = max(n.w.known[n.region].rules, version)
		n.w.versionsChanged()
	}
}
