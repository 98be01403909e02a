package sim

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rights"
)

// view words a right for the store, as the daemon does.
func (n *node) view(right budget.Right, r *rule, l limit.Limit) limit.View {
	d := rights.Daemon{
		Region: n.region, Config: n.machine.Config(), Stamp: limit.Stamp(n.epoch),
		Birth: n.birth, StartedFull: n.machine.StoreStartedFull(), Clock: &n.clockMap,
	}
	f := d.Frame(right, l.Tail())
	v := f.View(right, l, r.elastic)
	if spoil := n.w.opts.spoil; spoil != nil {
		spoil(&v)
	}
	return v
}
