package limit

// Untrusted returns the record that stands for one the store cannot make sense of. It differs from
// no record, because a request may have spent from it.
func Untrusted() Record { return Record{At: 1} }

// Absent reports whether there is no record.
func (r Record) Absent() bool { return r.Stamp == 0 && r.At == 0 }

// Settle brings one record to the instant now under one view. The record earns for the time since it
// was last used, but never at a rate or above a capacity that did not hold all that time. Then the
// debit is taken off. Settle returns the record and the bucket now in force, without any Extra. It also
// reports amnesia: the store has forgotten what the caller knows about the key. Then the tokens start
// at 0 and the session has to end.
//
// The rules, in order:
//   - A record of other contents (Stamp) is not trusted, nor one older than a hot caller's
//     generation. That is amnesia for a hot view. For a cold one it leaves what was earned since Birth.
//   - A record from the future (At) was written before the clock was set back. It still says who may
//     spend and what is owed, but nothing of the tokens it had.
//   - An absent cold bucket is full. After a Birth it has what it earned since; after a change of
//     floor, what any floor since the region's beginning allowed. After a change of the limit it has no
//     more than a record that expired by the earlier limit certainly holds.
//   - A record newer than the caller's knowledge is obeyed, and a cold caller gets no more of it than
//     the floor.
//   - Refill across the start of a phase, or a change of the floor, is at the smallest of the rates
//     concerned.
//   - What is lent is room that the bucket does not have until it is returned or its time has passed.
//   - If a counting limit loses its memory, everything counts as in use until none of it can be left.
//
// Buckets and counting limits share the rules of trust and of the share in force. They differ only in
// what is left of it.
func Settle(r Record, v View, now int64) (Record, Bucket, bool) {
	r, enforced, amnesia := settle(r, &v, now)
	if v.Algorithm.Counts() {
		enforced.Cap = r.Use.rights(enforced.Cap, now)
	}
	return r, enforced, amnesia
}

// settle is Settle, but the bucket in force includes the part of the rights that does not count
// yet. It does not change the view: it copies one that is not as it has to be at now, which few are.
func settle(r Record, v *View, now int64) (Record, Bucket, bool) {
	phase := v.phaseAt(now)
	blind := v.Blind && v.Phase != Live && phase == Limbo
	if since := v.begins(); since != v.Since || blind {
		present := *v
		v, present.Since = &present, since
		if blind {
			present.Floor, present.Low = v.LimboFloor, v.Low.Min(v.LimboFloor)
		}
	}
	amnesia, counts := false, v.Algorithm.Counts()
	if r.Stamp == v.Stamp && now < r.At {
		r.setBack(v, now)
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
		f := r.obey(v, phase, now)
		enforced = f.enforced
		if !counts {
			r.Extra = min(r.Extra, v.Extra)
			r.refillHot(f, v, phase, now)
		}
		if f.cooled {
			r.coolDown(v)
		}
	case trusted:
		enforced = v.Floor
		if !counts {
			r.settleCold(v, now)
		}
	case v.Hot:
		enforced = under(phase, v.Share, v.Floor)
		r = Record{Hot: true, Gen: v.Gen, Share: v.Share}
		if counts {
			r.Use = blocked(v.unknownUntil(now))
		}
		amnesia = true
	case counts:
		enforced = v.Floor
		r = Record{Use: freshUse(r, v, now)}
	default:
		enforced = v.Floor
		r = freshCold(r, v, now)
	}
	if !trusted && !remembered && !counts {
		r.Lent, r.LentUntil = v.mayBeOut(found, now)
	}
	r.At, r.Stamp = now, v.Stamp
	if counts {
		r.Use = r.Use.at(v, now).add(v, v.Debit, 0, now).enter(v.Held, now)
	} else {
		r.spend(min(v.Debit, max(0, r.held())))
		r.expire(now)
	}
	return r, enforced, amnesia
}

// setBack adapts a record that was written before the clock was set back. A daemon that has had a
// later share must not get an earlier one because of that, so everything stays except the tokens.
// Those were already spent from by the time to come. A debt stays too.
func (r *Record) setBack(v *View, now int64) {
	if r.Lent > 0 {
		r.LentUntil += now - r.At // the clocks of the loan's holders did not change
	}
	if v.Algorithm.Counts() {
		r.Use = r.Use.setBack(v, r.At, now)
	}
	r.At, r.Tokens, r.Carry, r.Extra = now, min(r.Tokens, 0), 0, 0
}

// phaseAt returns the phase that holds at an instant of the store's clock. A deadline that the
// daemon believes in counts only if the store's clock agrees.
func (v *View) phaseAt(now int64) Phase {
	if v.Phase == Live && now > v.Until || v.Phase == Floor && now < v.begins() {
		return Limbo
	}
	return v.Phase
}

// begins returns when the phase began, or the earliest time it can begin, as far as the store
// knows.
func (v *View) begins() int64 {
	if v.Phase == Floor && v.HeardWait != 0 && v.Heard != 0 {
		return max(v.Since, min(v.Heard+v.HeardWait, MaxExact))
	}
	return v.Since
}

// under returns what a share allows in a phase.
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

// force is the combined effect of a hot record's share, the floor and the phase.
type force struct {
	// base is the record's own share. before is what that allows in this phase, and enforced is
	// what the caller's knowledge makes of before. The two differ when a rules version changed the
	// limit, or when the key has cooled down.
	base, before, enforced Bucket
	// slow is the rate of enforced by the slowest limit there was until View.RuleSince.
	slow Rate
	// cooled: the record is left over from a key that has cooled down.
	cooled bool
}

// obey determines what is in force for a trusted hot record, and updates the record's share.
func (r *Record) obey(v *View, phase Phase, now int64) force {
	if v.Hot && r.Gen > v.Gen && phase == Live && !v.leaseCovers(r, now) {
		r.Share = r.Share.Min(v.Share)
	}
	f := force{base: r.Share, before: under(phase, r.Share, v.Floor), slow: v.Slow}
	if phase != v.Phase || v.Hot && r.Gen != v.Gen || !v.Hot && phase == Limbo {
		f.slow = Rate{} // the caller's is of another share
	}
	switch {
	case v.Hot && r.Gen == v.Gen:
		r.Share = v.Share
		f.enforced = under(phase, v.Share, v.Floor)
	case v.Hot:
		if phase == Floor {
			// Another daemon of this region was heard after the caller was cut off, and may have
			// lent the floor.
			f.before = r.Share.Min(v.Floor)
		}
		f.enforced = f.before
	case r.Gen > v.Gen || phase == Limbo:
		f.enforced = r.Share.Min(v.Floor)
		f.before = f.enforced
	case phase == Floor:
		f.enforced = v.Floor
	default: // Live: the record is left over from a key that has cooled down
		f.enforced = v.Floor
		f.cooled = true
	}
	return f
}

// refillHot adds what a hot record earned since it was last used.
func (r *Record) refillHot(f force, v *View, phase Phase, now int64) {
	from, start := r.At, v.FloorSince
	if phase != Limbo {
		start = max(start, v.Since)
	}
	low, lapsed, changed := f.before.Min(f.enforced), phase != Limbo && r.At <= v.Since || r.At < v.FloorSince, r.At < v.RuleSince
	if lapsed {
		// The events in between are unknown: a lapse, a share smaller than the floor, or a smaller
		// floor. Up to the start the smallest of them counts.
		low = f.base.Min(v.Floor).Min(f.enforced)
		if r.At < v.FloorSince {
			low = low.Min(v.Low)
		}
	}
	if changed {
		// Until then the limit may have been a slower one.
		start, low.Rate = max(start, v.RuleSince), low.Rate.Min(f.slow)
	}
	if lapsed || changed {
		from = min(start, now)
		r.earn(low, v, r.At, from)
	}
	r.earn(f.before.Min(f.enforced), v, from, now)
}

// settleCold adds what a trusted cold record earned since it was last used. Before a change of the
// floor it earned at the smallest floor there was, before a change of the limit at the slowest
// rate.
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

// freshCold returns the cold bucket where no record can be trusted.
func freshCold(r Record, v *View, now int64) Record {
	fresh := freshFloor(r, v, now)
	if v.RuleSince != 0 {
		if tokens, carry := v.expired(now); tokens < fresh.Tokens {
			fresh.Tokens, fresh.Carry = tokens, carry
		}
	}
	return fresh
}

// expired returns the least that a cold bucket holds whose record expired by the earlier limit:
// what was certainly left of it at RuleSince, and what the present limit has earned since.
//
// Worked number: 500 tokens that filled at 1000 a second fill at 100 a second since 0.2 s. The
// record is absent, so it was last used at least 0.5 s x (1 - tokens/500) ago. So 0.2 s ago at
// least 500 - 1000 x 0.2 = 300 were there, and now at least 300 + 100 x 0.2 = 320.
func (v *View) expired(now int64) (Tokens, int64) {
	lost, carry := refill(0, 0, Bucket{Cap: MaxTokens, Rate: v.Before.Rate}, v.RuleSince, now)
	if carry > 0 {
		lost++
	}
	return refill(max(0, v.Before.Cap-lost), 0, v.Cold(), v.RuleSince, now)
}

// freshFloor is freshCold for a limit that never changed, except for what it earned before a
// change.
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
	// A record that was full at some floor has expired. It does not hold Low plus Extra: a record
	// whose time to live was that of a faster floor may have expired before it was full.
	tokens, carry := refill(0, 0, v.Cold(), v.FloorSince, now)
	if tokens < v.Low.Cap {
		return Record{Tokens: v.Low.Cap}
	}
	return Record{Tokens: tokens, Carry: carry}
}

// freshUse returns what may be in use where no record can be trusted.
func freshUse(r Record, v *View, now int64) *Use {
	switch {
	case v.Birth != 0:
		return blocked(v.unknownUntil(min(v.Birth, now))) // the clock may have been set back since
	case r.Absent():
		return forgotten(v, now) // the record is kept for as long as anything counts
	default:
		return blocked(v.unknownUntil(now))
	}
}

// forgotten returns what may be in use by a record that a shorter window kept: the most that it
// would count if it still existed, in the window in which the limit changed. An admission of a log
// counts for the window in which it was made, so for a log the result is nil.
func forgotten(v *View, now int64) *Use {
	if v.RuleSince == 0 || v.Algorithm.Logs() {
		return nil
	}
	changed, current := label(min(v.RuleSince, now), v.Window), label(now, v.Window)
	u := Use{Window: v.Window, Label: current}
	switch {
	case changed == current:
		u.Cur = v.Before.Cap
	case changed == current-1 && v.Algorithm.SeesPrevious():
		u.Prev = v.Before.Cap
	default:
		return nil
	}
	return &u
}
