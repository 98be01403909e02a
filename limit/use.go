package limit

import (
	"cmp"
	"math/bits"
	"slices"
)

// Use is what the record of a counting limit remembers of admissions. It is immutable: each change
// makes a new one. Nil is no use at all. Times are microseconds of the store's clock.
type Use struct {
	// Free is the end of a time in which nothing may be admitted, because the memory of what is in
	// use was lost.
	Free int64
	// Window is the window length that Label was computed with.
	Window int64
	// Cur was admitted in the window Label, Prev in the window before it (fixed windows and the
	// sliding counter only).
	Label     int64
	Cur, Prev Tokens
	// Held is what counts of the share in the window HeldLabel. The share has grown since, by
	// rights that others may have used in that window (fixed windows only).
	Held      Tokens
	HeldLabel int64
	// Entries are the admissions that are remembered separately, ordered by Until (logs and slots
	// only).
	Entries []Entry
}

// Entry is one admission that counts until Until.
type Entry struct {
	Until int64
	Cost  Tokens
	// Slot identifies a slot in use; it is 0 for an entry of a log.
	Slot uint64
}

// unknownUntil returns until when use counts of which nothing is known but that it was before an
// instant.
//
// A fixed window counts until it ends. The clock that counted it may have been ahead of the present one
// by less than a window, so this is the end of the window after the instant's: one to two windows later.
//
// Worked number: of a minute's limit nothing is known at 12 s. Use in the window that ends at 60 s counts
// until then, and until 120 s if the clock before was ahead.
func (v *View) unknownUntil(at int64) int64 {
	if v.Algorithm == FixedWindow {
		return at - at%v.Window + 2*v.Window
	}
	return at + tail(v.Algorithm, v.Window)
}

// blocked returns the use of a record whose memory was lost.
func blocked(free int64) *Use { return &Use{Free: min(free, MaxExact)} }

// setBack returns the use after the clock was set back from at. In the same window everything is known that counts there,
// and in the one before. What a log has forgotten ended by at, so it admits nothing until then. Otherwise nothing is known.
func (u *Use) setBack(v *View, at, now int64) *Use {
	free := now + tail(v.Algorithm, v.Window)
	switch {
	case at >= free:
	case u == nil:
		return blocked(at)
	case u.Window == 0:
		out := *u
		out.Free = max(u.Free, at)
		return &out
	case u.Window == v.Window && u.Label == label(now, v.Window):
		return u
	}
	return blocked(free)
}

// LabelOf returns the label of an instant's window, by the window length of u; see Label. The use
// of a record always has the label of the record's At.
func (u *Use) LabelOf(at int64) int64 { return label(at, u.Window) }

// HeldSlot is a slot that a caller gave out without its store. It is in use for Lasts more
// microseconds. All three numbers are above 0.
type HeldSlot struct {
	Slot  uint64
	Cost  Tokens
	Lasts int64
}

// mostUse bounds the use of a window. It is above any capacity, because a Debit is counted without
// a decision and has no bound of its own.
const mostUse = 2 * MaxTokens

// at brings the use to now: it forgets what no longer counts. Use that was counted by windows of
// another length counts as of now. The result is u itself if that is as it has to be at now.
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
		return u.or(out)
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
	if !v.Algorithm.SeesPrevious() {
		out.Prev = 0
	}
	if out.HeldLabel != current {
		out.Held, out.HeldLabel = 0, 0
	}
	out.Window, out.Label = v.Window, current
	return u.or(out)
}

// or returns u, or a later state of u if that differs. The entries of a later state are the last of u's.
func (u *Use) or(later Use) *Use {
	if later.Free == u.Free && later.Window == u.Window && later.Label == u.Label && later.Cur == u.Cur && later.Prev == u.Prev &&
		later.Held == u.Held && later.HeldLabel == u.HeldLabel && len(later.Entries) == len(u.Entries) {
		return u
	}
	kept := later // only this copy is on the heap
	return &kept
}

// inUse returns what counts at now, the instant that u was brought to. If that is not known, it
// returns all there can be.
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

// known returns what is known to count.
func (u *Use) known(v *View, now int64) Tokens {
	if v.Algorithm.Logs() {
		var sum Tokens
		for _, e := range u.Entries {
			sum += e.Cost
		}
		return sum
	}
	return u.Cur + Tokens(mulDivUp(int64(u.Prev), overlap(v.Algorithm, v.Window, now), v.Window))
}

// rights returns how much of a capacity counts at now.
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

// add counts an admission at now, the instant that u was brought to. A slot that is in use already
// was entered before its request came; it is not counted twice.
func (u *Use) add(v *View, cost Tokens, slot uint64, now int64) *Use {
	if cost == 0 || slot != 0 && u.has(slot) {
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

// has reports whether a slot is in use.
func (u *Use) has(slot uint64) bool {
	return u != nil && slices.ContainsFunc(u.Entries, func(e Entry) bool { return e.Slot == slot })
}

// enter counts slots that were given out without the store, but for those that are in use already.
func (u *Use) enter(held []HeldSlot, now int64) *Use {
	for _, s := range held {
		var out Use
		if u != nil {
			out = *u
		}
		if out.has(s.Slot) {
			continue
		}
		out.Entries = insert(out.Entries, Entry{Until: min(now+s.Lasts, MaxExact), Cost: s.Cost, Slot: s.Slot})
		u = &out
	}
	return u
}

// insert returns a copy of entries with one more, or with its cost added to an entry that counts
// for the same time. If there are many entries, one without a slot is merged with the last such
// entry. The merged entry counts for both, until the later Until.
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

// mostEntry bounds what one entry counts for: the largest capacity of an algorithm that keeps
// entries.
const mostEntry = MaxEntries * Token

// Release ends the use of a slot and returns the cost it held, or 0 if it is no longer in use.
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

// hold keeps a share that grows to most from counting in a window in which others may have used
// what it gains. had is what has counted of it so far. from is the first window in which it counts
// at once, 0 if that is not known.
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

// mulDivUp returns a*b/c rounded up, with the product in 128 bits. None is negative, b is at most
// c, and c is above 0.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, rest := bits.Div64(hi, lo, uint64(c))
	if rest > 0 {
		q++
	}
	return int64(q)
}
