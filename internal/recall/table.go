package recall

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

const (
	// DefaultKeys bounds a table, in keys: about 40 MiB.
	DefaultKeys = 400_000
	// evictionSample is how many keys a new key of a full table looks at, to drop the one
	// that was settled the longest ago.
	evictionSample = 16
)

// Charge is what one limit of a request costs a key, and what the region may hold of that key now.
type Charge struct {
	Key   budget.KeyID
	Limit limit.Limit
	Cost  limit.Tokens
	// Bucket is what the region may hold without its store, and earn, by this daemon's clock: see
	// rights.WithoutStore. Of a limit that counts, its capacity is the rights.
	Bucket limit.Bucket
	// Full is how long an empty bucket may take to fill, or use of a limit that counts may last: a debt that is
	// older than that has nothing to be taken off.
	Full time.Duration
	// Extra: the bucket may hold more than its capacity that it earned when the key was cold.
	Extra bool
	// Foreign: another daemon may spend for the region by its store, so nothing is known for certain.
	Foreign bool
	// From is when the bucket came to be this region's own; 0: it always was. What was known of
	// the key before counts for nothing.
	From budget.Instant
	// StoreNow and StoreLatest are times, in microseconds of the store's clock, that it has reached for certain
	// and has not passed for certain; 0 if none are known. Limits that count go by them.
	StoreNow, StoreLatest int64
	// RhoPPM bounds by how many millionths that clock and the daemon's differ.
	RhoPPM int64
	// Own is the charge that stands for this request already, if a call for it was sent and not
	// answered; else nil.
	Own *Ticket
}

// Table remembers keys. It is not safe for concurrent use. Use New.
type Table struct {
	keys map[budget.KeyID]entry
	max  int
	debt map[budget.KeyID]*debt
	// whole is since when every key that was settled is in keys: what is not was not touched.
	whole budget.Instant
	// call counts the calls that debts were looked up for.
	call  uint64
	marks uint64 // of debts, that were given out
	// settled is the largest total of a debt that was dropped: a later one of its key begins there, so that a late
	// answer pays nothing of it.
	settled limit.Tokens
	// voided counts the calls of Void and Emptied: a call of the store from before says nothing any more.
	voided uint32
	// emptied is when the store's contents began that Memory tells of; 0: never. heldUntil is up to when no
	// other daemon can have spent.
	emptied, heldUntil budget.Instant
	// changing are keys as they were before their share changed, while nobody knows what they hold.
	changing map[budget.KeyID]entry
}

// entry is what is known of one key. It has no pointers, so that the garbage collector need not
// look at hundreds of thousands.
type entry struct {
	// left is what the store's record held when it was last told, less what is owed since; of a
	// limit that counts, the rights that were left.
	left limit.Tokens
	// at is the instant that left is of: what is earned later comes on top.
	at budget.Instant
	// basis is the rate, micro-tokens a second, by which the key earned at least; of a limit
	// that counts, what was in use.
	basis int64
	// stamp is the store's clock at the answer, in microseconds.
	stamp int64
	// asked is the cost of calls on their way.
	asked limit.Tokens
	// counts: it is of a limit that counts. unsaid: the store did not say what is in use of that, but
	// that there is nothing left.
	counts, unsaid bool
}

// debt is what was admitted of one key and not told the store, and what calls without an answer
// may have taken.
type debt struct {
	// total is all that was ever owed of the key, and paid how much of it the store has taken off.
	total, paid limit.Tokens
	// full is when the store's bucket is full whatever it is told: from then on nothing is owed.
	full budget.Instant
	// carrier is the last call that had the debt with it, and carried how many have it that are under way.
	carrier uint64
	carried int
	// lost is the cost of calls without an answer, which the store may decide until lostUntil.
	lost      limit.Tokens
	lostUntil budget.Instant
	// lostMark is another one whenever it is known what became of those calls.
	lostMark uint64
	// mark is another one whenever a call carries the debt.
	mark uint64
	// use is what is in use of a limit that counts, since it was first decided here; nil before.
	use *use
}

// New makes an empty table of at most max keys. The daemon has been the only one that spends for
// its region since now, or counts on nothing from before.
func New(max int, now budget.Instant) *Table {
	return &Table{keys: map[budget.KeyID]entry{}, debt: map[budget.KeyID]*debt{}, changing: map[budget.KeyID]entry{}, max: max, whole: now}
}

// Len is how many keys the table knows.
func (t *Table) Len() int { return len(t.keys) }

// Knows reports whether the table knows a key: Sent then looks at nothing of a charge but its key and cost.
func (t *Table) Knows(key budget.KeyID) bool { _, known := t.keys[key]; return known }

// Owes reports whether a key may owe something.
func (t *Table) Owes(key budget.KeyID) bool { return t.debt[key] != nil }

// Owing is how many keys owe something, or may have been charged by calls without an answer.
func (t *Table) Owing() int { return len(t.debt) }

// Void forgets everything but what is owed: from now on keys begin empty. It is for when the store has other contents,
// or when others may have spent.
func (t *Table) Void(now budget.Instant) {
	clear(t.keys)
	clear(t.changing)
	t.whole, t.emptied = now, 0
	t.voided++
	for _, d := range t.debt {
		d.lost, d.use, d.lostMark = 0, nil, t.nextMark()
	}
}

// Revise counts what keys that are not known have earned from now on only: the rules have changed.
func (t *Table) Revise(now budget.Instant) { t.whole = now }

// Forget begins a key from empty, before its share changes in the store: nobody knows what it
// will hold until Tell. Nothing is admitted of a limit that counts until the store has answered a call.
func (t *Table) Forget(key budget.KeyID, now budget.Instant) {
	e, known := t.keys[key]
	if !known && !t.makeRoom(now) {
		return
	}
	if t.emptied != 0 && known && e.stamp != 0 {
		t.changing[key] = e
	}
	e.left, e.at, e.stamp = 0, now, 0
	t.keys[key] = e
}

// Tell takes what the store said a key holds, at its clock's stamp, when its share had changed to
// one that earns at rate micro-tokens a second.
func (t *Table) Tell(key budget.KeyID, tokens limit.Tokens, rate, stamp int64, now budget.Instant) {
	e, known := t.keys[key]
	if !known && !t.makeRoom(now) {
		return
	}
	e.left, e.at, e.basis, e.stamp = tokens-t.Owed(key, now), now, rate, stamp
	t.keys[key] = e
	delete(t.changing, key)
}

// TellUse is Tell for a limit that counts: what is left of its rights, and what is in use.
func (t *Table) TellUse(key budget.KeyID, left, used limit.Tokens, stamp int64, now budget.Instant) {
	e, known := t.keys[key]
	if !known && !t.makeRoom(now) {
		return
	}
	if stamp >= e.stamp {
		e.left, e.at, e.basis, e.stamp = left, now, int64(min(used, limit.MaxTokens)), stamp
		e.counts, e.unsaid = true, used >= limit.MaxTokens
	}
	t.keys[key] = e
	delete(t.changing, key)
}

// Spend takes what was charged to a key in another way than by a call of Sent.
func (t *Table) Spend(key budget.KeyID, cost limit.Tokens) {
	if e, known := t.keys[key]; known {
		e.left -= cost
		t.keys[key] = e
	}
}

// Owed is what a key owes.
func (t *Table) Owed(key budget.KeyID, now budget.Instant) limit.Tokens {
	if d := t.debt[key]; d != nil && now <= d.full {
		return d.total - d.paid
	}
	return 0
}

// find returns what is known of a charge's key, brought to now. It changes nothing: what many looks would
// round away, a slow limit would never earn.
func (t *Table) find(c *Charge, now budget.Instant) entry {
	e, known := t.keys[c.Key]
	if !known {
		return t.untouched(c, now)
	}
	return e.to(c, now)
}

// to is what was known, brought to now.
func (e entry) to(c *Charge, now budget.Instant) entry {
	if c.Limit.Algorithm.Counts() {
		return e // it decays by the store's clock, see use
	}
	if e.at < c.From {
		e.left, e.at = min(e.left, 0), c.From
	}
	e.left = earned(e.left, min(e.basis, c.Bucket.Rate.Micro), c.Bucket.Cap, e.at, now)
	e.at = max(e.at, now)
	return e
}

// untouched is what a key holds that nobody has asked about since the table is whole.
func (t *Table) untouched(c *Charge, now budget.Instant) entry {
	if c.Limit.Algorithm.Counts() {
		if !t.unused(c, now) {
			return entry{at: now, counts: true}
		}
		return entry{left: c.Bucket.Cap, at: now, stamp: c.StoreNow, counts: true}
	}
	rate := c.Bucket.Rate.Micro
	return entry{left: earned(0, rate, c.Bucket.Cap, max(t.whole, c.From), now), at: now, basis: rate}
}

// unused reports whether nothing can be in use of a limit that counts whose key nobody has asked about since the
// table is whole: nothing of this region by the present window of its store's clock, and nothing that others used of
// its rights.
func (t *Table) unused(c *Charge, now budget.Instant) bool {
	tail := c.Limit.Tail()
	// Half of it more is beyond what clocks may differ by.
	if c.From != 0 && now < c.From.Add(tail+tail/2) {
		return false
	}
	if unsure(c) {
		return now >= t.whole.Add(tail+tail/2)
	}
	window, age := c.Limit.Window.Microseconds(), int64(now-t.whole)/1000
	begins := c.StoreNow - window
	switch c.Limit.Algorithm {
	case limit.FixedWindow:
		begins = c.StoreNow - c.StoreNow%window
	case limit.SlidingCounter:
		begins -= c.StoreNow % window
	}
	return begins >= c.StoreLatest-age+(age*c.RhoPPM+999_999)/1_000_000
}

// earned is what a bucket holds at an instant that held tokens at an earlier one. It rounds down.
func earned(tokens limit.Tokens, rate int64, most limit.Tokens, from, to budget.Instant) limit.Tokens {
	if to <= from || rate <= 0 {
		return min(tokens, most)
	}
	us := int64(to-from) / 1000
	secs := us / 1_000_000
	if secs > int64(most-tokens)/rate {
		return most // also where the product would be too large
	}
	whole, rest := rate/1_000_000, rate%1_000_000
	return min(tokens+limit.Tokens(whole*us+rest*secs+rest*(us%1_000_000)/1_000_000), most)
}

// makeRoom drops a key that is neither owed for nor on its way, if the table is full. It reports
// whether there is room.
func (t *Table) makeRoom(now budget.Instant) bool {
	if len(t.keys) < t.max {
		return true
	}
	var oldest budget.KeyID
	found, seen := false, 0
	var at budget.Instant
	for key, e := range t.keys {
		if e.asked == 0 && t.nothingOwed(key, now) && (!found || e.at < at) {
			oldest, at, found = key, e.at, true
		}
		if seen++; seen == evictionSample {
			break
		}
	}
	if !found {
		return false
	}
	delete(t.keys, oldest)
	if d := t.debt[oldest]; d != nil {
		d.use = nil
		t.settle(oldest, d)
	}
	t.whole = max(t.whole, at)
	return true
}

// nothingOwed reports whether nothing is owed of a key, and nothing in use that was.
func (t *Table) nothingOwed(key budget.KeyID, now budget.Instant) bool {
	d := t.debt[key]
	return d == nil || d.total == d.paid && d.lost == 0 && d.carried == 0 && now > d.full
}

// debtOf finds or makes a key's debt.
func (t *Table) debtOf(key budget.KeyID) *debt {
	d := t.debt[key]
	if d == nil {
		d = &debt{total: t.settled, paid: t.settled, mark: t.nextMark(), lostMark: t.nextMark()}
		t.debt[key] = d
	}
	return d
}

func (t *Table) nextMark() uint64 {
	t.marks++
	return t.marks
}

// settle drops a debt of nothing. What was in use of a limit that counts stays known, also when it was paid, until the
// store has said what is in use.
func (t *Table) settle(key budget.KeyID, d *debt) {
	if d.total == d.paid && d.lost == 0 && d.carried == 0 && d.use == nil {
		t.settled = max(t.settled, d.total)
		delete(t.debt, key)
	}
}
