package limit

import "slices"

// Adjustment replaces what one limit of a request was charged by what was used: the
// end of a reservation.
type Adjustment struct {
	// View is what the caller may spend of the key now. Its Slot is the one that the
	// reservation has (Concurrency only).
	View View
	// At is when the request was charged, microseconds of the store's clock, Window the
	// limit's then, and Reserved how much.
	At, Window int64
	Reserved   Tokens
	Used       Tokens
	// Debt is how much more than it has, or than its rights, the record may be charged:
	// the limit's capacity.
	Debt Tokens
}

// Adjusted is what an adjustment came to.
type Adjusted struct {
	// Refunded came back to the record; it is less than Reserved - Used where there was
	// no room, or where what was charged does not count any more.
	Refunded Tokens
	// Spare is what a hot bucket of the caller's own generation had no room for: it
	// belongs to the pool.
	Spare Tokens
	// Charged is what was taken beyond Reserved, with the debt that it made.
	Charged Tokens
	// Tokens are left, a record's Extra included; 0 where some are owed. For a limit that
	// counts they are the rights that are left.
	Tokens Tokens
	// Amnesia as in Outcome. Nothing is refunded then: the record of it is gone.
	Amnesia bool
}

// Adjust gives back what was reserved and not used, or charges what was used beyond it,
// for it was used already: a bucket goes below 0, by Debt at most, and of a limit that
// counts Debt more than the rights may be in use. A slot is released, whatever was used
// of it. The record is settled first. Of the same reservation it is to be called once.
//
// A refund makes no tokens: it gives back what was taken from the same region's bucket,
// up to what that may hold now.
func Adjust(r Record, a Adjustment, now int64) (Record, Adjusted) {
	r, in, amnesia := Settle(r, a.View, now)
	out := Adjusted{Amnesia: amnesia}
	back, more := a.Reserved-a.Used, a.Used-a.Reserved
	switch {
	case a.View.Algorithm == Concurrency:
		r, out.Refunded = Release(r, a.View.Slot)
	case more > 0:
		out.Charged = max(0, min(more, r.room(&a.View, in, now)+a.Debt))
		r.charge(&a.View, out.Charged, now)
	case amnesia:
	case a.View.Algorithm.Counts():
		r.Use, out.Refunded = r.Use.giveBack(&a, back, now)
	default:
		out.Refunded = max(0, min(back, r.most(&a.View, in)-r.out(&a.View)-r.Tokens))
		r.Tokens += out.Refunded
		if r.Hot && a.View.Hot && r.Gen == a.View.Gen {
			out.Spare = back - out.Refunded
		}
	}
	out.Tokens = max(0, r.room(&a.View, in, now))
	return r, out
}

// room is what a settled record has, below 0 where it owes, or has more in use than it
// has rights.
func (r *Record) room(v *View, in Bucket, now int64) Tokens {
	if v.Algorithm.Counts() {
		return in.Cap - r.Use.inUse(v, now)
	}
	return r.held()
}

// most is what the record may hold without its Extra.
func (r *Record) most(v *View, in Bucket) Tokens {
	if r.Hot {
		return in.Cap
	}
	return in.Cap + v.Extra
}

func (r *Record) charge(v *View, cost Tokens, now int64) {
	if v.Algorithm.Counts() {
		r.Use = r.Use.add(v, cost, 0, now)
		return
	}
	r.spend(cost)
}

// giveBack is the use without a part of what was charged at a.At, as far as that still
// counts; u was brought to now. Where the limit has another window, or the clock was set
// back, nobody knows what counts of it.
func (u *Use) giveBack(a *Adjustment, amount Tokens, now int64) (*Use, Tokens) {
	v := &a.View
	if u == nil || u.Free > now || amount == 0 || a.Window != v.Window || a.At > now {
		return u, 0
	}
	out := *u
	if v.Algorithm == SlidingLog {
		return out.giveBackEntry(a.At+a.Window, amount)
	}
	counted := &out.Cur
	switch label(a.At, v.Window) {
	case u.Label:
	case u.Label - 1:
		counted = &out.Prev
	default:
		return u, 0
	}
	amount = min(amount, *counted)
	*counted -= amount
	return &out, amount
}

func (u *Use) giveBackEntry(until int64, amount Tokens) (*Use, Tokens) {
	i := slices.IndexFunc(u.Entries, func(e Entry) bool { return e.Until == until && e.Slot == 0 })
	if i < 0 {
		return u, 0 // it does not count any more, or is remembered along with others
	}
	u.Entries = slices.Clone(u.Entries)
	e := &u.Entries[i]
	amount = min(amount, e.Cost)
	if e.Cost -= amount; e.Cost == 0 {
		u.Entries = slices.Delete(u.Entries, i, i+1)
	}
	return u, amount
}
