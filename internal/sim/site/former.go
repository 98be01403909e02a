package site

import (
	"slices"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// former is a daemon's limit of one rule, with what the daemon remembers of the earlier limits:
// what became of the cold records that they left.
type former struct {
	known  bool
	limit  limit.Limit
	change entitlement.Change
}

// Wall returns a daemon's wall clock as a true time. Overrides end by it.
func (n *Node) Wall() int64 { return n.w.Now() + int64(n.Name)*37%200*milli - rule.WallApart }

// limitOf returns the limit of a rule as a daemon has it now. The daemon remembers a change of it,
// with its rules or at the end of an override.
func (n *Node) limitOf(r *rule.Rule) limit.Limit {
	l, f := r.At(n.Version, n.Wall()), n.formerOf(r)
	if f.known && f.limit == l {
		return l
	}
	if f.known {
		f.change = f.change.Then(f.limit, l, n.minFloor(), r.Elastic, n.Now())
		if n.Now().Sub(n.looked) > entitlement.NoticedWithin {
			f.change = f.change.Unknown(l.Algorithm.Counts())
		}
	}
	f.known, f.limit = true, l
	if n.Version == n.w.known[n.Region].rules {
		n.w.known[n.Region].formers = slices.Clone(n.formers)
	}
	return l
}

func (n *Node) formerOf(r *rule.Rule) *former {
	for len(n.formers) <= r.Index {
		n.formers = append(n.formers, former{})
	}
	return &n.formers[r.Index]
}

// minFloor returns the smallest share of a limit that a cold bucket here may have had.
func (n *Node) minFloor() budget.Share {
	own := n.Machine.Config().Regions
	if n.Region >= len(own) {
		return budget.Share{}
	}
	return own[n.Region].Floor.Min(own[n.Region].Low)
}

// noteLimits records what has changed in the rules in force, and when by the store's clock.
func (n *Node) noteLimits() {
	for _, r := range n.w.Rules {
		if r.InForce(n.Version) {
			n.limitOf(r)
		}
	}
	n.looked = n.Now()
	for i := range n.formers {
		if c := n.formers[i].change; c.At != 0 {
			n.clockMap.Changed(c.At.Add(entitlement.LateUse))
		}
	}
}

// remember sets what a daemon that starts knows from its region's state file. It does not know when
// a limit changed.
func (n *Node) remember(formers []former) {
	n.formers = slices.Clone(formers)
	for i := range n.formers {
		if c := &n.formers[i].change; c.At != 0 {
			*c = c.Unknown(n.formers[i].limit.Algorithm.Counts())
			c.At = n.Now()
		}
	}
}

// toldFormers sets what a coordinator tells a daemon without rules about earlier rules.
func (n *Node) toldFormers(version uint64) {
	for _, r := range n.w.Rules {
		if !r.InForce(version) {
			continue
		}
		f := n.formerOf(r)
		for _, l := range r.Past(version, n.w.Now()) {
			if f.known {
				f.change = f.change.Then(f.limit, l, n.minFloor(), r.Elastic, n.Now()).Unknown(l.Algorithm.Counts())
			}
			f.known, f.limit = true, l
		}
	}
}

// changed adds what the daemon remembers of a limit's change to a view.
func (n *Node) changed(v *limit.View, f *entitlement.Frame, right budget.Right, r *rule.Rule, l limit.Limit) {
	if c := n.changeOf(r, l); c != nil {
		f.Changed(v, *c, n.clockMap.Changed(c.At.Add(entitlement.LateUse)), right, r.Elastic)
	}
}

// changeOf returns the change of a limit that the daemon remembers; nil: none that matters.
func (n *Node) changeOf(r *rule.Rule, l limit.Limit) *entitlement.Change {
	c := &n.formerOf(r).change
	if c.Settled(l, n.minFloor(), r.Elastic, n.Now()) {
		return nil
	}
	return c
}

// rulesInForce returns the daemon's rules by its clock.
func (n *Node) rulesInForce() budget.RulesState {
	in := budget.RulesState{Version: n.Version}
	for _, r := range n.w.Rules {
		in.Ended += uint32(r.Ended(n.Version, n.Wall()))
	}
	return in
}

// tellRules tells a daemon's state machine of rules that it does not know, before the machine gets an answer.
func (n *Node) tellRules() {
	if in := n.rulesInForce(); in != n.Machine.Rules() {
		before, now := n.told, rulesAt{n.Version, n.Wall()}
		n.told = now
		n.step(budget.RulesReplaced{Rules: in, Same: func(number uint32) bool {
			r := n.w.Rules[number-1]
			return r.InForce(before.version) && r.InForce(now.version) && r.At(before.version, before.wall) == r.At(now.version, now.wall)
		}})
	}
}

// rulesAt are the rules in force by a wall clock.
type rulesAt struct {
	version uint64
	wall    int64
}

// takeRules lets a daemon adopt the rules that came with an answer.
func (n *Node) takeRules(version uint64) {
	if version > n.Version {
		if n.Version == 0 {
			n.toldFormers(version)
		}
		n.noteLimits()
		n.Version = version
		n.noteLimits()
		n.tellRules()
		n.w.known[n.Region].rules = max(n.w.known[n.Region].rules, version)
		n.w.above.VersionsChanged()
	}
}
