package limit

// Untrusted is what a store reads where a record stands that it cannot make sense
// of: not the same as no record, because somebody may have spent.
func Untrusted() Record { return Record{At: 1} }

// Absent reports whether there is no record.
func (r Record) Absent() bool { return r.Stamp == 0 && r.At == 0 }

// Settle brings one record to the instant now under one view: what it earned since
// it was last touched, never at a rate or above a capacity that did not hold all
// that time, less the debit. It returns the record, the bucket now in force without
// any Extra, and whether the store has forgotten what the caller knows about the key
// (amnesia: the tokens start at 0 and the session has to end).
//
// The rules, in order:
//   - A record of other contents (Stamp) is not trusted, nor one older than a hot
//     caller's generation: amnesia for a hot view, and for a cold one no more than was
//     earned since Birth.
//   - A record from the future (At) was written before the clock was set back: it still
//     says who may spend, and what is owed, but nothing of what there was to spend.
//   - An absent cold bucket is full, or what was earned since Birth, or what any
//     floor since the region's beginning allowed; after a change of the limit it is no
//     more than a record that expired by the limit before is sure to hold.
//   - A record newer than the caller's knowledge is obeyed, and a cold caller gets
//     no more than the floor of it.
//   - Refill crosses the start of a phase, or a change of the floor, at the smallest
//     of the rates concerned.
//   - What is lent is room that the bucket does not have until it is brought back, or its
//     time has passed.
//   - What a limit that counts had in use when its memory was lost counts as all there
//     can be until none of it can be left.
//
// The same rules say whom to trust and which share is in force for buckets and for
// limits that count; only what is left of it differs.
func Settle(r Record, v View, now int64) (Record, Bucket, bool) {
	r, enforced, amnesia := settle(r, v, now)
	if v.Algorithm.Counts() {
		enforced.Cap = r.Use.rights(enforced.Cap, now)
	}
	return r, enforced, amnesia
}

// settle is Settle, but the bucket in force is all of it, also where a part of the
// rights does not count yet.
func settle(r Record, v View, now int64) (Record, Bucket, bool) {
	v.Since = v.begins()
	phase := v.phaseAt(now)
	if v.Blind && v.Phase != Live && phase == Limbo {
		v.Floor, v.Low = v.LimboFloor, v.Low.Min(v.LimboFloor)
	}
	amnesia, counts := false, v.Algorithm.Counts()
	if r.Stamp == v.Stamp && now < r.At {
		r.setBack(&v, now)
	}
	found := r
	trusted := r.Stamp == v.Stamp && (!v.Hot || r.Gen >= v.Gen)
	remembered := v.Memory != nil && r.Stamp != v.Stamp
	var enforced Bucket
	switch {
	case remembered:
		if enforced = v.Floor; v.Hot {
			enforced = under(phase, v.Share, v.Floor)
		}
		r = v.remembered(enforced, now)
	case trusted && r.Hot:
		f := r.obey(&v, phase)
		enforced = f.enforced
		if !counts {
			r.Extra = min(r.Extra, v.Extra)
			r.refillHot(f, &v, phase, now)
		}
		if f.cooled {
			r.coolDown(&v)
		}
	case trusted:
		enforced = v.Floor
		if !counts {
			r.settleCold(&v, now)
		}
	case v.Hot:
		enforced = under(phase, v.Share, v.Floor)
		r = Record{Hot: true, Gen: v.Gen, Share: v.Share}
		if counts {
			r.Use = blocked(now + tail(v.Algorithm, v.Window))
		}
		amnesia = true
	case counts:
		enforced = v.Floor
		r = Record{Use: freshUse(r, &v, now)}
	default:
		enforced = v.Floor
		r = freshCold(r, &v, now)
	}
	if !trusted && !remembered && !counts {
		r.Lent, r.LentUntil = v.mayBeOut(found, now)
	}
	r.At, r.Stamp = now, v.Stamp
	if counts {
		r.Use = r.Use.at(&v, now).add(&v, v.Debit, 0, now)
	} else {
		r.spend(min(v.Debit, max(0, r.held())))
		r.expire(now)
	}
	return r, enforced, amnesia
}

// setBack makes the best of a record that was written before the clock was set back.
// Whoever has had a share since must not get an earlier one because of that, so all of
// it stays but the tokens, which the time to come was spent from already; a debt does.
func (r *Record) setBack(v *View, now int64) {
	if r.Lent > 0 {
		r.LentUntil += now - r.At // by its holders' clocks nothing happened
	}
	r.At, r.Tokens, r.Carry, r.Extra = now, min(r.Tokens, 0), 0, 0
	if v.Algorithm.Counts() {
		r.Use = blocked(now + tail(v.Algorithm, v.Window))
	}
}

// phaseAt is the phase that holds at an instant of the store's clock: a deadline
// that the daemon believes in counts only if the store's clock agrees.
func (v *View) phaseAt(now int64) Phase {
	if v.Phase == Live && now > v.Until || v.Phase == Floor && now < v.begins() {
		return Limbo
	}
	return v.Phase
}

// begins is when the phase began, or can begin at the earliest, as far as the store
// knows.
func (v *View) begins() int64 {
	if v.Phase == Floor && v.HeardWait != 0 && v.Heard != 0 {
		return max(v.Since, min(v.Heard+v.HeardWait, MaxExact))
	}
	return v.Since
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

// force is what a hot record's share, the floor and the phase come to.
type force struct {
	// base is the record's own share, before what it allows in this phase, and enforced
	// what the caller's knowledge makes of that; they differ when a rules version
	// changed the limit, or when the key has cooled down.
	base, before, enforced Bucket
	// cooled: the record is the left-over of a key that has cooled down.
	cooled bool
}

// obey finds out what is in force for a trusted hot record, whose share it brings up
// to date.
func (r *Record) obey(v *View, phase Phase) force {
	if v.Hot && r.Gen > v.Gen && phase == Live && (r.At <= v.Since || r.Gen <= v.Known) {
		// A later share came before the present lease, in a session that has ended
		// without the caller hearing of it. This lease covers the caller's at the most.
		r.Share = r.Share.Min(v.Share)
	}
	f := force{base: r.Share, before: under(phase, r.Share, v.Floor)}
	switch {
	case v.Hot && r.Gen == v.Gen:
		r.Share = v.Share
		f.enforced = under(phase, v.Share, v.Floor)
	case v.Hot:
		if phase == Floor {
			// Somebody of this region was heard after the caller was cut off, and
			// may have lent the floor.
			f.before = r.Share.Min(v.Floor)
		}
		f.enforced = f.before
	case r.Gen > v.Gen || phase == Limbo:
		f.enforced = r.Share.Min(v.Floor)
		f.before = f.enforced
	case phase == Floor:
		f.enforced = v.Floor
	default: // Live: the left-over of a key that has cooled down
		f.enforced = v.Floor
		f.cooled = true
	}
	return f
}

// refillHot adds what a hot record earned since it was last touched.
func (r *Record) refillHot(f force, v *View, phase Phase, now int64) {
	from, start := r.At, v.FloorSince
	if phase != Limbo {
		start = max(start, v.Since)
	}
	slower := phase == Floor && r.At < v.RuleSince // else the record's share holds, of the limit before
	if slower {
		start = max(start, v.RuleSince)
	}
	if phase != Limbo && r.At <= v.Since || r.At < v.FloorSince || slower {
		// What came between is not known: a lapse, a share that was smaller than
		// the floor, or a smaller floor. The smallest of all holds up to the start.
		low := f.base.Min(v.Floor).Min(f.enforced)
		if r.At < v.FloorSince {
			low = low.Min(v.Low)
		}
		if slower {
			low.Rate = low.Rate.Min(v.Slow)
		}
		from = min(start, now)
		r.earn(low, v, r.At, from)
	}
	r.earn(f.before.Min(f.enforced), v, from, now)
}

// settleCold adds what a trusted cold record earned since it was last touched: before the
// floor changed at the smallest floor, whatever it was then, and before the limit changed
// at the slowest rate.
func (r *Record) settleCold(v *View, now int64) {
	from := r.At
	if since := max(v.FloorSince, v.RuleSince); r.At < since {
		low := v.Cold()
		if r.At < v.FloorSince {
			low = Bucket{Cap: v.Low.Cap + v.Extra, Rate: v.Low.Rate}
		}
		if r.At < v.RuleSince {
			low.Rate = low.Rate.Min(v.Slow)
		}
		from = min(since, now)
		r.earn(low, v, r.At, from)
	}
	r.earn(v.Cold(), v, from, now)
}

// freshCold is the cold bucket where no record can be trusted.
func freshCold(r Record, v *View, now int64) Record {
	fresh := freshFloor(r, v, now)
	if v.RuleSince != 0 {
		if tokens, carry := v.expired(now); tokens < fresh.Tokens {
			fresh.Tokens, fresh.Carry = tokens, carry
		}
	}
	return fresh
}

// expired is the least that a cold bucket holds whose record expired by the limit before:
// what was left of it at RuleSince for certain, and what the present limit has earned since.
//
// Worked number: 500 tokens that filled at 1000 a second fill at 100 a second since 0.2 s.
// The record is absent, so it was last touched at least 0.5 s x (1 - tokens/500) ago. Then
// 0.2 s ago there were 500 - 1000 x 0.2 = 300 at the least, and 300 + 100 x 0.2 = 320 are there.
func (v *View) expired(now int64) (Tokens, int64) {
	lost, carry := refill(0, 0, Bucket{Cap: MaxTokens, Rate: v.Before.Rate}, v.RuleSince, now)
	if carry > 0 {
		lost++
	}
	return refill(max(0, v.Before.Cap-lost), 0, v.Cold(), v.RuleSince, now)
}

// freshFloor is freshCold as the limit has always been, but for what it earned before it
// changed.
func freshFloor(r Record, v *View, now int64) Record {
	switch {
	case v.Birth != 0:
		from := max(v.Birth, v.FloorSince)
		slow := Bucket{Cap: v.Cold().Cap, Rate: v.Floor.Rate.Min(v.Slow)}
		tokens, carry := Tokens(0), int64(0)
		if from < v.RuleSince {
			tokens, carry = refill(0, 0, slow, from, min(v.RuleSince, now))
			from = v.RuleSince
		}
		tokens, carry = refill(tokens, carry, v.Cold(), from, now)
		return Record{Tokens: tokens, Carry: carry}
	case !r.Absent():
		return Record{}
	case v.FloorSince == 0:
		return Record{Tokens: v.Cold().Cap}
	}
	// A record that was full at some floor has gone. It is not Low with Extra: one
	// whose time to live was that of a faster floor may have gone before it was full.
	tokens, carry := refill(0, 0, v.Cold(), v.FloorSince, now)
	if tokens < v.Low.Cap {
		return Record{Tokens: v.Low.Cap}
	}
	return Record{Tokens: tokens, Carry: carry}
}

// freshUse is what may be in use where no record can be trusted.
func freshUse(r Record, v *View, now int64) *Use {
	lasts := tail(v.Algorithm, v.Window)
	switch {
	case v.Birth != 0:
		return blocked(min(v.Birth, now) + lasts) // the clock may have been set back since
	case r.Absent():
		return forgotten(v, now) // else it is kept for as long as anything counts
	default:
		return blocked(now + lasts)
	}
}

// forgotten is what may be in use by a record that a shorter window kept: the most that it
// would count if it was there, in the window in which the limit changed. Of a log, each
// admission counts for the window in which it was made, so nothing is.
func forgotten(v *View, now int64) *Use {
	if v.RuleSince == 0 || v.Algorithm.Logs() {
		return nil
	}
	changed, current := label(min(v.RuleSince, now), v.Window), label(now, v.Window)
	u := Use{Window: v.Window, Label: current}
	switch {
	case changed == current:
		u.Cur = v.Before.Cap
	case changed == current-1 && v.Algorithm == SlidingCounter:
		u.Prev = v.Before.Cap
	default:
		return nil
	}
	return &u
}
