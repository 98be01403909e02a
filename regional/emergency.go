package regional

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/rights"
	"aliquot/rules"
)

const (
	// maxEmergencyKeys bounds the table; beyond it requests are denied until keys
	// that owe nothing are dropped. About 20 MiB.
	maxEmergencyKeys = 100_000
	// sweepSteps is how many keys one new key looks at for something to drop.
	sweepSteps = 32
	// emergencyStamp marks the records of the table, which have no epoch.
	emergencyStamp = 1
)

// emergency is the limit inside the process for the time the store does not
// answer: nine tenths of what the region may spend, starting empty. What it
// admitted is owed: the first call of the key that the store answers debits it, at
// most to zero. That holds for new contents of the store too: they start with what
// was earned since their birth, and some of that may have been admitted here.
//
// A call that is given up may still be decided, by the debt of when it was sent, and
// leave nothing to take a later debt off. So while one may be, the bucket of its key
// is empty and earns nothing. The breaker keeps such calls rare.
//
// Of a limit that counts nothing is admitted here: what the store has in use is not
// known, and nothing is earned. Nor is anything earned at a floor before it is known to be
// this region's: it may be lent, which only the store and the coordinators remember.
// Safe for concurrent use.
type emergency struct {
	now func() budget.Instant
	// keys counts the table, so that checks pass it by while it is empty.
	keys atomic.Int64

	mu    sync.Mutex
	table map[budget.KeyID]*emergencyKey
	call  uint64 // the last store call that debts were looked up for
	// left: what the region may spend is not this daemon's. back is when it last came to be.
	left bool
	back budget.Instant
	// isBeside: another daemon of the region is known, which may spend by the store.
	isBeside bool
	// lapses is when left no longer holds for a daemon that is cut off, because nobody else was
	// heard when it was said; 0: never.
	lapses budget.Instant
}

type emergencyKey struct {
	record limit.Record
	// owed was admitted here and is not debited yet.
	owed limit.Tokens
	// until is when the store's bucket would be full again without the debit: from
	// then on nothing is owed.
	until budget.Instant
	// carried is the last store call that had the debt with it.
	carried uint64
	// calls is up to when the store may still decide a call that had no more than an
	// earlier debt with it.
	calls budget.Instant
}

func newEmergency(now func() budget.Instant) *emergency {
	return &emergency{now: now, table: map[budget.KeyID]*emergencyKey{}}
}

// take decides one request under all its limits: none is charged unless all hold
// their costs, and denied is false. It reports false too when the table has no room.
func (e *emergency) take(asks []*ask, denied bool, out []limit.Outcome) bool {
	var ofKeys [1]*emergencyKey // room for what most requests have
	var ofRecords [1]limit.Record
	var ofViews [1]limit.View
	keys := slices.Grow(ofKeys[:0], len(asks))[:len(asks)]
	records := slices.Grow(ofRecords[:0], len(asks))[:len(asks)]
	views := slices.Grow(ofViews[:0], len(asks))[:len(asks)]
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	us := int64(now) / 1000
	free := !denied
	for i := range asks {
		e.lapse(asks[i].right.Phase, now)
		keys[i] = e.key(asks[i].key, now)
		if keys[i] == nil {
			free = false
			keys[i] = &emergencyKey{record: emptyRecord(us)}
		}
		records[i] = keys[i].record
		if since := int64(e.back) / 1000; records[i].At < since && !asks[i].alone() {
			records[i] = emptyRecord(since)
		}
		if now <= keys[i].calls {
			free = false
			records[i] = emptyRecord(us)
		} else {
			records[i].At = max(records[i].At, int64(max(keys[i].calls, asks[i].ownsSince()))/1000+1)
		}
		views[i] = limit.View{Floor: e.bucketOf(asks[i], now), Phase: limit.Floor, Stamp: emergencyStamp, Cost: asks[i].cost}
	}
	if !free {
		for i := range views {
			views[i].Cost = limit.MaxExact // settle, to say how long to wait, but admit nothing
		}
	}
	allowed := limit.Take(records, views, limit.MaxExact, us, out)
	for i, k := range keys {
		k.record = records[i]
		if allowed {
			k.owed += asks[i].cost
			k.until = now.Add(asks[i].timeToFull())
		}
	}
	return allowed
}

// leaveFloor tells whether what the region may spend is another daemon's: a coordinator has
// said that one is heard, which may have lent what this one remembers, or was until lately.
// /readyz says so, and sends clients to that one. Nothing is kept beyond such a time.
func (e *emergency) leaveFloor(left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left && !left {
		e.back = e.now()
	}
	e.left, e.lapses = left, 0
}

// beside tells whether another daemon of the region is known: it may have the store, and spends
// by that what this one would admit without it. Nothing is kept beyond such a time.
func (e *emergency) beside(another bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isBeside && !another {
		e.back = e.now()
	}
	e.isBeside = another
}

// leaveFloorFor is leaveFloor(true) for as long as a coordinator says so, and so long after
// that for a daemon which hears nothing more: nobody else was heard, so it is like one that
// has never heard of another.
func (e *emergency) leaveFloorFor(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.lapses = true, e.now().Add(wait)
}

// stillLeft is a coordinator's answer that it does not know whose the floor is: what was said
// before is no older by it.
func (e *emergency) stillLeft(wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lapses != 0 {
		e.lapses = e.now().Add(wait)
	}
}

// lapse has the floor back for a daemon that is cut off. The caller holds mu.
func (e *emergency) lapse(phase budget.Phase, now budget.Instant) {
	if e.lapses != 0 && phase == budget.CutOff && now >= e.lapses {
		e.left, e.lapses, e.back = false, 0, now
	}
}

// bucketOf is what the limit inside the process fills for an ask. A daemon that has
// had no session since its start goes by a floor that may be lent: its store has the record
// of that, and cannot be asked. Such a floor counts when everyone has made room for it. A
// right whose lease has ended since it was read is worth nothing: the next request reads
// another one. The caller holds mu.
func (e *emergency) bucketOf(a *ask, now budget.Instant) limit.Bucket {
	switch {
	case a.alone():
	case a.right.Until != 0 && now >= a.right.Until:
		return limit.Bucket{}
	case e.left, e.isBeside, a.right.Blind && a.right.Phase != budget.CutOff:
		return limit.Bucket{}
	case a.right.Blind && e.back != 0:
		// What others used of the floor, while another daemon had lent it, may count for as
		// long as the limit's window; half of it more is beyond any rho there may be.
		tail := a.keyLimit().Tail
		if now < e.back.Add(tail+tail/2) {
			return limit.Bucket{}
		}
	}
	return rights.Emergency(a.right, a.limit)
}

// ownsSince is when an ask's floor came to be this region's own, if it may have been lent
// until then, or was another one; 0: it was always.
func (a *ask) ownsSince() budget.Instant {
	switch {
	case a.alone():
		return 0
	case a.right.Phase != budget.CutOff || !a.right.Blind && !a.right.Hot:
		return a.right.FloorSince
	}
	return max(a.right.Since, a.right.FloorSince)
}

// timeToFull is after how long the store's bucket is full whatever it is told.
func (a *ask) timeToFull() time.Duration {
	return rights.TimeToFull(a.right, a.limit, a.enforcement == rules.Elastic)
}

func emptyRecord(us int64) limit.Record { return limit.Record{Stamp: emergencyStamp, At: us} }

// key finds or makes a key's entry; nil when there is no room.
func (e *emergency) key(id budget.KeyID, now budget.Instant) *emergencyKey {
	if k := e.table[id]; k != nil {
		return k
	}
	if len(e.table) >= maxEmergencyKeys && !e.sweep(now) {
		return nil
	}
	// Calls that were sent before it was there had no debt with them.
	k := &emergencyKey{record: emptyRecord(int64(now) / 1000), calls: now.Add(takeAtMost)}
	e.table[id] = k
	e.keys.Store(int64(len(e.table)))
	return k
}

// sweep drops keys that owe nothing (they would start empty again, so dropping one
// gives nothing away) and reports whether there is room.
func (e *emergency) sweep(now budget.Instant) bool {
	steps := 0
	for id, k := range e.table {
		if k.owed == 0 || now > k.until {
			delete(e.table, id)
		}
		if steps++; steps >= sweepSteps {
			break
		}
	}
	return len(e.table) < maxEmergencyKeys
}

// debits writes what each key owes into the first ask of it, to be passed to the
// store: the store sees the asks of one call in order. Calls that are under way at
// once all carry the whole debt: were only one to, the others could spend ahead of
// it. A debt debited twice costs the client a little, once; a debt that comes too
// late would break the limit. The call must be sent at once, and decide nothing after
// the given instant.
func (e *emergency) debits(groups []*group, latest budget.Instant) {
	for _, g := range groups {
		for i := range g.asks {
			g.asks[i].debit = 0 // of an earlier try
		}
	}
	if e.keys.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.call++
	for _, g := range groups {
		for i := range g.asks {
			a := &g.asks[i]
			k := e.table[a.key]
			if k == nil {
				continue
			}
			k.calls = max(k.calls, latest)
			k.record = emptyRecord(int64(now) / 1000)
			if k.owed == 0 || k.carried == e.call {
				continue
			}
			if now > k.until {
				k.owed = 0
				continue
			}
			k.carried = e.call
			a.debit = min(k.owed, limit.MaxExact)
		}
	}
}

// settled ends a store call: with success what it carried is paid, and the table
// forgets the key; without, it is owed still.
func (e *emergency) settled(groups []*group, paid bool) {
	if e.keys.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range groups {
		for i := range g.asks {
			a := &g.asks[i]
			k := e.table[a.key]
			if k == nil || !paid {
				continue
			}
			if k.owed = max(0, k.owed-a.debit); k.owed == 0 {
				delete(e.table, a.key)
			}
		}
	}
	e.keys.Store(int64(len(e.table)))
}
