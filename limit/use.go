package limit

import (
	"cmp"
	"math/bits"
	"slices"
)

// Use is what a record of a limit that counts remembers of what was admitted. It is
// never modified: each change makes another one. Nil is no use at all. Times are
// microseconds of the store's clock.
type Use struct {
	// Free is the end of a time in which nothing may be admitted, because what is in
	// use is not known: the memory of it was lost.
	Free int64
	// Window is the length by which Label was counted.
	Window int64
	// Cur was admitted in the window Label, Prev in the one before (fixed windows and
	// the sliding counter only).
	Label     int64
	Cur, Prev Tokens
	// Held is what counts of the share in the window HeldLabel: it has grown since, by
	// rights that others may have used in that window (fixed windows only).
	Held      Tokens
	HeldLabel int64
	// Entries are the admissions that are remembered each by itself, in the order of
	// Until (logs and slots only).
	Entries []Entry
}

// Entry is one admission that counts up to Until.
type Entry struct {
	Until int64
	Cost  Tokens
	// Slot names a slot in use; 0 for an entry of a log.
	Slot uint64
}

// blocked is the use of a record whose memory was lost.
func blocked(free int64) *Use { return &Use{Free: min(free, MaxExact)} }

// LabelOf numbers the window of an instant, by the length that u is counted by; see
// Label. The use of a record always has the label of the record's At.
func (u *Use) LabelOf(at int64) int64 { return label(at, u.Window) }

// mostUse bounds the use of a window, which is above any capacity: what a limit was
// made to count without being asked (Debit) has no bound of its own.
const mostUse = 2 * MaxTokens

// at brings the use to now: what no longer counts is forgotten. Use that was counted
// by windows of another length counts as of now.
func (u *Use) at(v *View, now int64) *Use {
	if u == nil {
		return nil
	}
	out := *u
	if out.Free <= now {
		out.Free = 0
	}
	if v.Algorithm.Logs() {
		expired := 0
		for expired < len(u.Entries) && u.Entries[expired].Until <= now {
			expired++
		}
		out.Entries = u.Entries[expired:]
		return &out
	}
	current := label(now, v.Window)
	switch {
	case u.Window != v.Window:
		out.Cur, out.Prev = min(u.Cur+u.Prev, mostUse), 0
		if u.HeldLabel == u.Label && u.Label != 0 {
			out.HeldLabel = current
		}
	case current == u.Label+1:
		out.Cur, out.Prev = 0, u.Cur
	case current != u.Label:
		out.Cur, out.Prev = 0, 0
	}
	if v.Algorithm == FixedWindow {
		out.Prev = 0
	}
	if out.HeldLabel != current {
		out.Held, out.HeldLabel = 0, 0
	}
	out.Window, out.Label = v.Window, current
	return &out
}

// inUse is what counts at now, the instant that u was brought to; all there can be
// where that is not known.
func (u *Use) inUse(v *View, now int64) Tokens {
	switch {
	case u == nil:
		return 0
	case u.Free > now:
		return MaxTokens
	default:
		return u.known(v, now)
	}
}

// known is what is known to count.
func (u *Use) known(v *View, now int64) Tokens {
	if v.Algorithm.Logs() {
		var sum Tokens
		for _, e := range u.Entries {
			sum += e.Cost
		}
		return sum
	}
	return u.Cur + Tokens(mulDivUp(int64(u.Prev), v.Window-now%v.Window, v.Window))
}

// rights is what counts of a capacity at now.
func (u *Use) rights(most Tokens, now int64) Tokens {
	switch {
	case u == nil:
		return most
	case u.Free > now:
		return 0
	case u.HeldLabel != 0:
		return min(most, u.Held)
	default:
		return most
	}
}

// add counts an admission at now, the instant that u was brought to.
func (u *Use) add(v *View, cost Tokens, slot uint64, now int64) *Use {
	if cost == 0 {
		return u
	}
	var out Use
	if u != nil {
		out = *u
	}
	if !v.Algorithm.Logs() {
		out.Window, out.Label = v.Window, label(now, v.Window)
		out.Cur = min(out.Cur+cost, mostUse)
		return &out
	}
	e := Entry{Until: now + v.Window, Cost: cost, Slot: slot}
	if slot != 0 && v.Lasts != 0 {
		e.Until = now + min(v.Lasts, v.Window)
	}
	out.Entries = insert(out.Entries, e)
	return &out
}

// insert is a copy of entries with one more, or with its cost added to what counts as
// long. One that has no slot takes the place of the last such when there are many: it
// counts for both, as long as either.
func insert(entries []Entry, e Entry) []Entry {
	entries = append(make([]Entry, 0, len(entries)+1), entries...)
	if e.Slot == 0 && len(entries) >= MaxEntries {
		for i := len(entries) - 1; i >= 0; i-- {
			if last := entries[i]; last.Slot == 0 {
				e.Until, e.Cost = max(e.Until, last.Until), e.Cost+last.Cost
				entries = slices.Delete(entries, i, i+1)
				break
			}
		}
	}
	at, found := slices.BinarySearchFunc(entries, e, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Slot, b.Slot))
	})
	if found && e.Slot == 0 {
		entries[at].Cost = min(entries[at].Cost+e.Cost, mostEntry)
		return entries
	}
	e.Cost = min(e.Cost, mostEntry)
	return slices.Insert(entries, at, e)
}

// mostEntry bounds what one entry counts for: the largest capacity there is where
// entries are kept.
const mostEntry = MaxEntries * Token

// Release ends the use of a slot and returns what it held; 0 if it is not in use any
// more.
func Release(r Record, slot uint64) (Record, Tokens) {
	if r.Use == nil || slot == 0 {
		return r, 0
	}
	i := slices.IndexFunc(r.Use.Entries, func(e Entry) bool { return e.Slot == slot })
	if i < 0 {
		return r, 0
	}
	use, freed := *r.Use, r.Use.Entries[i].Cost
	use.Entries = slices.Delete(slices.Clone(use.Entries), i, i+1)
	r.Use = &use
	return r, freed
}

// hold keeps a share that grows to most from counting in a window in which others may
// have used what it gains; had is what counted of it until now. from is the first
// window in which it counts at once, 0 if that is not known.
func (u *Use) hold(v *View, had, most Tokens, from, now int64) *Use {
	if v.Algorithm != FixedWindow || u != nil && u.Free > now {
		return u
	}
	current := label(now, v.Window)
	out := Use{Window: v.Window, Label: current}
	if u != nil {
		out = *u
	}
	switch {
	case from != 0 && current >= from:
		out.Held, out.HeldLabel = 0, 0
	case most > had && out.HeldLabel != current:
		out.Held, out.HeldLabel = had, current
	}
	return &out
}

// mulDivUp is a*b/c rounded up, with the product in 128 bits; none is negative, b is
// at most c, and c is above 0.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, rest := bits.Div64(hi, lo, uint64(c))
	if rest > 0 {
		q++
	}
	return int64(q)
}
