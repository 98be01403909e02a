package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
)

// gossip is eventual counters: every region holds a full bucket, tells the others
// every so often what it admitted, and takes off what they say. It is how limiters
// with asynchronously replicated counters work (Gubernator's GLOBAL behaviour, counters
// in a replicated store). What is admitted within one period in several regions is
// admitted several times; a region that is cut off holds a whole limit.
type gossip struct {
	*local
	every time.Duration
	owed  [][][]int // by teller, by hearer, by key: admitted and not told yet
	away  []int     // by region: cuts under way
}

func newGossip(every time.Duration) func(*sim.Driven, *Workload) limiter {
	return func(w *sim.Driven, load *Workload) limiter {
		g := &gossip{local: newLocal(w, load, 1), every: every, away: make([]int, len(load.RTTs))}
		for region := range load.RTTs {
			g.owed = append(g.owed, make([][]int, len(load.RTTs)))
			for to := range load.RTTs {
				g.owed[region][to] = make([]int, len(load.Keys))
			}
			// Regions do not tell at the same instant.
			w.After(every*time.Duration(region+1)/time.Duration(len(load.RTTs)), func() { g.tell(region) })
		}
		return g
	}
}

func (g *gossip) ask(region, key, n int, answer func(site.Decided)) {
	inStore(g.w, answer, func() int {
		admitted := g.buckets[region][key].take(n, g.w.StoreTime(region))
		for to := range g.away {
			g.owed[region][to][key] += admitted
		}
		return admitted
	})
}

// tell sends everyone what a region has admitted since the last time. What cannot be
// sent now is told later: usage is told once, and never lost.
func (g *gossip) tell(from int) {
	g.w.After(g.every, func() { g.tell(from) })
	for to, owed := range g.owed[from] {
		if to == from || g.away[from] > 0 || g.away[to] > 0 {
			continue
		}
		for key, n := range owed {
			if n > 0 {
				owed[key] = 0
				g.w.After(max(g.w.WAN(from), g.w.WAN(to)), func() { g.buckets[to][key].debit(n, g.w.StoreTime(to)) })
			}
		}
	}
}

func (g *gossip) cut(region int, length time.Duration) {
	g.away[region]++
	g.w.After(length, func() { g.away[region]-- })
}
