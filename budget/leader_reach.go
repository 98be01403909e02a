package budget

import "aliquot/internal/hashslot"

// A region's store may be several servers, each with a part of the keys. While one of them does not
// answer, no share of its keys can change in that region: a share that the store has not recorded
// fences nobody. So the region reports the hash slots that it cannot reach. Until it stops reporting
// them:
//
//   - the share that it may hold of such a key stays as it is, in the ledger and here. The others
//     have what is free beside it;
//   - a change is kept and not sent. It could only fail, and would end the session and with it the
//     leases of all other keys;
//   - the key does not cool down, because all regions have to acknowledge that;
//   - a Hello is answered without the key if the region says that it holds no more than it would be
//     told anyway. That acknowledges nothing of the key.
//
// The reported slots affect only how well a limit is used, never safety: a liability comes down only
// by an acknowledgement or with the end of a lease.

// stuck reports whether region i cannot change its share of a key at present.
func (l *Leader) stuck(i int, k KeyID) bool {
	unreached := l.regions[i].unreached
	return unreached != nil && unreached.Has(hashslot.OfHash(k.Hash))
}

// stuckAnywhere reports whether some region cannot change its share of a key at present.
func (l *Leader) stuckAnywhere(k KeyID) bool {
	for i := range l.regions {
		if l.stuck(i, k) {
			return true
		}
	}
	return false
}

// setUnreached records which hash slots region i cannot reach in its store. Kept shares that can
// now be sent are queued, and queued shares that cannot be applied are kept.
func (l *Leader) setUnreached(i int, unreached *hashslot.Set) {
	r := &l.regions[i]
	if r.unreached.Same(unreached) {
		return
	}
	r.unreached = unreached
	pending := append(r.kept, r.outbox...)
	r.kept, r.outbox = nil, nil
	for _, k := range pending {
		l.enqueue(i, k)
	}
	l.changes.due, l.changes.reach = true, true
}

// enqueue queues a pending share for the region's next directive, or keeps it until the region can
// apply it.
func (l *Leader) enqueue(i int, k KeyID) {
	r := &l.regions[i]
	if l.stuck(i, k) {
		r.kept = append(r.kept, k)
	} else {
		r.outbox = append(r.outbox, k)
	}
}

// canOmit reports whether the answer to a Hello can leave out an action that the region could not
// apply. It can if the region holds no more than it would be told. All that is missing then is a
// generation to acknowledge, and until the region has one the liability stays. has is what the
// region says it holds; nil: nothing, so it enforces the floor.
//
// Its store may have a later share that the region does not know of. The session itself ends that
// share: a record of a generation up to HelloOK.Watermark counts for no more than what its caller
// holds (limit.View.Known).
func (l *Leader) canOmit(i int, has *Held, act Action) bool {
	if !l.stuck(i, act.Key) {
		return false
	}
	holds := l.cfg.Regions[i].Floor
	if has != nil {
		holds = has.Share
	}
	if !holds.Within(act.Share) {
		return false
	}
	l.queueAction(i, l.keys[act.Key], act.Share)
	return true
}
