package recall

import (
	"aliquot/budget"
	"aliquot/limit"
)

// Snapshot is what a table knows, for the next run of its daemon. What calls in flight may have taken
// is part of it. The daemon must not spend after it was taken. Package encoding/gob encodes it.
type Snapshot struct {
	// At is when it was taken. Whole and Emptied are as in Table.
	At, Whole, Emptied budget.Instant
	Keys               []SavedKey
}

// SavedKey is what is known of one key. Its fields have the meaning of those of entry, taken and debt.
type SavedKey struct {
	Key budget.KeyID
	// Known: the table has an entry. Otherwise only the debt counts.
	Known          bool
	Left, Asked    limit.Tokens
	At             budget.Instant
	Basis, Stamp   int64
	Capacity       limit.Tokens
	Counts, Unsaid bool
	// TakenAt is 0 if nothing was taken.
	TakenMost, TakenOwed limit.Tokens
	TakenAt              budget.Instant
	// Owed is what was admitted and not reported to the store.
	Owed, Lost      limit.Tokens
	Full, LostUntil budget.Instant
	// Admitted: the use of a counting limit was decided here; Windows and Entries have it.
	Admitted bool
	Windows  []SavedUse
	Entries  []SavedUse
}

// SavedUse is the use of a window, by its label, or of an entry of a log, by its end.
type SavedUse struct {
	Of         int64
	Used, Here limit.Tokens
}

// Snapshot returns what the table knows. It returns nil if another daemon may have spent, because the
// daemon does not hold the region's session.
func (t *Table) Snapshot(now budget.Instant) *Snapshot {
	if now >= t.heldUntil {
		return nil
	}
	s := Snapshot{At: now, Whole: t.whole, Emptied: t.emptied, Keys: make([]SavedKey, 0, len(t.keys))}
	for key, e := range t.keys {
		k := SavedKey{
			Key: key, Known: true, Left: e.left, Asked: e.asked, At: e.at, Basis: e.basis, Stamp: e.stamp,
			Capacity: e.capacity, Counts: e.counts, Unsaid: e.unsaid,
		}
		if lost, is := t.taken[key]; is {
			k.TakenMost, k.TakenOwed, k.TakenAt = lost.most, lost.owed, lost.at
		}
		k.addDebt(t.debt[key])
		s.Keys = append(s.Keys, k)
	}
	for key, d := range t.debt {
		if _, known := t.keys[key]; !known {
			k := SavedKey{Key: key}
			k.addDebt(d)
			s.Keys = append(s.Keys, k)
		}
	}
	return &s
}

func (k *SavedKey) addDebt(d *debt) {
	if d == nil {
		return
	}
	k.Owed, k.Full, k.Lost, k.LostUntil = d.total-d.paid, d.full, d.lost, d.lostUntil
	if d.use == nil {
		return
	}
	k.Admitted = true
	for _, w := range d.use.windows {
		k.Windows = append(k.Windows, SavedUse{w.label, w.used, w.here})
	}
	for _, e := range d.use.entries {
		k.Entries = append(k.Entries, SavedUse{e.until, e.used, e.here})
	}
}

// Restore returns a table of at most max keys that knows what a snapshot has. sameClock: the daemon's
// clock has run on since then. Otherwise it is unknown how much time has passed, and nothing was earned
// in it. The table is for a store that has lost the contents of the snapshot: call Emptied next.
func Restore(s *Snapshot, max int, now budget.Instant, sameClock bool) *Table {
	shift := budget.Instant(0)
	if !sameClock || s.At > now {
		shift = now - s.At
	}
	t := New(max, s.Whole+shift)
	if s.Emptied != 0 {
		t.emptied = s.Emptied + shift
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.Known && len(t.keys) < max {
			t.keys[k.Key] = entry{
				left: k.Left, asked: k.Asked, at: k.At + shift, basis: k.Basis, stamp: k.Stamp,
				capacity: k.Capacity, counts: k.Counts, unsaid: k.Unsaid,
			}
		} else if k.Known {
			t.whole = now // a key that is not known may have been used
		}
		if k.TakenAt != 0 {
			t.taken[k.Key] = taken{most: k.TakenMost, owed: k.TakenOwed, at: k.TakenAt + shift}
		}
		t.restoreDebt(k, shift)
	}
	return t
}

func (t *Table) restoreDebt(k *SavedKey, shift budget.Instant) {
	if k.Owed == 0 && k.Lost == 0 && !k.Admitted {
		return
	}
	d := t.debtOf(k.Key)
	d.total, d.full, d.lost, d.lostUntil = k.Owed, k.Full+shift, k.Lost, k.LostUntil+shift
	if !k.Admitted {
		return
	}
	d.use = &use{}
	for _, w := range k.Windows {
		d.use.windows = append(d.use.windows, windowUse{label: w.Of, used: w.Used, here: w.Here})
	}
	for _, e := range k.Entries {
		d.use.entries = append(d.use.entries, entryUse{until: e.Of, used: e.Used, here: e.Here})
	}
}
