package limit

import "time"

// MaxChunkLife is the longest time for which tokens may be lent, in microseconds. A holder that
// dies with a chunk keeps the bucket from filling up for that long.
const MaxChunkLife = 3 * million

// ChunkView is the chunk that a caller has borrowed of one bucket, and what it wants to borrow
// next. The caller spends a chunk without asking the store. The zero value has neither.
//
// What is lent and what a record holds together never exceed what the bucket may hold. So spending
// from a chunk, while it lasts, keeps every promise that spending from the record would have kept.
// What is not returned in time is lost.
type ChunkView struct {
	// Was is what the store has certainly lent to the caller. It leaves out what another call may
	// have returned whose outcome the caller does not know. Until is the latest Outcome.LentUntil;
	// it distinguishes this loan from a later one.
	Was   Tokens
	Until int64
	// Keep is the part of Was that is not spent and stays with the caller. Back is the part that is
	// returned: the caller must not spend it, whatever becomes of the call. One of them is 0, and
	// their sum is at most Was.
	Keep, Back Tokens
	// Want is what the caller wants to borrow for Life microseconds of the store's clock; Life is
	// at most MaxChunkLife. If the store cannot lend at least Least, it lends nothing. The caller
	// must have spent or returned the chunk by then.
	Want, Least Tokens
	Life        int64
}

// Asked reports whether the view has or wants a chunk.
func (c *ChunkView) Asked() bool { return c.Was != 0 || c.Want != 0 }

// Holds returns what the caller holds of the record by the answer to a call with this view, and for
// how long at most: half as long again as the store said, which is beyond what two clocks may
// differ by. It returns false if the answer does not say.
func (c *ChunkView) Holds(out *Outcome) (held Tokens, most time.Duration, known bool) {
	if !c.Asked() || c.Until == Void {
		return 0, 0, false
	}
	return out.kept(c) + out.Lent, time.Duration(out.LentFor+out.LentFor/2) * time.Microsecond, true
}

// Void is the Until of a view that counts nothing of a chunk: no chunk has lasted until then.
const Void = 1

// without returns the bucket with its capacity reduced by what is lent.
func (b Bucket) without(lent Tokens) Bucket {
	b.Cap = max(0, b.Cap-lent)
	return b
}

// out returns what is lent of a bucket's own tokens. For a hot key that is what its unused Extra
// would not cover.
func (r *Record) out(v *View) Tokens {
	if !r.Hot {
		return r.Lent
	}
	return max(0, r.Lent-max(0, v.Extra-r.Extra))
}

// mayBeOut returns what may have been lent of a record that was not trusted, and until when. For a
// record of the same contents that is what the record says. Before the birth that the caller names
// it is all that can be lent, because the loans of earlier contents end at that time.
func (v *View) mayBeOut(found Record, now int64) (lent Tokens, until int64) {
	switch {
	case now < v.Birth:
		return MaxTokens, min(v.Birth, now+MaxChunkLife) // the clock may have been set back since
	case found.Stamp == v.Stamp:
		return found.Lent, found.LentUntil
	}
	return 0, 0
}

// earn refills a bucket from one instant to another, with its room reduced by what is lent.
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

// expire ends a loan whose time has passed.
func (r *Record) expire(now int64) {
	if now > r.LentUntil {
		r.Lent, r.LentUntil = 0, 0
	}
}

// bringBack accounts for the caller's chunk in a settled record, with the bucket in force. It
// reports whether the chunk was still lent; if not, nothing of it counts.
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

// lend lends the caller of a settled record what it wants, at most half of what the record holds.
// kept is what the caller still has. While other callers have chunks too, all of them end when the
// others' do. Otherwise the chunk of a holder that died would never end.
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

// mayLend reports whether the record may lend to the caller. The caller must know the latest share,
// a right must back it, and the record must hold no Extra, which does not refill.
func (r *Record) mayLend(v *View, now int64) bool {
	if v.Algorithm.Counts() || v.phaseAt(now) == Limbo || r.Extra > 0 || r.Hot != v.Hot {
		return false
	}
	return r.Gen == v.Gen || !v.Hot && r.Gen < v.Gen
}
