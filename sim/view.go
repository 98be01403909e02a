package sim

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/sim/shell"
)

// view words a right for the store, as the daemon does.
func (n *node) view(r budget.Right, c *client) limit.View {
	d := shell.Daemon{
		Region: n.region, Config: n.machine.Config(),
		Epoch: n.epoch, Birth: n.birth, StartedFull: n.machine.StoreStartedFull(), Clock: &n.clockMap,
	}
	v := d.View(n.w.plant.right(n, r), c.limit, c.elastic)
	n.w.plant.view(&v, c)
	return v
}

// keyLimit is the key's limit as the protocol has it.
func (c *client) keyLimit() budget.KeyLimit {
	l := shell.KeyLimit(c.limit)
	l.Placement = c.placement
	return l
}
