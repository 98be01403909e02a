package check

import (
	"fmt"

	"aliquot/budget"
	"aliquot/limit"
)

// A region reports once a quantum here, but up to ten times a second in reality. From rest, a
// single busy region has its full share three reports after the one that reported its demand. The
// lender learns of the demand with its next report and acknowledges with the one after, and the
// third report of the busy region brings the growth. If shares were moving elsewhere, a shrink of
// the busy region's own may have to be acknowledged first.
const (
	growsIn    = 4
	convergeIn = growsIn + 2
)

func (w *world) violate(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// holds is what a region's daemons could make its store enforce and admit at one instant.
type holds struct {
	bucket limit.Bucket
	tokens limit.Tokens
	// chunks is what the region's daemons could spend without the store.
	chunks limit.Tokens
}

// holdsAt returns the maximum over a region's daemons.
func (s *site) holdsAt(sc *Scenario, now int64) holds {
	var most holds
	for _, n := range s.nodes {
		if !n.configured() || n.epoch == "" || n.epoch != s.store.Epoch() {
			continue
		}
		most.chunks += n.spendable(now)
		r, b, _ := s.look(n, sc, now)
		most.bucket.Cap = max(most.bucket.Cap, b.Cap)
		if most.bucket.Rate.Min(b.Rate) == most.bucket.Rate {
			most.bucket.Rate = b.Rate
		}
		most.tokens = max(most.tokens, r.Tokens+r.Extra)
	}
	return most
}

// look returns what a daemon could make its store enforce, and whether the store has lost the key's
// record. It changes nothing.
func (s *site) look(n *node, sc *Scenario, now int64) (limit.Record, limit.Bucket, bool) {
	clock := n.clockMap
	v := n.view(n.right(sc, now), sc, &clock)
	return s.store.Settle(v, now)
}

// check asserts what holds in every state.
func (w *world) check() {
	w.checkAt(w.now, w.ideal)
	if !w.sc.Limit.Algorithm.Counts() {
		w.checkTokens()
	}
	w.checkLedger()
}

// checkTokens checks I2: what stores hold and what moves between them fits into the ideal bucket.
// Of the pool only as much counts as fits beside what regions can hold, because the leader hands
// out no more.
func (w *world) checkTokens() {
	if w.leads == nil {
		return
	}
	var tokens, room int64
	room = int64(w.sc.Limit.Capacity)
	regions := make([]*budget.Region, 0, 2*maxRegions)
	for i := range w.sc.Regions {
		s := w.sites[i]
		h := s.holdsAt(w.sc, w.now)
		tokens += int64(h.tokens + h.chunks)
		room -= int64(max(h.bucket.Cap, h.tokens+h.chunks))
		for _, n := range s.nodes {
			if n.configured() {
				regions = append(regions, n.machine)
			}
		}
	}
	granted, pooled := w.leads.machine.Unsettled(key, regions)
	way := granted + min(pooled, max(room-granted, 0))
	if tokens+way > w.ideal+w.sc.slack() {
		w.violate("I2: regions hold %d micro-tokens, %d granted and %d released ones are on their way, and the ideal bucket holds %d%s",
			tokens, granted, pooled, w.ideal, w.sharesText(w.now))
	}
}

// checkAt checks one instant: what the stores would enforce sums to at most the limit (I1, each
// part), and what they would admit fits into the ideal bucket.
func (w *world) checkAt(now, ideal int64) {
	if w.sc.Limit.Algorithm.Counts() {
		w.checkRights(now)
		return
	}
	var cap, rate, tokens int64
	for i := range w.sc.Regions {
		h := w.sites[i].holdsAt(w.sc, now)
		cap += int64(h.bucket.Cap)
		rate += h.bucket.Rate.Micro*1_000_000 + h.bucket.Rate.Frac
		tokens += int64(h.tokens + h.chunks)
	}
	if l := w.sc.Limit; cap > int64(l.Capacity) || rate > l.Rate.Micro*1_000_000 {
		w.violate("I1: %v after, the regions enforce a burst of %d of %d and a rate of %d of %d micro-tokens%s",
			duration(now-w.now), cap, l.Capacity, rate/1_000_000, l.Rate.Micro, w.sharesText(now))
	}
	if tokens > ideal+w.sc.slack() {
		w.violate("the bound: %v after, the regions can admit %d micro-tokens, and the ideal bucket holds %d%s",
			duration(now-w.now), tokens, ideal, w.sharesText(now))
	}
}

// checkBetween checks instants within the quantum that is about to pass, if leases or chunks end in
// it or floors are taken back. State machines are ticked only at its end, but the clocks of stores
// run on.
func (w *world) checkBetween() {
	const parts = 8
	quantum := int64(w.sc.Quantum)
	changes := false
	for i := range w.sc.Regions {
		for _, n := range w.sites[i].nodes {
			changes = changes || n.spendable(w.now) > 0 ||
				n.machine.Phase(n.clock.Boot(w.now)) != n.machine.Phase(n.clock.Boot(w.now+quantum))
		}
	}
	for i := int64(1); i < parts && changes; i++ {
		dt := quantum * i / parts
		w.checkAt(w.now+dt, min(w.ideal+w.sc.earned(dt), w.sc.most()))
	}
}

// checkLedger checks I1 in the ledger.
func (w *world) checkLedger() {
	var sum budget.Share
	for _, s := range w.ledger.Shares(key) {
		sum = sum.Add(s)
	}
	if !sum.Within(whole) {
		w.violate("I1: liabilities sum to %v", sum)
	}
}

var whole = budget.Share{Rate: budget.Unit, Burst: budget.Unit}

// sharesText describes what every region holds.
func (w *world) sharesText(now int64) string {
	text := ""
	for i := range w.sc.Regions {
		s := w.sites[i]
		h := s.holdsAt(w.sc, now)
		text += fmt.Sprintf("; %s: burst %d, rate %d, tokens %d, chunks %d,", regionName(i), h.bucket.Cap, h.bucket.Rate.Micro, h.tokens, h.chunks)
		for _, n := range s.nodes {
			text += " " + n.machine.Phase(n.clock.Boot(now)).String()
		}
	}
	return text
}

// calm reports whether every region is live and reachable, and the key is hot for all.
func (w *world) calm() bool {
	if w.leads == nil || w.old != nil || !w.ledger.Config.Steady() || w.ledger.Shares(key) == nil || len(w.up)+len(w.down) > 0 {
		return false
	}
	for i := range w.sc.Regions {
		s := w.sites[i]
		if s.cutUp || s.cutDown || len(s.nodes) != 1 || len(s.stuck) > 0 {
			return false
		}
		n := s.nodes[0]
		right := n.right(w.sc, w.now)
		if n.askOld || n.applyFault != storeFine || right.Phase != budget.Live || !right.Hot {
			return false
		}
	}
	return true
}

// unnoticed reports whether some store has lost the key without its daemon's knowledge. If nothing
// spends there, the daemon notices with the next change of the share, which ends its session. The
// fault takes effect only then, so recovery takes as long again.
func (w *world) unnoticed() bool {
	for i := range w.sc.Regions {
		s := w.sites[i]
		for _, n := range s.nodes {
			if _, _, lost := s.look(n, w.sc, w.now); lost || n.epoch != s.store.Epoch() {
				return true
			}
		}
	}
	return false
}

// checkGrown checks that a single busy region has everything except what the others keep.
func (w *world) checkGrown() {
	if w.want < int8(w.sc.Regions) && w.ledger.Config.Regions[w.want].Takes() && !w.hasAll(int(w.want)) {
		w.violate("liveness: for %d quanta nothing failed and only region %s wanted the key; it does not have all%s",
			w.lonely, regionName(int(w.want)), w.sharesText(w.now))
	}
}

// hasAll reports whether a region has everything except what the others keep.
func (w *world) hasAll(region int) bool {
	due := whole
	for i, r := range w.ledger.Config.Regions {
		if i != region {
			due = due.Sub(w.ledger.Config.ConnectedFloor(r.Floor, w.sc.keyLimit()))
		}
	}
	n := w.sites[region].nodes[0]
	return n.right(w.sc, w.now).Effective() == due
}
