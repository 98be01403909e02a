package limit

// Untrusted is what a store reads where a record stands that it cannot make sense
// of: not the same as no record, because somebody may have spent.
func Untrusted() Record { return Record{At: 1} }

// Absent reports whether there is no record.
func (r Record) Absent() bool { return r.Stamp == 0 && r.At == 0 }

// Settle brings one record to the instant now under one view: what it earned since
// it was last touched, never at a rate or above a capacity that did not hold all
// that time, less the debit. It returns the record, the bucket now in force, and
// whether the store has forgotten what the caller knows about the key (amnesia:
// the tokens start at 0 and the session has to end).
//
// The rules, in order:
//   - A record of other contents (Stamp) or from the future (At) is not trusted,
//     nor one older than a hot caller's generation: amnesia for a hot view, and for
//     a cold one no more than was earned since Birth.
//   - An absent cold bucket is full, or what was earned since Birth.
//   - A record newer than the caller's knowledge is obeyed, and a cold caller gets
//     no more than the floor of it.
//   - Refill crosses the start of a phase at the smallest of the rates concerned.
func Settle(r Record, v View, now int64) (Record, Bucket, bool) {
	phase := v.phaseAt(now)
	trusted := r.Stamp == v.Stamp && now >= r.At && (!v.Hot || r.Gen >= v.Gen)
	var enforced Bucket
	amnesia := false
	switch {
	case trusted && r.Hot:
		r, enforced = settleHot(r, v, phase, now)
	case trusted:
		enforced = v.Floor
		r.Tokens, r.Carry = refill(r.Tokens, r.Carry, v.Floor, r.At, now)
	case v.Hot:
		enforced = under(phase, v.Share, v.Floor)
		r = Record{Hot: true, Gen: v.Gen, Share: v.Share}
		amnesia = true
	default:
		enforced = v.Floor
		r = freshCold(r, v, now)
	}
	r.Tokens = max(0, r.Tokens-v.Debit)
	r.At, r.Stamp = now, v.Stamp
	return r, enforced, amnesia
}

// phaseAt is the phase that holds at an instant of the store's clock: a deadline
// that the daemon believes in counts only if the store's clock agrees.
func (v *View) phaseAt(now int64) Phase {
	if v.Phase == Live && now > v.Until || v.Phase == Floor && now < v.Since {
		return Limbo
	}
	return v.Phase
}

// under is what a share allows in a phase.
func under(p Phase, share, floor Bucket) Bucket {
	switch p {
	case Live:
		return share
	case Floor:
		return floor
	default:
		return share.Min(floor)
	}
}

// settleHot settles a trusted hot record. before is what the record's own share
// allows in this phase, enforced what the caller's knowledge makes of it; they
// differ when a rules version changed the limit, or when the key has cooled down.
func settleHot(r Record, v View, phase Phase, now int64) (_ Record, enforced Bucket) {
	base, before := r.Share, under(phase, r.Share, v.Floor)
	switch {
	case v.Hot && r.Gen == v.Gen:
		r.Share = v.Share
		enforced = under(phase, v.Share, v.Floor)
	case v.Hot:
		if phase == Floor {
			// Somebody of this region was heard after the caller was cut off, and
			// may have lent the floor.
			before = r.Share.Min(v.Floor)
		}
		enforced = before
	case r.Gen > v.Gen || phase == Limbo:
		enforced = r.Share.Min(v.Floor)
		before = enforced
	case phase == Floor:
		enforced = v.Floor
	default: // Live: the left-over of a key that has cooled down
		enforced = v.Floor
		r.Hot, r.Share = false, Bucket{}
	}
	from := r.At
	if phase != Limbo && r.At <= v.Since {
		// What came between is not known: a lapse, or a share that was smaller
		// than the floor. The smallest of all holds up to the phase's start.
		low := base.Min(v.Floor).Min(enforced)
		from = min(v.Since, now)
		r.Tokens, r.Carry = refill(r.Tokens, r.Carry, low, r.At, from)
	}
	r.Tokens, r.Carry = refill(r.Tokens, r.Carry, before.Min(enforced), from, now)
	return r, enforced
}

// freshCold is the cold bucket where no record can be trusted.
func freshCold(r Record, v View, now int64) Record {
	clockWentBack := r.Stamp == v.Stamp
	switch {
	case clockWentBack:
		// The time since Birth was spent from already, so it earns nothing.
		return Record{}
	case v.Birth != 0:
		tokens, carry := refill(0, 0, v.Floor, v.Birth, now)
		return Record{Tokens: tokens, Carry: carry}
	case r.Absent():
		return Record{Tokens: v.Floor.Cap}
	default:
		return Record{}
	}
}
