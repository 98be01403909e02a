package budget

import "aliquot/internal/hashslot"

// A region's store may be several servers, each with a part of the keys. While one of them
// does not answer, no share of its keys can change in that region, for a share that the
// store has not made its own fences nobody. So the region names the hash slots that it
// cannot reach, and until it names them no more:
//
//   - what it may hold of such a key stays as it is, in the ledger and here. The others have
//     what is free beside that;
//   - what is to change is kept and not sent, since it could only fail, and end the session
//     and with it the leases of all other keys;
//   - the key does not cool down, for all regions have to acknowledge that;
//   - a Hello is answered without it, if the region says that it holds no more than it would
//     be told anyway. Nothing of such a key counts as acknowledged by that.
//
// None of it is trusted with more than how well a limit is used: whatever a region names, a
// liability comes down by an acknowledgement or with the end of a lease alone.

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

// reaches takes what region i says it cannot reach of its store. What was kept because of
// that and can be sent now is, and the other way round.
func (l *Leader) reaches(i int, unreached *hashslot.Set) {
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
	l.turn.due, l.turn.reach = true, true
}

// enqueue has a pending share sent with the region's next directive, or kept until it can
// be applied.
func (l *Leader) enqueue(i int, k KeyID) {
	r := &l.regions[i]
	if l.stuck(i, k) {
		r.kept = append(r.kept, k)
	} else {
		r.outbox = append(r.outbox, k)
	}
}

// leaves reports whether the answer to a Hello can do without an action that the region
// could not apply. It holds no more than what it would be told, so all that is missing is a
// generation to acknowledge: until it has one the liability stays. has is what it says it
// holds; nil: nothing, and it enforces the floor.
//
// A later share that its store may have without its knowing ends by the session itself: a
// record of a generation up to HelloOK.Watermark counts for no more than what its caller
// holds (limit.View.Known).
func (l *Leader) leaves(i int, has *Held, act Action) bool {
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
