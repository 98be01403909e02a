package recall

import (
	"time"

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
	Known        bool
	Left, Asked  limit.Tokens
	Overruns     limit.Tokens // of Asked
	At           budget.Instant
	Basis, Stamp int64
	Capacity     limit.Tokens
	Told, Counts bool
	// Recent has when what is in use was admitted, by parts of RecentLength milliseconds.
	Recent       []uint32
	RecentLength uint32
	InUseUntil   budget.Instant // of slots: when none that the store has reported can be in use
	// TakenAt is 0 if nothing was taken.
	TakenMost, TakenOverruns, TakenOwed limit.Tokens
	TakenAt                             budget.Instant
	// Owed is what was admitted and not reported to the store. Folded is how much of Lost is in use of a counting limit.
	Owed, Lost, LostOverruns, Folded limit.Tokens
	Full, LostUntil                  budget.Instant
	// Admitted: the use of a counting limit was decided here; Windows, Entries and Undated have it. Window
	// is how long Windows are, in microseconds.
	Admitted bool
	Windows  []SavedUse
	Window   int64
	Entries  []SavedUse
	Undated  limit.Tokens
	// Slots were given out here, and the store is not known to have them.
	Slots []SavedSlot
}

// SavedSlot is one slot, until it ends by the daemon's clock.
type SavedSlot struct {
	Name  uint64
	Cost  limit.Tokens
	Until budget.Instant
}

// SavedUse is the use of a window, by its label, or of an entry of a log, by its end.
type SavedUse struct {
	Of               int64
	Used, Here, Lost limit.Tokens
}

// Snapshot returns what the table knows. It returns nil if another daemon may have spent, because the
// daemon does not hold the region's session.
func (t *Table) Snapshot(now budget.Instant) *Snapshot {
	if now >= t.heldUntil {
		return nil
	}
	t.missed(now)
	if t.unrecorded > 0 {
		t.whole = max(t.whole, now.Add(LateAtMost)) // the store may still decide them
	}
	s := Snapshot{At: now, Whole: t.whole, Emptied: t.emptied, Keys: make([]SavedKey, 0, t.keys.len())}
	for key, e := range t.keys.all() {
		if t.isChanging(key) {
			e = e.uncertain()
		}
		k := SavedKey{
			Key: key, Known: true, Left: e.left, Asked: e.asked, Overruns: e.overruns, At: e.at, Basis: e.basis, Stamp: e.stamp,
			Capacity: e.capacity, Told: e.told, Counts: e.counts, InUseUntil: e.lentUntil,
		}
		if e.recent.length != 0 {
			k.Recent, k.RecentLength = e.recent.parts[:], e.recent.length
		}
		if lost, is := t.taken[key]; is {
			k.TakenMost, k.TakenOverruns, k.TakenOwed, k.TakenAt = lost.most, lost.overruns, lost.owed, lost.at
		}
		k.addDebt(t.debt[key])
		s.Keys = append(s.Keys, k)
	}
	for key, d := range t.debt {
		if !t.keys.has(key) {
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
	k.Owed, k.Full, k.Lost, k.LostUntil = d.total-d.paid, d.full, d.lostCost(), d.lostUntil()
	k.LostOverruns = d.lostOverruns()
	for _, s := range d.slots {
		k.Slots = append(k.Slots, SavedSlot{s.name, s.cost, s.until})
	}
	if d.use == nil {
		return
	}
	k.Lost, k.Folded = k.Lost+d.folded.cost, d.folded.cost // of a bucket TakenMost or Left has it
	k.Admitted, k.Undated, k.Window = true, d.use.undated, d.use.window
	for _, w := range d.use.windows {
		k.Windows = append(k.Windows, SavedUse{w.label, w.used, w.here, w.lost})
	}
	for _, e := range d.use.entries {
		k.Entries = append(k.Entries, SavedUse{e.until, e.used, e.here, e.lost})
	}
}

// Restore returns a table of at most max keys that knows what a snapshot has. sameClock: the daemon's
// clock has run on since then. Otherwise it is unknown how much time has passed, and nothing was earned
// in it. The table is for a store that has lost the contents of the snapshot: call Emptied next.
func Restore(s *Snapshot, max int, now budget.Instant, sameClock bool) *Table {
	shift := s.Shift(now, sameClock)
	t := New(max, s.Whole+shift)
	if s.Emptied != 0 {
		t.emptied = s.Emptied + shift
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		if e := k.entry(shift); k.Known && !t.add(k.Key, e) {
			t.whole = now // a key that is not known may have been used
		}
		t.restoreTaken(k, shift)
		t.restoreDebt(k, shift)
	}
	return t
}

// adopt adds what a snapshot has of the same contents of the store. The table began at an instant. What it
// has learnt of a key since then is newer. The last run may not have told these contents all that it remembered of
// earlier ones, so this one goes on, for as long after the loss as the last run would have.
func (t *Table) adopt(s *Snapshot, began, now budget.Instant, sameClock bool) {
	shift, whole := s.Shift(now, sameClock), true
	if s.Emptied != 0 {
		t.emptied = max(t.emptied, s.Emptied+shift)
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		e, known := t.keys.get(k.Key)
		if k.Known && !known {
			// No call of the last run is in flight any more, but the store may have decided them late.
			k.Lost, k.LostUntil, k.Asked = k.Lost+k.Asked, max(k.LostUntil, s.At.Add(LateAtMost)), 0
			k.LostOverruns, k.Overruns = k.LostOverruns+k.Overruns, 0
			whole = t.add(k.Key, k.entry(shift)) && whole
			t.restoreTaken(k, shift)
		} else if known && !e.counts {
			e.left -= k.Owed
			t.keys.put(k.Key, e)
		}
		if k.Owed == 0 && k.Lost == 0 && len(k.Slots) == 0 {
			continue
		}
		if known { // otherwise what calls may have taken is as the last run left it
			t.unfold(k.Key)
		}
		// When a counting limit was used is not kept: it counts from now on.
		d := t.debtOf(k.Key)
		d.total, d.full = d.total+k.Owed, max(d.full, k.Full+shift)
		t.restoreLost(d, k, k.Lost, shift)
		d.slots = append(d.slots, k.slots(shift)...)
		d.use = nil
	}
	if whole && t.whole <= began {
		t.whole = min(t.whole, s.Whole+shift)
	}
}

// LateAtMost is more than the time in which a store decides a call that was given up.
const LateAtMost = 2 * time.Second

// Shift returns what is added to a snapshot's instants to get those of the present clock.
func (s *Snapshot) Shift(now budget.Instant, sameClock bool) budget.Instant {
	if !sameClock || s.At > now {
		return now - s.At
	}
	return 0
}

func (k *SavedKey) entry(shift budget.Instant) entry {
	e := entry{
		left: k.Left, asked: k.Asked, overruns: k.Overruns, at: k.At + shift, basis: k.Basis, stamp: k.Stamp,
		capacity: k.Capacity, told: k.Told, counts: k.Counts, lentUntil: k.InUseUntil + shift,
	}
	e.recent.length = k.RecentLength
	copy(e.recent.parts[:], k.Recent)
	return e
}

func (k *SavedKey) slots(shift budget.Instant) (out []slot) {
	for _, s := range k.Slots {
		out = append(out, slot{name: s.Name, cost: s.Cost, until: s.Until + shift})
	}
	return out
}

// add adds a key, if there is room.
func (t *Table) add(key budget.KeyID, e entry) bool {
	if t.keys.len() >= t.max {
		return false
	}
	t.keys.put(key, e)
	return true
}

func (t *Table) restoreTaken(k *SavedKey, shift budget.Instant) {
	if k.TakenAt != 0 {
		t.taken[k.Key] = taken{most: k.TakenMost, overruns: k.TakenOverruns, owed: k.TakenOwed, at: k.TakenAt + shift}
	}
}

// restoreLost adds calls that the last run had lost. It is not known when they were sent.
func (t *Table) restoreLost(d *debt, k *SavedKey, cost limit.Tokens, shift budget.Instant) {
	if cost > 0 {
		d.lost = append(d.lost, lostCalls{cost: cost, overruns: k.LostOverruns, until: k.LostUntil + shift, mark: t.nextMark()})
	}
}

func (t *Table) restoreDebt(k *SavedKey, shift budget.Instant) {
	if k.Owed == 0 && k.Lost == 0 && !k.Admitted && len(k.Slots) == 0 {
		return
	}
	d := t.debtOf(k.Key)
	d.total, d.full = k.Owed, k.Full+shift
	t.restoreLost(d, k, k.Lost-k.Folded, shift)
	d.slots = k.slots(shift)
	if !k.Admitted {
		return
	}
	if k.Folded > 0 {
		d.folded = lostCalls{cost: k.Folded, until: k.LostUntil + shift}
	}
	d.use = &use{undated: k.Undated, window: k.Window}
	for _, w := range k.Windows {
		d.use.windows = append(d.use.windows, windowUse{w.Of, w.amount()})
	}
	for _, e := range k.Entries {
		d.use.entries = append(d.use.entries, entryUse{e.Of, e.amount()})
	}
}

func (s SavedUse) amount() amount { return amount{used: s.Used, here: s.Here, lost: s.Lost} }
