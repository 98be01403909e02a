package oracle

import (
	"slices"
	"time"

	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// Book is the exact account of a counting limit, over all regions: what is in use by the definition
// of its algorithm. It is nil for a bucket.
type Book struct {
	clocks Clocks
	// limit has the largest capacity that is allowed now, and the shortest window by which anybody decides now. earlier
	// are larger capacities, for as long as what was admitted by them may count. single is the largest capacity by which
	// anybody decides; two of them may be allowed.
	limit   limit.Limit
	single  limit.Tokens
	earlier []earlierCapacity
	longest time.Duration // of all windows so far
	rhoPPM  int32
	lasts   int64 // shortest true time for which an entry of a log, or a slot, counts
	regions []ledgerOfUse
	labels  []inWindow // the latest windows that were used, if the stores' clocks agree
}

// ledgerOfUse is what was admitted in one region and may still count.
type ledgerOfUse struct {
	label     int64 // windows of the store's clock
	cur, prev limit.Tokens
	// unstored is what daemons admitted in the window without the store, prevUnstored in the one before.
	unstored, prevUnstored limit.Tokens
	entries                []bookEntry // in the order of admission
	// leap is how far the store's clock was set, last at leapAt in true time, since a daemon learned of
	// it; below 0: it was set back. earlier is the window by the clock without that.
	leap, leapAt int64
	earlier      int64
}

// earlierCapacity is a capacity that a limit had, until a true time.
type earlierCapacity struct {
	until            int64
	capacity, single limit.Tokens
}

// bookEntry is one admission of a log, several at once, or one slot in use.
type bookEntry struct {
	until      int64 // true time
	storeUntil int64 // by the store's clock
	cost       limit.Tokens
	slot       uint64
	window     time.Duration
	lasts      int64
	unstored   int64 // true time at which a daemon admitted it without the store; 0: the store did
}

// inWindow is what all regions admitted in one window of the stores' clocks.
type inWindow struct {
	label int64
	used  limit.Tokens
}

// Clocks are the clocks of a world.
type Clocks interface {
	// Now returns the true time, in nanoseconds.
	Now() int64
	// StoreNow returns what the clock of a region's store shows, in microseconds.
	StoreNow(region int) int64
}

// NewBook returns the account of a limit over a number of stores; nil if the limit does not count.
func NewBook(l limit.Limit, rhoPPM int32, stores int, clocks Clocks) *Book {
	if !l.Algorithm.Counts() {
		return nil
	}
	b := &Book{clocks: clocks, limit: l, single: l.Capacity, regions: make([]ledgerOfUse, stores), longest: l.Window, rhoPPM: rhoPPM}
	b.lasts = b.lastsOf(l.Window)
	return b
}

// lastsOf returns what a fast clock shows as a window.
func (b *Book) lastsOf(w time.Duration) int64 {
	const milli = second / 1000
	window := int64(w)
	return window - (window/milli+1)*shell.Fastest(b.rhoPPM)/1000 - 1000
}

// Rewindows reports whether the limit's window may change. It may not for slots: who holds one would have to know for
// how long.
func (b *Book) Rewindows() bool { return b.limit.Algorithm != limit.Concurrency }

// Allow sets the largest capacity, and the shortest and the longest window, by which anybody decides. What allows more
// holds at once, for what was admitted before as well: a daemon with the shorter window has forgotten
// that. What allows less holds only with less. A larger capacity counts until what was admitted by it
// has left the longest window.
//
// Windows of two lengths begin and end at different times. While some decide by the one and some by the other, a
// shorter window may see the use of two longer ones, so two capacities are allowed. The account by the new windows
// begins with nothing.
func (b *Book) Allow(capacity limit.Tokens, shortest, longest time.Duration, less bool) {
	b.longest = max(b.longest, longest)
	single := capacity
	if shortest != longest && !b.entered() {
		capacity *= 2
	}
	switch {
	case capacity < b.limit.Capacity && less:
		b.earlier = append(b.earlier, earlierCapacity{b.clocks.Now() + b.counts(), b.limit.Capacity, b.single})
		b.limit.Capacity, b.single = capacity, single
	default:
		b.limit.Capacity, b.single = max(b.limit.Capacity, capacity), max(b.single, single)
	}
	if shortest == b.limit.Window || shortest > b.limit.Window && !less {
		return
	}
	b.limit.Window, b.lasts = shortest, b.lastsOf(shortest)
	b.labels = nil
	for i := range b.regions {
		b.regions[i].restart(b.clocks.StoreNow(i), shortest.Microseconds())
		for j := range b.regions[i].entries {
			b.regions[i].entries[j].shorten(shortest, b.lasts)
		}
	}
}

// restart lets the account by windows begin with nothing, at a store's time.
func (r *ledgerOfUse) restart(storeNow, window int64) {
	r.cur, r.prev, r.unstored, r.prevUnstored = 0, 0, 0, 0
	r.label, r.earlier = storeNow/window, (storeNow-r.leap/1000)/window
}

// counts returns the longest true time for which an admission may count.
func (b *Book) counts() int64 {
	longest := int64(b.longest) + int64(b.longest)/10 + second
	if b.limit.Algorithm == limit.SlidingCounter {
		longest *= 2
	}
	return longest
}

// shorten lets an entry count no longer than a window that lasts so long.
func (e *bookEntry) shorten(window time.Duration, lasts int64) {
	if e.window > window {
		e.until, e.storeUntil = e.until-(e.lasts-lasts), e.storeUntil-(e.window-window).Microseconds()
		e.window, e.lasts = window, lasts
	}
}

// Algorithm returns how the limit counts, which never changes.
func (b *Book) Algorithm() limit.Algorithm { return b.limit.Algorithm }

// Capacity returns the most that may be in use.
func (b *Book) Capacity() limit.Tokens {
	most, _ := b.capacities()
	return most
}

// Of returns a part of the largest capacity by which what is in use may have been admitted.
func (b *Book) Of(part float64) float64 {
	_, single := b.capacities()
	return part * float64(single)
}

// capacities returns the largest of the capacities that are allowed, and of those by which anybody decides.
func (b *Book) capacities() (most, single limit.Tokens) {
	most, single = b.limit.Capacity, b.single
	now := b.clocks.Now()
	b.earlier = slices.DeleteFunc(b.earlier, func(e earlierCapacity) bool { return e.until <= now })
	for _, e := range b.earlier {
		most, single = max(most, e.capacity), max(single, e.single)
	}
	return most, single
}

// Lasts returns the shortest true time for which an entry of a log, or a slot, counts.
func (b *Book) Lasts() int64 { return b.lasts }

// entered reports whether the book has a separate entry for every admission.
func (b *Book) entered() bool {
	return b.limit.Algorithm == limit.SlidingLog || b.limit.Algorithm == limit.Concurrency
}

// Admit records what one region's store admitted at its present time. It returns what is in use by
// the definition in all regions.
func (b *Book) Admit(region int, cost limit.Tokens, slots []uint64) limit.Tokens {
	r, storeNow := &b.regions[region], b.clocks.StoreNow(region)
	if !b.entered() {
		b.roll(r, storeNow)
		r.cur += cost
		return b.used()
	}
	e := bookEntry{until: b.clocks.Now() + b.lasts, storeUntil: storeNow + b.limit.Window.Microseconds(), window: b.limit.Window, lasts: b.lasts, cost: cost}
	if len(slots) == 0 {
		r.entries = append(r.entries, e)
	}
	for _, slot := range slots {
		e.cost, e.slot = cost/limit.Tokens(len(slots)), slot
		r.entries = append(r.entries, e)
	}
	var sum limit.Tokens
	now := b.clocks.Now()
	for i := range b.regions {
		for _, e := range b.regions[i].entries {
			if e.until > now {
				sum += e.cost
			}
		}
	}
	return sum
}

// used returns the sum over all regions.
func (b *Book) used() limit.Tokens {
	var sum limit.Tokens
	for i := range b.regions {
		sum += b.InUse(i)
	}
	return sum
}

// InUse returns what counts in one region by its store's clock, whatever the store remembers of it.
func (b *Book) InUse(region int) limit.Tokens {
	r, storeNow := &b.regions[region], b.clocks.StoreNow(region)
	if b.entered() {
		kept, now := r.entries[:0], b.clocks.Now()
		var sum limit.Tokens
		for _, e := range r.entries {
			if e.storeUntil > storeNow {
				sum += e.cost
			}
			if e.storeUntil > storeNow || e.until > now {
				kept = append(kept, e)
			}
		}
		r.entries = kept
		return sum
	}
	b.roll(r, storeNow)
	if b.limit.Algorithm == limit.FixedWindow {
		return r.cur
	}
	window := b.limit.Window.Microseconds()
	left := window - storeNow%window
	return r.cur + limit.Tokens((int64(r.prev)*left+window-1)/window)
}

// roll brings the windows of a region to its store's time. A clock that was set back counts what is
// in the book in full again. A daemon without its store that has not learned that the clock was set goes by
// the windows of the earlier clock: what it admitted in one of them does not count in the next.
func (b *Book) roll(r *ledgerOfUse, storeNow int64) {
	window := b.limit.Window.Microseconds()
	label := storeNow / window
	if earlier := (storeNow - r.leap/1000) / window; earlier != r.earlier {
		if r.leap != 0 {
			r.cur, r.unstored = max(0, r.cur-r.unstored), 0
		}
		r.earlier = earlier
	}
	switch {
	case label == r.label:
		return
	case label == r.label+1:
		r.prev, r.cur = r.cur, 0
		r.prevUnstored, r.unstored = r.unstored, 0
	case label > r.label:
		r.prev, r.cur = 0, 0
		r.prevUnstored, r.unstored = 0, 0
	}
	r.label = label
}

// Unstored records that a daemon has made the latest admission without the store, at its store's
// present time. A nil book records nothing.
func (b *Book) Unstored(region int, cost limit.Tokens) {
	if b == nil {
		return
	}
	r := &b.regions[region]
	if b.entered() {
		r.entries[len(r.entries)-1].unstored = b.clocks.Now()
		return
	}
	b.roll(r, b.clocks.StoreNow(region))
	r.unstored += cost
}

// InLabel adds to what was admitted in the window of a store's present time, and returns the sum.
func (b *Book) InLabel(region int, cost limit.Tokens) limit.Tokens {
	const kept = 8 // clocks that agree are at most one window apart
	label := b.clocks.StoreNow(region) / b.limit.Window.Microseconds()
	for i := range b.labels {
		if b.labels[i].label == label {
			b.labels[i].used += cost
			return b.labels[i].used
		}
	}
	if len(b.labels) == kept {
		b.labels = append(b.labels[:0], b.labels[1:]...)
	}
	b.labels = append(b.labels, inWindow{label, cost})
	return cost
}

// Forget removes what nothing knows of any more from what one region admitted, the latest first.
// amount is what its daemon knew to be in use. Of the previous window of a sliding counter a part is
// in use, so the whole of it is more, but no more than daemons admitted in it without the store.
func (b *Book) Forget(region int, amount limit.Tokens) {
	r := &b.regions[region]
	take := func(from *limit.Tokens, most limit.Tokens) limit.Tokens {
		part := min(*from, most)
		*from -= part
		return most - part
	}
	left := take(&r.cur, amount)
	if left > 0 && b.limit.Algorithm == limit.SlidingCounter {
		left = r.prevUnstored
	}
	left = take(&r.prev, left)
	for i := len(r.entries) - 1; i >= 0 && left > 0; i-- {
		left = take(&r.entries[i].cost, left)
	}
	for i, left := len(b.labels)-1, amount; i >= 0 && left > 0; i-- {
		left = take(&b.labels[i].used, left)
	}
}

// Lost forgets all use of one region.
func (b *Book) Lost(region int) {
	r := &b.regions[region]
	b.roll(r, b.clocks.StoreNow(region))
	for i := range b.labels {
		if b.labels[i].label == r.label {
			b.labels[i].used -= min(r.cur, b.labels[i].used)
		}
	}
	r.cur, r.prev, r.entries = 0, 0, nil
}

// Release ends the use of a slot.
func (b *Book) Release(region int, slot uint64) {
	r := &b.regions[region]
	for i := range r.entries {
		if r.entries[i].slot == slot {
			r.entries = append(r.entries[:i], r.entries[i+1:]...)
			return
		}
	}
}

// ClockSet adapts the book to a store's clock that was set by d nanoseconds. What the clock shows
// as passed has passed for what it counts. Counts by the earlier clock belong to no window of the
// new one, and entries last as long as they would have.
func (b *Book) ClockSet(region int, d int64) {
	r := &b.regions[region]
	if r.leap, r.leapAt = r.leap+d, b.clocks.Now(); d < 0 {
		r.label, r.cur, r.prev, r.unstored, r.prevUnstored = 0, 0, 0, 0, 0
	}
	for i := range r.entries {
		e := &r.entries[i]
		if d < 0 {
			e.storeUntil += d / 1000
		} else {
			e.until -= d
		}
	}
}

// ClockRead adapts the book to daemons that have read their store's clock, none of them before a true time.
func (b *Book) ClockRead(region int, since int64) {
	if b != nil && b.regions[region].leap != 0 && since >= b.regions[region].leapAt {
		b.ClockLeapt(region, since)
	}
}

// ClockLeapt adapts the book to a daemon that learns that its store's clock was set. What it admitted
// meanwhile without the store, it admitted by the earlier clock: as if the clock had been set now. The region's other
// daemons have read it, none of them before a true time; otherwise they go on by the earlier clock.
func (b *Book) ClockLeapt(region int, others int64) {
	r := &b.regions[region]
	r.cur, r.unstored = max(0, r.cur-r.unstored), 0
	r.prev, r.prevUnstored = max(0, r.prev-r.prevUnstored), 0
	for i := range r.entries {
		if e := &r.entries[i]; e.unstored != 0 && e.unstored >= r.leapAt && r.leap > 0 {
			e.until, e.storeUntil, e.unstored = e.until-r.leap, e.storeUntil-r.leap/1000, 0
		}
	}
	if others >= r.leapAt {
		r.leap = 0
	}
}
