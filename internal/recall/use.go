package recall

import (
	"cmp"
	"slices"

	"aliquot/budget"
	"aliquot/limit"
)

// use is what the daemon knows to be in use of a counting limit: what the store reported, and what
// was admitted here since. The store's clock is known only within two bounds, so an admission
// counts in every window that the store may have been in. The zero value is no use.
type use struct {
	windows []windowUse // of fixed windows and sliding counters, ordered by label
	// window is the length of windows in microseconds; 0: there is none yet.
	window  int64
	entries []entryUse // of logs, ordered by until
	// undated was admitted here after all of these, and counts from the next request on.
	undated limit.Tokens
}

// amount is what may be in use, how much of that was admitted here, and how much calls without an answer may have taken.
type amount struct{ used, here, lost limit.Tokens }

// windowUse is what may be in use in one window.
type windowUse struct {
	label int64
	amount
}

// entryUse is what may be in use until a time of the store's clock.
type entryUse struct {
	until int64
	amount
}

func (a *amount) add(b amount) { a.used, a.here, a.lost = a.used+b.used, a.here+b.here, a.lost+b.lost }

// maxUnsure is the largest number of windows that the store may be in for a request to be decided
// by them.
const maxUnsure = 64

// labelAt returns the label of the window at a time of the store's clock.
func labelAt(c *Charge, at int64) int64 {
	u := limit.Use{Window: c.Limit.Window.Microseconds()}
	return u.LabelOf(at)
}

// count adds use between two times of the store's clock.
func (u *use) count(c *Charge, a amount, from, to int64) {
	if a.used == 0 {
		return
	}
	if c.Limit.Algorithm.Logs() {
		until := to + c.Limit.Window.Microseconds()
		i, found := slices.BinarySearchFunc(u.entries, until, func(e entryUse, until int64) int { return cmp.Compare(e.until, until) })
		if !found {
			u.entries = slices.Insert(u.entries, i, entryUse{until: until})
		}
		u.entries[i].add(a)
		return
	}
	for label := labelAt(c, from); label <= labelAt(c, to); label++ {
		i := slices.IndexFunc(u.windows, func(w windowUse) bool { return w.label == label })
		if i < 0 {
			i = len(u.windows)
			u.windows = append(u.windows, windowUse{label: label})
		}
		u.windows[i].add(a)
	}
}

// rewindow counts use by windows of another length as of now, as the store does. A rule has changed.
func (u *use) rewindow(c *Charge) {
	window := c.Limit.Window.Microseconds()
	if u.window == window || unsure(c) {
		return
	}
	old := u.windows
	u.windows, u.window = nil, window
	for _, w := range old {
		u.count(c, w.amount, c.StoreNow, c.StoreLatest)
	}
}

// add counts an admission at the present.
func (u *use) add(c *Charge, cost limit.Tokens) {
	u.count(c, amount{used: cost, here: cost}, c.StoreNow, c.StoreLatest)
}

// date counts what is undated at the present, if the store's clock is known.
func (u *use) date(c *Charge) {
	if u.undated > 0 && !c.OldClock && !unsure(c) {
		u.add(c, u.undated)
		u.undated = 0
	}
}

// unpaid keeps only what was admitted here and not reported to the store, which is the latest part.
func (u *use) unpaid(rest limit.Tokens) {
	u.undated = min(u.undated, rest)
	rest -= u.undated
	for i := len(u.windows) - 1; i >= 0; i-- {
		u.windows[i].unpaid(&rest)
	}
	for i := len(u.entries) - 1; i >= 0; i-- {
		u.entries[i].unpaid(&rest)
	}
}

func (a *amount) unpaid(rest *limit.Tokens) {
	here := min(a.here, *rest)
	*a, *rest = amount{used: here, here: here}, *rest-here
}

// lost returns what calls without an answer may have taken of all this. Nobody knows in which window it was, so a part of it
// may be in two.
func (u *use) lost() (sum limit.Tokens) {
	for _, w := range u.windows {
		sum += w.lost
	}
	for _, e := range u.entries {
		sum += e.lost
	}
	return sum
}

// own counts that as admitted here, when it was taken: the store has lost it.
func (u *use) own() {
	for i := range u.windows {
		u.windows[i].own()
	}
	for i := range u.entries {
		u.entries[i].own()
	}
}

func (a *amount) own() { a.here, a.lost = a.here+a.lost, 0 }

// forget drops what no longer counts at the earliest time that the store's clock may show.
func (u *use) forget(c *Charge) {
	u.entries = slices.DeleteFunc(u.entries, func(e entryUse) bool { return e.until <= c.StoreNow })
	oldest := labelAt(c, c.Limit.Since(c.StoreNow))
	u.windows = slices.DeleteFunc(u.windows, func(w windowUse) bool { return w.label < oldest })
}

// most returns the most that may be in use now, and how much of that was admitted here. A window
// that has not begun, by a clock that has changed, counts as the present one. Without any clock all
// windows do.
func (u *use) most(c *Charge) (used, here limit.Tokens) {
	used, here = u.undated, u.undated
	for _, e := range u.entries {
		if e.until > c.StoreNow {
			used, here = used+e.used, here+e.here
		}
	}
	if c.Limit.Algorithm.Logs() {
		return used, here
	}
	if unsure(c) {
		for _, w := range u.windows {
			used, here = used+w.used, here+w.here
		}
		return used, here
	}
	window, last := c.Limit.Window.Microseconds(), labelAt(c, c.StoreLatest)
	for label := labelAt(c, c.StoreNow); label <= last; label++ {
		var in windowUse
		for _, w := range u.windows {
			switch {
			case w.label == label, w.label > last:
				in.used, in.here = in.used+w.used, in.here+w.here
			case w.label == label-1 && c.Limit.Algorithm.SeesPrevious():
				// A part of the previous window counts; the most of it, if this window may have just
				// begun.
				rest := c.Limit.Overlap(0)
				if labelAt(c, c.StoreNow) == label {
					rest = c.Limit.Overlap(c.StoreNow)
				}
				in.used += partOf(w.used, rest, window)
				in.here += partOf(w.here, rest, window)
			}
		}
		used, here = max(used, u.undated+in.used), max(here, u.undated+in.here)
	}
	return used, here
}

// unsure reports whether it is unknown in which window the store is.
func unsure(c *Charge) bool {
	return c.StoreNow == 0 || c.StoreLatest-c.StoreNow > maxUnsure*c.Limit.Window.Microseconds()
}

// partOf returns a part of an amount, rounded up. Capacities are below 1e15, and seconds below 4e7.
func partOf(of limit.Tokens, part, whole int64) limit.Tokens {
	// In parts of a second or coarser the product stays below 2^63.
	scale := max(1, whole/8000)
	return limit.Tokens((int64(of)*(part/scale+1) + whole/scale - 1) / (whole / scale))
}

// useOf returns what is known to be in use of a charge's key. The result belongs to the table,
// which creates it on demand.
func (t *Table) useOf(c *Charge, e *entry, now budget.Instant) *use {
	d := t.debtOf(c.Key)
	if d.use == nil {
		d.use = &use{window: c.Limit.Window.Microseconds()}
		if e.told {
			t.countReported(d.use, c, e, now)
		}
		// What calls may have taken of contents that are lost counts from now on.
		d.use.add(c, d.total-d.paid)
	}
	d.use.rewindow(c)
	d.use.date(c)
	if !c.OldClock {
		d.use.forget(c)
	}
	d.folded.cost = min(d.folded.cost, d.use.lost())
	return d.use
}

// countReported counts what the store reported to be in use.
func (t *Table) countReported(u *use, c *Charge, e *entry, now budget.Instant) {
	earlier, rest := t.usedBy(c, e, now)
	for _, d := range earlier {
		u.count(c, amount{used: d.Used}, d.At, d.At)
	}
	u.count(c, amount{used: rest}, e.stamp, e.stamp)
}

// leftOf returns what a counting limit has left for a request.
func (t *Table) leftOf(c *Charge, e *entry, now budget.Instant) limit.Outcome {
	rights := c.Bucket.Cap
	tail := c.Limit.Tail()
	switch {
	case e.at < c.From && now < c.From.Add(tail+tail/2):
		rights = 0 // others may have used them
	case now < e.at.Add(tail+tail/2):
		// The rights of a share that grew in mid-window may not count in it.
		rights = min(rights, e.left+limit.Tokens(e.basis))
	}
	out := limit.Outcome{Bucket: limit.Bucket{Cap: rights}, Reset: c.Limit.Tail().Microseconds(), Retry: -1}
	switch {
	case !e.told:
		return out
	case c.Limit.Algorithm == limit.Concurrency:
		out.Tokens = t.slotsLeft(c, e, rights, now)
		return out
	case unsure(c):
		return out
	}
	used, _ := t.useOf(c, e, now).most(c)
	if d := t.debt[c.Key]; d.total == d.paid && len(d.lost) == 0 && d.folded.cost == 0 && d.carried == 0 {
		d.use = nil // reading leaves nothing behind
		t.settle(c.Key, d)
	}
	out.Tokens = max(0, rights-used-t.pending(c, e))
	return out
}
