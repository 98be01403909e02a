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
	v := d.View(n.w.plant.right(n, right), l, r.elastic)
	n.w.plant.view(&v, r, l)
	return v
}
