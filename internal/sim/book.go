package sim

import (
	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// book is the exact account of a counting limit, over all regions: what is in use by the definition
// of its algorithm. It is nil for a bucket.
type book struct {
	w       *world
	limit   limit.Limit
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
}

// bookEntry is one admission of a log, several at once, or one slot in use.
type bookEntry struct {
	until      int64 // true time
	storeUntil int64 // by the store's clock
	cost       limit.Tokens
	slot       uint64
}

// inWindow is what all regions admitted in one window of the stores' clocks.
type inWindow struct {
	label int64
	used  limit.Tokens
}

func (w *world) newBook(l limit.Limit) *book {
	if !l.Algorithm.Counts() {
		return nil
	}
	window := int64(l.Window)
	return &book{
		w: w, limit: l, regions: make([]ledgerOfUse, len(w.stores)),
		lasts: window - window/second*shell.Fastest(w.cfg.RhoPPM) - second/million, // what a fast clock shows as the window
	}
}

// entered reports whether the book has a separate entry for every admission.
func (b *book) entered() bool {
	return b.limit.Algorithm == limit.SlidingLog || b.limit.Algorithm == limit.Concurrency
}

// admit records what one region's store admitted at its present time. It returns what is in use by
// the definition in all regions.
func (b *book) admit(region int, storeNow int64, cost limit.Tokens, slots []uint64) limit.Tokens {
	r := &b.regions[region]
	if !b.entered() {
		b.roll(r, storeNow)
		r.cur += cost
		return b.used(func(i int) int64 { return b.w.stores[i].time() })
	}
	e := bookEntry{until: b.w.now + b.lasts, storeUntil: storeNow + b.limit.Window.Microseconds(), cost: cost}
	if len(slots) == 0 {
		r.entries = append(r.entries, e)
	}
	for _, slot := range slots {
		e.cost, e.slot = cost/limit.Tokens(len(slots)), slot
		r.entries = append(r.entries, e)
	}
	var sum limit.Tokens
	for i := range b.regions {
		for _, e := range b.regions[i].entries {
			if e.until > b.w.now {
				sum += e.cost
			}
		}
	}
	return sum
}

// used returns the sum over all regions, each at its store's time.
func (b *book) used(at func(region int) int64) limit.Tokens {
	var sum limit.Tokens
	for i := range b.regions {
		sum += b.inUse(i, at(i))
	}
	return sum
}

// inUse returns what counts in one region by its store's clock, whatever the store remembers of it.
func (b *book) inUse(region int, storeNow int64) limit.Tokens {
	r := &b.regions[region]
	if b.entered() {
		kept := r.entries[:0]
		var sum limit.Tokens
		for _, e := range r.entries {
			if e.storeUntil > storeNow {
				sum += e.cost
			}
			if e.storeUntil > storeNow || e.until > b.w.now {
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
// in the book in full again.
func (b *book) roll(r *ledgerOfUse, storeNow int64) {
	label := storeNow / b.limit.Window.Microseconds()
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

// unstored records that a daemon admits without the store at its store's present time. A nil book
// records nothing.
func (b *book) unstored(region int, cost limit.Tokens) {
	if b == nil {
		return
	}
	b.roll(&b.regions[region], b.w.stores[region].time())
	b.regions[region].unstored += cost
}

// inLabel adds to what was admitted in the window of a store's present time, and returns the sum.
func (b *book) inLabel(storeNow int64, cost limit.Tokens) limit.Tokens {
	const kept = 8 // clocks that agree are at most one window apart
	label := storeNow / b.limit.Window.Microseconds()
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

// forget removes what nothing knows of any more from what one region admitted, the latest first.
// amount is what its daemon knew to be in use. Of the previous window of a sliding counter a part is
// in use, so the whole of it is more, but no more than daemons admitted in it without the store.
func (b *book) forget(region int, amount limit.Tokens) {
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

// lost forgets all use of one region.
func (b *book) lost(region int) {
	r := &b.regions[region]
	b.roll(r, b.w.stores[region].time())
	for i := range b.labels {
		if b.labels[i].label == r.label {
			b.labels[i].used -= min(r.cur, b.labels[i].used)
		}
	}
	r.cur, r.prev, r.entries = 0, 0, nil
}

// release ends the use of a slot.
func (b *book) release(region int, slot uint64) {
	r := &b.regions[region]
	for i := range r.entries {
		if r.entries[i].slot == slot {
			r.entries = append(r.entries[:i], r.entries[i+1:]...)
			return
		}
	}
}

// admitCounted checks what a store admitted of a counting limit by the definition of the limit.
func (w *world) admitCounted(r *rule, region int, amount limit.Tokens, slots []uint64) {
	now := w.stores[region].time()
	l := r.book.limit
	if sum := r.book.admit(region, now, amount, slots); sum > l.Capacity {
		w.violate("key %d, %v: %d of %d micro-tokens in use", r.key.Rule, l.Algorithm, sum, l.Capacity)
	}
	if l.Algorithm == limit.FixedWindow && w.clocksAgree {
		if sum := r.book.inLabel(now, amount); sum > l.Capacity {
			w.violate("key %d: %d of %d micro-tokens in one window", r.key.Rule, sum, l.Capacity)
		}
	}
}

// checkRights checks I3: what counts in the regions, or could count, is at most the limit at every
// instant.
func (w *world) checkRights(r *rule) {
	var sum float64
	whole := float64(r.book.limit.Capacity)
	for i, s := range w.stores {
		sum += max(float64(r.book.inUse(i, s.time()))/whole, w.enforced(i, r).burst)
	}
	if sum > 1+1e-12 {
		w.violate("I3, key %d, %v: %.9f of the limit is in use or may be", r.key.Rule, r.book.limit.Algorithm, sum)
	}
}

// hold keeps each slot for a while of its own. Some callers die with their slots.
func (r *rule) hold(region int, slots []uint64) {
	for _, slot := range slots {
		if r.w.chance(1, 8) {
			continue
		}
		r.w.after(r.w.between(milli, r.book.lasts), func() {
			r.book.release(region, slot)
			r.w.after(r.w.storeDelay(region), func() { r.w.stores[region].release(r, slot) })
		})
	}
}

// release frees a slot, if the store still knows it.
func (s *store) release(r *rule, slot uint64) {
	if r.index < len(s.records) {
		k := &s.records[r.index]
		k.record, _ = limit.Release(k.record, slot)
	}
}

// nameSlots gives every requested slot a unique name.
func (w *world) nameSlots(views []limit.View) {
	for i := range views {
		if views[i].Algorithm == limit.Concurrency {
			w.slots++
			views[i].Slot = w.slots
		}
	}
}

// clockSet adapts the book to a store's clock that was set by d nanoseconds. What the clock shows
// as passed has passed for what it counts. Counts by the earlier clock belong to no window of the
// new one, and entries last as long as they would have.
func (b *book) clockSet(region int, d int64) {
	r := &b.regions[region]
	if d < 0 {
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

// clockLeapt adapts the book to a daemon that learns that its store's clock was set forward. What it
// admitted meanwhile without the store, it admitted in windows of the earlier clock: as if the clock
// had been set now.
func (b *book) clockLeapt(region int) {
	r := &b.regions[region]
	r.cur, r.unstored = max(0, r.cur-r.unstored), 0
}
