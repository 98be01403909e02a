package site

import (
	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// view translates a right for the store, as the daemon does.
func (n *Node) view(right budget.Right, r *rule.Rule, l limit.Limit) limit.View {
	d := entitlement.Daemon{
		Region: n.Region, Config: n.Machine.Config(), Stamp: n.stamp,
		Birth: n.birth, StartedFull: n.Machine.StoreStartedFull(), Clock: &n.clockMap,
	}
	f := d.Frame(right, l.Tail())
	v := f.View(right, l, r.Elastic)
	n.changed(&v, &f, right, r, l)
	if n.w.Spoil != nil {
		return n.spoiled(v)
	}
	return v
}

// spoiled returns a view that a test has changed. (It is a separate function so that the views of
// all other worlds need not live on the heap.)
func (n *Node) spoiled(v limit.View) limit.View {
	n.w.Spoil(&v)
	return v
}
