package budget

import (
	"maps"
	"slices"
)

// Clone returns an independent copy, for model checking. Configurations are shared: they are
// replaced, never changed.
func (r *Region) Clone() *Region {
	c := *r
	c.applying = r.applying.clone()
	c.hot = cloneValues(r.hot)
	c.candidates = cloneValues(r.candidates)
	c.asking, c.asked = c.sameCandidates(r.asking), c.sameCandidates(r.asked)
	c.reportable = slices.Clone(r.reportable)
	c.coldAcks = slices.Clone(r.coldAcks)
	c.outlasting = slices.Clone(r.outlasting)
	return &c
}

// sameCandidates returns the copies of those in a list that are still candidates.
func (r *Region) sameCandidates(list []*candidate) []*candidate {
	out := make([]*candidate, 0, len(list))
	for _, x := range list {
		if !x.gone {
			out = append(out, r.candidates[x.key])
		}
	}
	return out
}

func (a *applying) clone() *applying {
	if a == nil {
		return nil
	}
	c := *a
	c.left = maps.Clone(a.left)
	return &c
}

// cloneValues copies a map of keys and what its values point to.
func cloneValues[V any](m map[KeyID]*V) map[KeyID]*V {
	c := make(map[KeyID]*V, len(m))
	for k, v := range m {
		x := *v
		c[k] = &x
	}
	return c
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[KeyID]V) []KeyID {
	if len(m) == 0 {
		return nil
	}
	keys := make([]KeyID, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if len(keys) > 1 {
		slices.SortFunc(keys, KeyID.Compare)
	}
	return keys
}

// AppendState writes everything that influences what the region does from now on. It leaves out the
// size of a part, which never changes, and how many keys a directive had, which is only displayed.
func (r *Region) AppendState(c *Canon, now Instant) {
	c.Int(int64(r.self))
	c.Config(&r.cfg)
	c.Incarnation(r.self, r.incarnation)
	c.String(r.storeEpoch)
	c.String(r.initialEpoch)
	c.slots(r.unreached)
	c.Bools(r.blind, r.urgent, r.newRules, r.session.open, r.applying != nil, r.leaseEnd != 0)
	c.Left(now, r.leaseEnd)
	if r.Phase(now) == Live && c.Lapses {
		c.Ago(now, r.liveSince) // set again when a lease begins
	}
	c.Ago(now, r.lastDirective)
	if r.rules != (RulesState{}) {
		c.rules(r.rules)
	}
	c.Age(now, r.marked, MarkEvery)
	c.Int(int64(r.floorVersion))
	c.Int(int64(r.floorOpened))
	if r.floorSince != 0 {
		c.Ago(now, r.floorSince)
	}
	c.Epoch(r.highestEpoch)
	if s := &r.session; s.exists() {
		c.session(s.epoch, s.id, s.seq)
		c.seq(s.epoch, s.id, s.ack)
		c.tSend(r.self, now, s.tSend)
		c.Age(now, s.lastSent, MinReportGap)
	}
	c.Int(int64(r.inFlight))
	c.nonce(r.self, r.helloNonce)
	if r.inFlight == helloCall {
		c.String(r.helloEpoch)
	}
	c.Int(int64(r.helloFails))
	c.Left(now, r.nextHello)
	if r.applying != nil {
		r.applying.appendState(c, r.self, now)
	}
	if r.opening() {
		c.Left(now, r.progressDue())
	}
	c.Gen(r.watermark)
	r.appendKeys(c, now)
}

// tSend writes when a report was sent, since a lease may be counted from it.
func (c *Canon) tSend(region int, now, t Instant) {
	c.regionTime(region, t)
	c.Ago(now, t)
}

func (a *applying) appendState(c *Canon, region int, now Instant) {
	c.Bools(a.hello, a.renew, a.void, a.oldRules, a.noGrants)
	if a.renew {
		c.tSend(region, now, a.tSend)
	}
	c.Gen(a.watermark)
	left := make([]Action, 0, len(a.left))
	for _, k := range sortedKeys(a.left) {
		left = append(left, a.left[k])
	}
	c.actions(region, left)
	c.actions(region, a.rest)
	c.Int(int64(len(a.useChecks)))
	for _, k := range a.useChecks {
		c.key(k)
	}
}

func (r *Region) appendKeys(c *Canon, now Instant) {
	c.Int(int64(len(r.hot)))
	for _, k := range sortedKeys(r.hot) {
		c.key(k)
		r.hot[k].appendState(c, r.self, k, now)
	}
	c.Int(int64(len(r.candidates)))
	for _, k := range sortedKeys(r.candidates) {
		c.key(k)
		r.candidates[k].appendState(c, now)
	}
	c.Int(int64(len(r.reportable)))
	for _, k := range r.reportable {
		c.key(k)
	}
	c.Int(int64(len(r.outlasting)))
	for _, k := range r.outlasting {
		c.key(k)
	}
	for _, list := range [...][]*candidate{r.asking, r.asked} {
		for _, x := range list {
			if !x.gone {
				c.key(x.key)
			}
		}
		c.Int(-1)
	}
	c.actions(r.self, r.coldAcks)
}

// toldAdmitted and toldRefunded are left out: no event depends on them.
func (h *hotKey) appendState(c *Canon, region int, k KeyID, now Instant) {
	c.Gen(h.gen)
	c.share(h.share)
	c.limit(h.limit)
	c.usage(region, k, h.admitted, h.offered)
	c.released(region, k, h.released)
	c.granted(region, k, h.granted)
	c.Int(h.released - h.reportedReleased)
	c.Int(h.refunded)
	c.Bools(h.rejecting, h.served, h.asked, h.reportedRejecting, h.queued, h.mustAck, h.lastReport != 0, h.unenforced)
	c.Age(now, h.lastReport, ReportKeyEvery) // only 2,000 busy keys make the interval longer
	c.Int(int64(h.inUse))
	c.Int(h.label)
	c.Int(int64(h.labelTail))
	if h.outlasting {
		c.Left(now, h.checkUseAt)
	}
	if c.Demand {
		c.Int(h.admitted)
		c.Int(h.offered)
		c.Int(h.tokens)
		c.Ago(now, h.used)
		c.Int(int64(h.gap))
	}
}

func (x *candidate) appendState(c *Canon, now Instant) {
	c.limit(x.limit)
	c.Bools(x.rejecting, x.lastReport != 0)
	c.Age(now, x.lastUsed, candidateIdle+1)
	c.Age(now, x.lastReport, repeatCandidate)
	if c.Demand {
		c.Int(x.admitted)
		c.Int(x.offered)
		c.Int(x.tokens)
	}
}
