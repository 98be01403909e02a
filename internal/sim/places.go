package sim

import (
	"aliquot/internal/place"
	"aliquot/internal/sim/site"
)

// stopDaemon stops a daemon in order, and often empties its store. Later the daemon comes back. Sometimes another one serves
// the region meanwhile, and its store is emptied too.
func (w *world) stopDaemon(n *site.Node) {
	region := n.Region
	kept := w.Stop(n)
	if kept == nil {
		w.After(w.Between(100*milli, 5*second), func() { w.startIfNone(region) })
		return
	}
	w.keepPlace(region, n, kept)
	back := func() {
		if w.NodeOf(region) == nil && !w.Faults.Over() {
			w.Return(region, kept)
		} else {
			w.startIfNone(region)
		}
	}
	if w.Chance(1, 4) {
		w.After(w.Between(100*milli, 2*second), func() { w.startIfNone(region) })
		w.After(w.Between(2*second, 60*second), func() {
			if other := w.NodeOf(region); other != nil && !w.Faults.Over() {
				if w.Chance(3, 4) {
					w.Stores[region].Flush()
				}
				w.Kill(other)
			}
			w.After(w.Between(0, 8*second), back) // the other one counts as heard for some seconds
		})
		return
	}
	w.After(w.Between(100*milli, 15*second), back)
}

func (w *world) startIfNone(region int) {
	if w.NodeOf(region) == nil {
		w.StartNode(region, true, 0)
	}
}

// keepPlace has the leader keep a daemon's place, if its last word arrives, as package service does: the daemon has the
// session, and no Hello of the region is being answered.
func (w *world) keepPlace(region int, n *site.Node, kept *site.Kept) {
	c := w.leader
	if c == nil || n.Cut || w.cutUp[region] || c.cutOff[region] || w.copies(false) == 0 {
		return
	}
	w.After(w.delay(region), func() {
		has := c.leads() && !c.dead && w.Now() >= c.pauseTo && len(c.hellos[region]) == 0 && w.ledger.Epoch == kept.Session.Epoch &&
			c.machine.Region(region, c.now(), 0).Session == kept.Session.Number
		if has {
			w.places[region] = place.Place{Token: kept.Place}
		}
	})
}

// claimPlace applies a Hello to the region's place. It reports false if the coordinator cannot commit that.
func (c *coord) claimPlace(m site.Message) bool {
	region, before := m.Hello.Region, c.w.places[m.Hello.Region]
	if before == (place.Place{}) || before.HeldBy(m.Place, m.Hello.Incarnation) {
		return true
	}
	if !c.leads() {
		return false
	}
	c.w.places[region] = before.AfterHello(m.Place, m.Hello.Incarnation)
	return true
}
