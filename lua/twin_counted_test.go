package lua

import (
	"slices"

	"aliquot/limit"
)

// The inputs that the twin test draws for limits that count.

// window is one of a few lengths, so that records and views meet in the same, and ends
// while the test runs.
func (w *twins) window() int64 {
	lengths := []int64{1, 7, 1000, 30_000, 1_000_000, 60_000_000, 86_400_000_000, MaxWindow.Microseconds()}
	return lengths[w.IntN(len(lengths))]
}

// rights are few most of the time: their use meets them.
func (w *twins) rights(a limit.Algorithm) limit.Bucket {
	most := int64(mostRights(a))
	if w.IntN(4) > 0 {
		return limit.Bucket{Cap: limit.Tokens(w.Int64N(60)) * limit.Token}
	}
	return limit.Bucket{Cap: limit.Tokens(w.amount(most))}
}

func (w *twins) countedView(first limit.View, a limit.Algorithm) limit.View {
	v := w.header()
	v.Until, v.Deadline, v.Known, v.Algorithm, v.Window = first.Until, first.Deadline, first.Known, a, w.window()
	v.Gen, v.Floor = w.gen()-1, w.rights(a)
	if w.IntN(2) == 0 {
		v.Hot, v.Gen, v.Share = true, w.gen(), w.rights(a)
	}
	v.LimboFloor = w.rights(a).Min(v.Floor)
	w.changed(&v, func() limit.Bucket { return w.rights(a) })
	w.charges(&v)
	if a == limit.Concurrency && w.IntN(4) == 0 {
		for range w.IntN(6) {
			v.Held = append(v.Held, w.held())
		}
	}
	return v
}

// recordOf is a record of a key of an algorithm that no history led to.
func (w *twins) recordOf(a limit.Algorithm) limit.Record {
	if !a.Counts() {
		return w.record()
	}
	r := limit.Record{Stamp: w.stamp, At: max(1, w.near())}
	if w.IntN(10) == 0 {
		r.Stamp = w.Uint32()
	}
	if w.IntN(2) == 0 {
		r.Gen = w.gen()
	}
	if w.IntN(2) == 0 {
		r.Hot, r.Gen, r.Share = true, max(1, r.Gen), w.rights(a)
	}
	var u limit.Use
	if w.IntN(6) == 0 {
		u.Free = max(1, w.now+w.Int64N(1<<(1+w.IntN(40)))-1000)
	}
	if a.Logs() {
		u.Entries = w.entries(a)
	} else {
		u.Window = w.window()
		u.Label = u.LabelOf(r.At)
		u.Cur, u.Prev = w.used(), w.used()
		if w.IntN(3) == 0 {
			u.Held, u.HeldLabel = w.used()/2, u.Label
		}
	}
	r.Use = &u
	if w.IntN(10) == 0 {
		r.Use = nil
	}
	return r
}

func (w *twins) used() limit.Tokens {
	if w.IntN(3) > 0 {
		return limit.Tokens(w.Int64N(40)) * limit.Token
	}
	return limit.Tokens(w.amount(mostUse))
}

// held is a slot that was given out without the store. Many have few names, some that of a record's slot.
func (w *twins) held() limit.HeldSlot {
	s := limit.HeldSlot{Slot: 1 + w.Uint64N(4), Cost: limit.Tokens(1+w.Int64N(3)) * limit.Token, Lasts: 1 + w.amount(60_000_000)}
	switch w.IntN(8) {
	case 0:
		s.Slot, s.Lasts = 1+w.Uint64N(limit.MaxExact), 1+w.amount(limit.MaxExact-1)
	case 1:
		s.Cost = limit.Tokens(1 + w.amount(int64(mostRights(limit.Concurrency))-1))
	}
	return s
}

// entries end before and after now, some at the same time.
func (w *twins) entries(a limit.Algorithm) (entries []limit.Entry) {
	n, until, spread := w.IntN(12), min(max(1, w.near()), w.now+MaxWindow.Microseconds()), int64(1)<<w.IntN(38)
	if w.IntN(15) == 0 {
		n = limit.MaxEntries - 1 + w.IntN(3)
	}
	if w.IntN(2) == 0 {
		until = max(1, w.now-spread*int64(w.IntN(n+1)))
	}
	for range n {
		e := limit.Entry{Until: until, Cost: limit.Token}
		if w.IntN(4) == 0 {
			e.Cost = limit.Tokens(1 + w.Int64N(int64(5*limit.Token)))
		}
		if a == limit.Concurrency && w.IntN(5) > 0 {
			e.Slot = 1 + w.Uint64N(1<<30)
			if w.IntN(6) == 0 {
				e.Slot = 1 + uint64(len(entries)) // of one that is held
			}
		}
		entries = append(entries, e)
		until += w.Int64N(spread + 1)
	}
	slices.SortStableFunc(entries, func(a, b limit.Entry) int {
		if a.Until != b.Until {
			return int(a.Until - b.Until)
		}
		return int(a.Slot) - int(b.Slot)
	})
	return slices.CompactFunc(entries, func(a, b limit.Entry) bool { return a.Until == b.Until && a.Slot == b.Slot })
}
