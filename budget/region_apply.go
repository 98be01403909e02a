package budget

// A directive's shares are applied in parts, each with its own deadline. So a directive of 200,000
// keys neither keeps the store from deciding checks nor is lost as a whole. What a part has applied
// stays applied: the next Hello names it as held, and the next report acknowledges it. The
// directive itself takes effect when all parts are applied. Only then the lease that it renews
// holds, and the session that it begins is open.

// apply starts to apply a directive's actions.
func (r *Region) apply(a *applying, actions []Action, now Instant) []RegionEffect {
	a.began, a.keys, a.rest = now, len(actions), actions
	a.noGrants, r.newRules = r.newRules, false
	a.useChecks = r.dueUseChecks(maxActions-len(actions), now)
	r.applying = a
	return r.applyPart(true, now)
}

// applyPart gives the next part to the store, or finishes the directive.
func (r *Region) applyPart(first bool, now Instant) []RegionEffect {
	a := r.applying
	n := min(len(a.rest), r.part)
	changes := make([]ShareChange, 0, n)
	a.left = make(map[KeyID]Action, n)
	for _, act := range a.rest[:n] {
		a.left[act.Key] = act
		changes = append(changes, r.change(act, now))
		if a.watermark.Before(act.Gen) {
			a.watermark = act.Gen
		}
	}
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		changes = r.checkUse(changes, now)
	}
	// To the leader any directive counts as hearing the region, not only a lease.
	mark := first && a.renew || r.marked == 0 || now.Sub(r.marked) >= MarkEvery
	if mark {
		r.marked = now
	}
	if len(changes) == 0 && !mark {
		r.finishApplying(now)
		return r.sendDue(now)
	}
	return []RegionEffect{ApplyShares{Changes: changes, Follows: !first, Heard: mark}}
}

func (r *Region) change(act Action, now Instant) ShareChange {
	c := ShareChange{
		Key: act.Key, Gen: act.Gen, Share: act.Share, From: act.From, Cold: act.Cold,
		Limit: act.Limit,
	}
	// The count of a key that was not held starts at what the directive says. The key may have been
	// held, and granted tokens, earlier in the session.
	if h := r.hot[act.Key]; h != nil {
		if h.limit.Capacity > 0 {
			c.Limit = h.limit
		}
		c.Grant = max(0, act.Granted-h.granted)
		h.granted = act.Granted // counted once, even if the store fails now
	}
	if r.newRules || r.applying.noGrants {
		c.Grant = 0
	}
	if act.Limit.Tail != 0 && act.Limit.Tail != c.Limit.Tail {
		c.From = 0 // it is the number of another window
	}
	c.Before = r.Right(act.Key, c.Limit, now)
	return c
}

// sharesApplied records the results of a part.
func (r *Region) sharesApplied(results []ShareResult, now Instant) []RegionEffect {
	a := r.applying
	if a == nil {
		return r.sendDue(now)
	}
	failed := false
	for _, res := range results {
		act, ok := a.left[res.Key]
		if !ok {
			failed = failed || res.Amnesia
			r.useChecked(res, now)
			continue
		}
		if res.Failed {
			failed = true
			continue
		}
		delete(a.left, res.Key)
		failed = failed || res.Amnesia
		r.recordApplied(act, res, now)
	}
	switch {
	case failed || len(a.left) > 0:
		r.abandonSession()
		r.stopApplying(now)
	case a.void:
		r.stopApplying(now)
	case len(a.rest) > 0 || len(a.useChecks) > 0:
		return append(r.sendDue(now), r.applyPart(false, now)...)
	default:
		r.finishApplying(now)
	}
	return r.sendDue(now)
}

// stopApplying gives up the rest of a directive. What was applied of it is held.
func (r *Region) stopApplying(now Instant) {
	r.lowerBeliefs()
	r.applying = nil
	r.nextHello = now.Add(retryHello)
}

// lowerBeliefs handles the shares of a directive that have not reached the store for certain. The
// region does not acknowledge them, but believes in no more than them. Another daemon of the region
// may have acknowledged them, and when the store's contents are lost this belief is all that
// remains. It reports whether the region knows all these keys as hot.
func (r *Region) lowerBeliefs() (known bool) {
	known = true
	lower := func(act Action) {
		h := r.hot[act.Key]
		if h == nil {
			known = false
			return
		}
		h.share = h.share.Min(act.Share)
	}
	for _, act := range r.applying.left {
		lower(act)
	}
	for _, act := range r.applying.rest {
		lower(act)
	}
	return known
}

// recordApplied records a share that the store now enforces.
func (r *Region) recordApplied(act Action, res ShareResult, now Instant) {
	h := r.hot[act.Key]
	if act.Cold {
		delete(r.hot, act.Key)
		r.dropCandidate(act.Key)
		r.coldAcks = append(r.coldAcks, act)
		return
	}
	if h == nil {
		h = &hotKey{granted: act.Granted}
		if c := r.candidates[act.Key]; c != nil {
			h.limit, h.rejecting = c.limit, c.rejecting
			r.dropCandidate(act.Key)
		}
		r.hot[act.Key] = h
	}
	if a := r.applying; h.limit.Capacity == 0 && act.Limit.Capacity > 0 && !a.oldRules && !a.noGrants {
		h.limit = act.Limit // the next looks at its use have no other limit
	}
	h.gen, h.share = act.Gen, act.Share
	if !r.applying.oldRules {
		h.released += res.Released
	}
	h.tokens = max(0, res.Tokens)
	r.recordOutlasting(act.Key, h, res, now)
}

// finishApplying lets the directive take effect: its session opens, or its lease holds.
func (r *Region) finishApplying(now Instant) {
	a := r.applying
	r.applying = nil
	if r.watermark.Before(a.watermark) {
		r.watermark = a.watermark
	}
	s := &r.session
	if a.hello {
		s.open = true
		r.blind = false
		r.openFloor(now)
		r.coldAcks = nil
		return
	}
	s.ack = a.seq
	if !a.renew {
		return
	}
	if r.Phase(now) != Live {
		r.liveSince = now
	}
	r.leaseEnd = a.tSend.Add(r.cfg.Lease)
}
