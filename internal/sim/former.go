package sim

import (
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/rights"
	"aliquot/limit"
)

// former is what a daemon goes by of one rule's limit, and what it remembers of the limits
// before: what became of the cold records that they left.
type former struct {
	known  bool
	limit  limit.Limit
	change rights.Change
}

// wall is a daemon's clock on the wall, as a true time: by it an override ends.
func (n *node) wall() int64 { return n.w.now + int64(n.name)*37%200*milli - wallApart }

// unlooked is for how long a daemon may have stood still without a limit's end being older than
// it thinks.
const unlooked = 500 * time.Millisecond

// limitOf is the limit of a rule as a daemon has it now. One that changes, with its rules or
// when an override ends, is remembered.
func (n *node) limitOf(r *rule) limit.Limit {
	l, f := r.at(n.version, n.wall()), n.formerOf(r)
	if f.known && f.limit == l {
		return l
	}
	if f.known {
		f.change = f.change.Then(f.limit, l, n.leastFloor(), r.elastic, n.now())
		if n.now().Sub(n.looked) > unlooked {
			f.change = f.change.Unknown(l.Algorithm.Counts())
		}
	}
	f.known, f.limit = true, l
	if n.version == n.w.known[n.region].rules {
		n.w.known[n.region].formers = slices.Clone(n.formers)
	}
	return l
}

func (n *node) formerOf(r *rule) *former {
	for len(n.formers) <= r.index {
		n.formers = append(n.formers, former{})
	}
	return &n.formers[r.index]
}

// leastFloor is the smallest share of a limit that a cold bucket here may have had.
func (n *node) leastFloor() budget.Share {
	own := n.machine.Config().Regions
	if n.region >= len(own) {
		return budget.Share{}
	}
	return own[n.region].Floor.Min(own[n.region].Low)
}

// noteLimits remembers what has changed of the rules in force, and when by the store's clock.
func (n *node) noteLimits() {
	for _, r := range n.w.rules {
		if r.inForce(n.version) {
			n.limitOf(r)
		}
	}
	n.looked = n.now()
	for i := range n.formers {
		if c := n.formers[i].change; c.At != 0 {
			n.clockMap.Changed(c.At.Add(rights.LateUse))
		}
	}
}

// remember is what a daemon that starts knows from its region's state file. When a limit
// changed, it does not.
func (n *node) remember(formers []former) {
	n.formers = slices.Clone(formers)
	for i := range n.formers {
		if c := &n.formers[i].change; c.At != 0 {
			c.At, *c = n.now(), c.Unknown(n.formers[i].limit.Algorithm.Counts())
		}
	}
}

// toldFormers is what a coordinator tells a daemon that knows no rules of what they were.
func (n *node) toldFormers(version uint64) {
	for _, r := range n.w.rules {
		if !r.inForce(version) {
			continue
		}
		f := n.formerOf(r)
		for _, l := range r.past(version, n.w.now) {
			if f.known {
				f.change = f.change.Then(f.limit, l, n.leastFloor(), r.elastic, n.now()).Unknown(l.Algorithm.Counts())
			}
			f.known, f.limit = true, l
		}
	}
}

// changed adds to a view what the daemon remembers of its limit's change.
func (n *node) changed(v *limit.View, f *rights.Frame, right budget.Right, r *rule, l limit.Limit) {
	c := n.formerOf(r).change
	if c.Settled(l, n.leastFloor(), r.elastic, n.now()) {
		return
	}
	f.Changed(v, c, n.clockMap.Changed(c.At.Add(rights.LateUse)), right, r.elastic)
}
