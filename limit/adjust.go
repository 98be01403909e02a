package limit

import "slices"

// Adjustment ends a reservation: it replaces what one limit of a request was charged by what was
// used.
type Adjustment struct {
	// View is what the caller may spend of the key now. Its Slot is the slot that the reservation
	// holds (Concurrency only).
	View View
	// At is when the request was charged, in microseconds of the store's clock. Window is the
	// limit's window at that time. Reserved is the amount charged.
	At, Window int64
	Reserved   Tokens
	Used       Tokens
	// Denied: the charge was of a request that was not admitted. Room is how much the bucket lacked to be
	// full before that charge, at least. What it has earned beyond Room since then, it would have lost
	// without the charge, so that much does not come back.
	Denied bool
	Room   Tokens
	// Debt is how far the charge may exceed what the record has: below zero for a bucket, above the
	// rights for a counting limit. It is the limit's capacity.
	Debt Tokens
}

// Adjusted is the result of an Adjustment.
type Adjusted struct {
	// Refunded is what came back to the record. It is less than Reserved - Used where there was no
	// room, or where what was charged no longer counts.
	Refunded Tokens
	// Spare is what did not fit into a hot bucket of the caller's own generation. It belongs to the
	// pool.
	Spare Tokens
	// Charged is what was taken beyond Reserved, including the debt this made.
	Charged Tokens
	// Tokens is what is left, including a record's Extra; below 0 it is a debt. For a counting limit it
	// is the rights that are left.
	Tokens Tokens
	// InUse is what is in use of a counting limit, MaxTokens if that is not known; 0 for a bucket. It may
	// be more than the rights, which may have changed since the charge.
	InUse Tokens
	// Amnesia is as in Outcome. Nothing is refunded then, because the record of the charge is lost.
	Amnesia bool
	// At is the store's clock at that time, in microseconds; 0: it is not known whether the adjustment
	// was made. With a reservation a store keeps one instant for all limits.
	At int64
}

// Adjust gives back what was reserved and not used, or charges what was used beyond it. Such use
// has happened already, so a bucket may go below 0, by Debt at most, and of a counting limit Debt
// more than the rights may be in use. A slot is released, whatever was used of it. The record is
// settled first. Adjust must be called only once for a reservation.
//
// A refund creates no tokens: it gives back what was taken from the same region's bucket, up to
// what that bucket may hold now.
func Adjust(r Record, a Adjustment, now int64) (Record, Adjusted) {
	r, in, amnesia := Settle(r, a.View, now)
	out := Adjusted{Amnesia: amnesia, At: now}
	back, more := a.Reserved-a.Used, a.Used-a.Reserved
	switch {
	case a.View.Algorithm == Concurrency:
		r, out.Refunded = Release(r, a.View.Slot)
	case more > 0:
		out.Charged = max(0, min(more, r.available(&a.View, in, now)+a.Debt))
		r.charge(&a.View, out.Charged, now)
	case amnesia:
	case a.View.Algorithm.Counts():
		r.Use, out.Refunded = r.Use.giveBack(&a, back, now)
	default:
		back = max(0, back-a.overflow(&r, in, now))
		out.Refunded = max(0, min(back, r.most(&a.View, in)-r.out(&a.View)-r.Tokens))
		r.Tokens += out.Refunded
		if r.Hot && a.View.Hot && r.Gen == a.View.Gen {
			out.Spare = back - out.Refunded
		}
	}
	out.Tokens = r.available(&a.View, in, now)
	if a.View.Algorithm.Counts() {
		out.Tokens = max(0, out.Tokens)
		out.InUse = r.Use.inUse(&a.View, now)
	}
	return r, out
}

// available returns what a settled record has left. It is below 0 if the record owes tokens or has more
// in use than it has rights.
func (r *Record) available(v *View, in Bucket, now int64) Tokens {
	if v.Algorithm.Counts() {
		return in.Cap - r.Use.inUse(v, now)
	}
	return r.held()
}

// overflow returns the most that a bucket would have lost for want of room since a charge of a denied
// request, had it not been charged. Nothing is known to have been spent meanwhile.
func (a *Adjustment) overflow(r *Record, in Bucket, now int64) Tokens {
	if !a.Denied {
		return 0
	}
	earned, _ := refill(0, 0, Bucket{Cap: MaxTokens, Rate: in.Rate}, a.At, now)
	return max(0, earned-max(0, a.Room-r.out(&a.View)))
}

// most returns how much the record may hold without its Extra.
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

// giveBack returns the use without a part of what was charged at a.At, as far as that still counts,
// and the amount it gave back. u must have been brought to now. It gives nothing back if the limit
// has another window now or the clock was set back, because then it is unknown what still counts.
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
		return u, 0 // it no longer counts, or is merged with other entries
	}
	u.Entries = slices.Clone(u.Entries)
	e := &u.Entries[i]
	amount = min(amount, e.Cost)
	if e.Cost -= amount; e.Cost == 0 {
		u.Entries = slices.Delete(u.Entries, i, i+1)
	}
	return u, amount
}
