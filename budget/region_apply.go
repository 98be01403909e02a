package budget

// apply hands a directive's actions to the store; the directive counts as applied
// only when all of them are.
func (r *Region) apply(a *applying, actions []Action, now Instant) []RegionEffect {
	r.applying = a
	a.left = make(map[KeyID]Action, len(actions))
	changes := make([]ShareChange, 0, len(actions))
	for _, act := range actions {
		a.left[act.Key] = act
		changes = append(changes, r.change(act, now))
	}
	r.newRules = false
	changes = r.lookAgain(changes, now)
	// The leader counts the region as heard by any directive, not by leases alone.
	mark := a.renew || r.marked == 0 || now.Sub(r.marked) >= MarkEvery
	if mark {
		r.marked = now
	}
	if len(changes) == 0 && !mark {
		r.finishApplying(now)
		return r.speak(now)
	}
	return []RegionEffect{ApplyShares{Changes: changes, Heard: mark}}
}

func (r *Region) change(act Action, now Instant) ShareChange {
	c := ShareChange{
		Key: act.Key, Gen: act.Gen, Share: act.Share, From: act.From, Cold: act.Cold,
		Limit: act.Limit,
	}
	// A key that was not held starts its count at what the directive says: it
	// may have been held, and granted, earlier in the session.
	if h := r.hot[act.Key]; h != nil {
		if h.limit.Capacity > 0 {
			c.Limit = h.limit
		}
		c.Grant = max(0, act.Granted-h.granted)
		h.granted = act.Granted // counted once, even if the store fails now
	}
	if r.newRules {
		c.Grant = 0 // of a limit by older rules
	}
	c.Before = r.Right(act.Key, c.Limit, now)
	return c
}

func (r *Region) sharesApplied(results []ShareResult, now Instant) {
	a := r.applying
	if a == nil {
		return
	}
	failed := false
	for _, res := range results {
		act, ok := a.left[res.Key]
		if !ok {
			failed = failed || res.Amnesia
			r.lookedAgain(res, now)
			continue
		}
		if res.Failed {
			failed = true
			r.believeLess(act)
			continue
		}
		delete(a.left, res.Key)
		failed = failed || res.Amnesia
		r.took(act, res, now)
	}
	if failed || len(a.left) > 0 {
		r.applying = nil
		r.doubt()
		r.nextHello = now.Add(retryHello)
		return
	}
	r.finishApplying(now)
}

// believeLess: a share that may not have reached the store is not acknowledged, but
// no more than it is believed in. Another daemon of the region may have acknowledged
// it, and when the store's contents go, this belief is all there is.
func (r *Region) believeLess(act Action) {
	if h := r.hot[act.Key]; h != nil {
		h.share = h.share.Min(act.Share)
	}
}

// took records a share that the store now enforces.
func (r *Region) took(act Action, res ShareResult, now Instant) {
	if r.watermark.Before(act.Gen) {
		r.watermark = act.Gen
	}
	h := r.hot[act.Key]
	if act.Cold {
		delete(r.hot, act.Key)
		r.dropCandidate(act.Key)
		r.coldAcks = append(r.coldAcks, act)
		return
	}
	if h == nil {
		h = &hotKey{granted: act.Granted, limit: act.Limit}
		if c := r.candidates[act.Key]; c != nil {
			h.limit, h.rejecting = c.limit, c.rejecting
			r.dropCandidate(act.Key)
		}
		r.hot[act.Key] = h
	}
	h.gen, h.share = act.Gen, act.Share
	if !r.applying.oldRules {
		h.released += res.Released
	}
	h.tokens = res.Tokens
	r.outlasts(act.Key, h, res, now)
}

// finishApplying makes the directive count: its session opens, or its lease holds.
func (r *Region) finishApplying(now Instant) {
	a := r.applying
	r.applying = nil
	if a.void {
		r.nextHello = now.Add(retryHello)
		return
	}
	if a.hello {
		r.session = session{open: true, epoch: a.epoch, id: a.session}
		if r.watermark.Before(a.watermark) {
			r.watermark = a.watermark
		}
		r.blind = false
		r.openFloor(now)
		r.coldAcks = nil
		return
	}
	s := &r.session
	s.ack = a.seq
	if !a.renew {
		return
	}
	if r.Phase(now) != Live {
		r.liveSince = now
	}
	r.leaseEnd = a.tSend.Add(r.cfg.Lease)
}
