package limit

// An elastic limit lets a cold bucket hold more than the floor: View.Extra on top.
// When the key becomes hot, that part of its tokens turns into Record.Extra, beside
// the share; when it returns to cold, both are one again. Either way nothing is
// gained, so that all regions together never hold more than each its cold bucket.

// held is all that a record can spend; below 0 it is what the record owes.
func (r *Record) held() Tokens { return r.Tokens + r.Extra }

// spend takes a cost that the record holds, from Extra first, and returns how much
// of it was Extra.
func (r *Record) spend(cost Tokens) Tokens {
	extra := min(r.Extra, cost)
	r.Extra -= extra
	r.Tokens -= cost - extra
	return extra
}

// setApart turns tokens of a cold record into Extra, up to most: what is left is
// the share's, and may move.
func (r *Record) setApart(most Tokens) {
	r.Extra = max(0, min(r.Tokens, most))
	r.Tokens -= r.Extra
}

// coolDown makes the record cold; what is above the cold bucket is void.
func (r *Record) coolDown(v *View) {
	r.Hot, r.Share = false, Bucket{}
	r.Tokens, r.Carry = clamp(r.held(), r.Carry, v.Cold().without(r.Lent).Cap)
	r.Extra = 0
}
