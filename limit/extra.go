package limit

// An elastic limit lets a cold bucket hold View.Extra more than the floor. When the key becomes
// hot, that part of its tokens becomes Record.Extra, beside the share. When the key returns to
// cold, both become one again. Neither step creates tokens, so all regions together never hold more
// than each region's cold bucket.

// held returns everything that a record can spend. Below 0 it is what the record owes.
func (r *Record) held() Tokens { return r.Tokens + r.Extra }

// spend takes a cost that the record holds, from Extra first, and returns how much of it was Extra.
func (r *Record) spend(cost Tokens) Tokens {
	extra := min(r.Extra, cost)
	r.Extra -= extra
	r.Tokens -= cost - extra
	return extra
}

// setApart turns tokens of a cold record into Extra, up to most. What is left belongs to the share
// and may move.
func (r *Record) setApart(most Tokens) {
	r.Extra = max(0, min(r.Tokens, most))
	r.Tokens -= r.Extra
}

// coolDown makes the record cold and discards what does not fit into the cold bucket.
func (r *Record) coolDown(v *View) {
	r.Hot, r.Share = false, Bucket{}
	r.Tokens, r.Carry = clamp(r.held(), r.Carry, v.Cold().without(r.Lent).Cap)
	r.Extra = 0
}
