package sim

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/sim/shell"
)

// view words a right for the store, as the daemon does.
func (n *node) view(right budget.Right, r *rule, l limit.Limit) limit.View {
	d := shell.Daemon{
		Region: n.region, Config: n.machine.Config(),
		Epoch: n.epoch, Birth: n.birth, StartedFull: n.machine.StoreStartedFull(), Clock: &n.clockMap,
	}
	v := d.View(right, l, r.elastic)
	if spoil := n.w.opts.spoil; spoil != nil {
		spoil(&v)
	}
	return v
}
