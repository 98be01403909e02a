package limit

// MaxChunkLife is the longest that tokens may be lent for, microseconds: a holder that
// dies with them keeps a bucket from filling up for so long.
const MaxChunkLife = 3 * million

// ChunkView is what a caller has borrowed of one bucket, a chunk, which it spends without
// asking the store, and what it wants to borrow anew. The zero value is neither.
//
// What is lent and what a record holds are together never more than the bucket may hold.
// So what is spent of a chunk, when it is spent, keeps every promise that spending from
// the record would have kept; what is not brought back in time is lost.
type ChunkView struct {
	// Was is what the store has lent to the caller, for certain: nothing that another
	// call, whose outcome the caller does not know, tells of as well. Until is what
	// Outcome.LentUntil told of it last: it tells this loan from a later one.
	Was   Tokens
	Until int64
	// Keep of it is not spent yet, and stays with the caller; Back of it is given back,
	// and the caller must not spend it whatever becomes of the call. One of them is 0,
	// their sum is at most Was.
	Keep, Back Tokens
	// Want is what the caller wants to borrow, or nothing if it cannot have Least, for
	// Life microseconds of the store's clock, at most MaxChunkLife. The caller has to be
	// done with it by then.
	Want, Least Tokens
	Life        int64
}

// Asked reports whether there is anything in it.
func (c *ChunkView) Asked() bool { return c.Was != 0 || c.Want != 0 }

// without is the bucket that is left where a part of what it may hold is lent.
func (b Bucket) without(lent Tokens) Bucket {
	b.Cap = max(0, b.Cap-lent)
	return b
}

// out is what is lent of a bucket's own tokens: of a hot key's, what its unused Extra
// would not cover.
func (r *Record) out(v *View) Tokens {
	if !r.Hot {
		return r.Lent
	}
	return max(0, r.Lent-max(0, v.Extra-r.Extra))
}

// mayBeOut is what may have been lent of a record that was not trusted: what it tells of
// the same contents, and all there can be before the birth that the caller tells of, which
// is when what earlier contents had lent is over.
func (v *View) mayBeOut(found Record, now int64) (lent Tokens, until int64) {
	switch {
	case now < v.Birth:
		return MaxTokens, min(v.Birth, now+MaxChunkLife) // the clock may have been set back since
	case found.Stamp == v.Stamp:
		return found.Lent, found.LentUntil
	}
	return 0, 0
}

// earn refills a bucket from one instant to another, with as much less room as is lent.
func (r *Record) earn(b Bucket, v *View, from, to int64) {
	if r.Lent > 0 && from <= r.LentUntil {
		end := min(to, r.LentUntil)
		r.Tokens, r.Carry = refill(r.Tokens, r.Carry, b.without(r.out(v)), from, end)
		if from = end; end == to {
			return
		}
	}
	r.Tokens, r.Carry = refill(r.Tokens, r.Carry, b, from, to)
}

// expire ends what is lent when its time has passed.
func (r *Record) expire(now int64) {
	if now > r.LentUntil {
		r.Lent, r.LentUntil = 0, 0
	}
}

// bringBack accounts for what the caller had, in a settled record with a bucket in force.
// It reports whether that was still lent: else nothing of it counts.
func (r *Record) bringBack(v *View, in Bucket) bool {
	c := &v.Chunk
	if c.Was == 0 || r.Lent == 0 || r.LentUntil != c.Until {
		return false
	}
	if r.Lent = r.Lent - min(c.Was, r.Lent) + c.Keep; r.Lent == 0 {
		r.LentUntil = 0
	}
	if room := r.most(v, in) - r.out(v) - r.Tokens; c.Back > 0 && c.Back >= room {
		r.Tokens, r.Carry = r.Tokens+max(0, room), 0
	} else {
		r.Tokens += c.Back
	}
	return true
}

// lend gives the caller of a settled record what it wants, half of what is there at
// most; the caller still has kept. While others have some too, all of it ends when that
// of the others does: else what a holder that died had would never be over.
func (r *Record) lend(v *View, kept Tokens, now int64) Tokens {
	c := &v.Chunk
	others := r.Lent - kept
	grant := min(c.Want, r.Tokens/2)
	if grant <= 0 || grant < c.Least || !r.mayLend(v, now) || others > 0 && 4*(r.LentUntil-now) < c.Life {
		return 0
	}
	r.Tokens -= grant
	r.Lent += grant
	if others == 0 {
		r.LentUntil = max(r.LentUntil, min(now+c.Life, MaxExact))
	}
	return grant
}

// mayLend: the caller knows the latest share, a right backs it, and no token here is of
// the kind that does not fill up.
func (r *Record) mayLend(v *View, now int64) bool {
	if v.Algorithm.Counts() || v.phaseAt(now) == Limbo || r.Extra > 0 || r.Hot != v.Hot {
		return false
	}
	return r.Gen == v.Gen || !v.Hot && r.Gen < v.Gen
}
