package recall

import (
	"iter"
	"math"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// DefaultKeys is the default size of a table, in keys: 64 MB at the most.
const DefaultKeys = 460_000

// Charge is what one limit of a request costs a key, with what the region may hold of that key now.
type Charge struct {
	Key   budget.KeyID
	Limit limit.Limit
	Cost  limit.Tokens
	// Bucket is what the region may hold without its store, and earn, by this daemon's clock; see
	// entitlement.WithoutStore. For a counting limit its capacity is the right itself.
	Bucket limit.Bucket
	// Former is what the bucket held at most and earned at least until Revised, before its limit changed. From then until
	// SlowUntil the slower of that rate and the present one counts. It does so from the beginning if Former has no
	// capacity, because the limit then changed at an unknown time before Revised. Revised and SlowUntil are 0 if no
	// change matters.
	Former             limit.Bucket
	Revised, SlowUntil budget.Instant
	// Full is how long an empty bucket may take to fill, or how long use of a counting limit may
	// last. An older debt has nothing to be taken off.
	Full time.Duration
	// Room bounds the capacity of the store's bucket in any phase of the region; see entitlement.Room.
	// The zero value stands for unknown bounds.
	Room Room
	// Extra: the bucket may hold more than its capacity, earned when the key was cold.
	Extra bool
	// Foreign: another daemon may spend for the region through its store, so nothing is known for
	// certain.
	Foreign bool
	// Forgives: if the store has lost its contents and nothing is known of the key, the key starts
	// afresh. Birth is when the store's present contents began, in microseconds of its clock; 0: not
	// known, and nothing is forgiven.
	Forgives bool
	Birth    int64
	// From is when the bucket came to be this region's own; 0: it always was. Earlier knowledge of
	// the key does not count.
	From budget.Instant
	// StoreNow is a time that the store's clock has certainly reached, StoreLatest one that it has
	// certainly not passed, in microseconds. Both are 0 if none is known. Counting limits need
	// them.
	StoreNow, StoreLatest int64
	// OldClock: the store has other contents since, and maybe another clock. Requests are decided by the times that
	// there were, and nothing is forgotten by them.
	OldClock bool
	// RhoPPM bounds the drift between that clock and the daemon's, in millionths.
	RhoPPM int64
	// Own is the charge that the table already holds for this request, if a call for it was sent
	// and not answered; otherwise nil.
	Own *Ticket
	// Slot names the slot that the request asks for, and Lasts is for how long it may hold it; 0: as long
	// as the limit allows (concurrency limits only).
	Slot  uint64
	Lasts time.Duration
	// Spread: the store is of several servers, which release a slot by themselves if another limit denies
	// its request. Decide reads it.
	Spread bool
	// Borrows: the call wants to borrow of the key's record. Sent reads it.
	Borrows bool
	// Overruns: the call charges what has been used already, also beyond what there is. Sent reads it.
	Overruns bool
}

// Room holds the smallest and the largest capacity that a bucket can have while its share does not
// change, without what it earned when the key was cold.
type Room struct{ Least, Most limit.Tokens }

// Table remembers keys. It is not safe for concurrent use. The zero value is not usable; use New.
type Table struct {
	keys entries
	max  int
	debt map[budget.KeyID]*debt
	// whole is since when every key that was settled is in keys: a key that is not in it was not
	// used.
	whole budget.Instant
	// unrecorded is how many calls are in flight of keys for which there was no room, and unseen whether one has ended
	// since keys was last looked at. Until then keys is not whole.
	unrecorded int
	unseen     bool
	// call counts the calls for which debts were looked up.
	call  uint64
	marks uint64 // the latest mark that was assigned to a debt
	// settled is the largest total of a debt that was dropped. A later debt of its key starts
	// there, so that a late answer pays nothing of it.
	settled limit.Tokens
	// voided counts the calls of Void and Emptied. The answer to an older call says nothing any
	// more.
	voided uint32
	// emptied is when the store's contents began that Memory is for; 0: never. heldUntil is up to
	// when no other daemon can have spent.
	emptied, heldUntil budget.Instant
	// taken has what calls without an answer may have taken of buckets, and those in flight before the store's contents
	// changed.
	taken map[budget.KeyID]taken
	// changing has the keys whose share changes, while it is unknown what they hold.
	changing map[budget.KeyID]change
	// own has the slots that reservations of this daemon took in the store, and owns is their number.
	// Those that are in use are among what the store reported.
	own  map[budget.KeyID][]slot
	owns int
	// lending has the keys of which a call in flight wants to borrow.
	lending map[budget.KeyID]*meanwhile
	// sweepAt is the earliest time of the store's clock at which own is searched for slots that have ended.
	sweepAt int64
}

// entry is what is known of one key. It has no pointers, so the garbage collector need not scan
// hundreds of thousands of them.
type entry struct {
	// left is what the store's record held by its latest answer, less what is owed since. For a
	// counting limit it is the rights less what was in use.
	left limit.Tokens
	// at is the instant of left. What is earned later is added to it.
	at budget.Instant
	// basis is the smallest rate at which the key earned, in micro-tokens a second. For a counting
	// limit it is what was in use, MaxTokens if that is not known.
	basis int64
	// stamp is the store's clock at the answer, in microseconds. An earlier answer says nothing new.
	stamp int64
	// asked is the cost of calls in flight, overruns that of those that may take more than there is.
	asked, overruns limit.Tokens
	// capacity is what the store's bucket could hold at the latest answer; 0 if that is not known.
	capacity limit.Tokens
	// lent is what the daemon has borrowed of the record, until lentUntil at the latest. For a concurrency
	// limit lentUntil is when no slot that the store has reported can be in use any more.
	lent      limit.Tokens
	lentUntil budget.Instant
	// recent has when this daemon's calls were admitted of a counting limit.
	recent recent
	// told: the store has answered, and the key's share does not change since. counts: it is a counting
	// limit.
	told, counts bool
}

// change is a change of a key's share. An answer of the store that comes meanwhile may be of before it.
type change struct {
	// until is when the store can no longer make the change, MaxInt64 while its answer is awaited.
	until budget.Instant
	// was is what was known before, if the store had told it and has other contents since its start. owed is what the
	// key owed then, and taken what Table.taken had of it.
	was   entry
	owed  limit.Tokens
	taken taken
}

// unknown reports whether the store does not know itself what is in use of a counting limit.
func (e *entry) unknown() bool { return limit.Tokens(e.basis) >= limit.MaxTokens }

// taken is what calls may have taken of a bucket by an instant. No call takes more than there is, except for overruns. So
// the record then held at least nothing without those, whenever the calls were decided.
type taken struct {
	most, overruns limit.Tokens
	owed           limit.Tokens // by the key, at that time
	at             budget.Instant
}

// of returns what is left at least of what there was.
func (t taken) of(left limit.Tokens) limit.Tokens {
	return max(left-t.most, min(left, -t.owed)-t.overruns)
}

// debt is what was admitted of one key and not reported to the store, and what calls without an
// answer may have taken.
type debt struct {
	// total is everything that was ever owed of the key. paid is how much of it the store has taken
	// off.
	total, paid limit.Tokens
	// full is when the store's bucket is full in any case. From then on nothing is owed.
	full budget.Instant
	// carrier is the latest call that carried the debt. carried is how many calls in flight carry
	// it.
	carrier uint64
	carried int
	// lost are calls without an answer, see Lost.
	lost []lostCalls
	// folded are those that what is known of the key counts as taken; see fold.
	folded lostCalls
	// mark changes whenever a call carries the debt.
	mark uint64
	// use is what is in use of a counting limit, since it was first decided here; nil before.
	use *use
	// slots were given out here, in this order, and the store is not known to have them. They are owed
	// beside total.
	slots []slot
}

// New returns an empty table of at most max keys. Since now the daemon must be the only one that
// spends for its region, or must count on nothing from before.
func New(max int, now budget.Instant) *Table {
	return &Table{debt: map[budget.KeyID]*debt{}, taken: map[budget.KeyID]taken{}, changing: map[budget.KeyID]change{}, own: map[budget.KeyID][]slot{}, lending: map[budget.KeyID]*meanwhile{}, max: max, whole: now}
}

// Len returns how many keys the table knows.
func (t *Table) Len() int { return t.keys.len() }

// Knows reports whether the table knows a key of which nothing is owed. If so, Sent uses only the key and cost of a charge.
func (t *Table) Knows(key budget.KeyID) bool {
	known := t.keys.has(key)
	return known && t.debt[key] == nil
}

// Warm makes Knows and Sent faster for the keys of a call. It changes nothing else.
func (t *Table) Warm(keys []budget.KeyID) { t.keys.warm(keys) }

// WarmAnswers makes Answered faster for the calls that are answered together. It changes nothing else.
func (t *Table) WarmAnswers(calls iter.Seq[*Ticket]) {
	read := 0
	for k := range calls {
		if k.place > 0 && k.place <= t.keys.used {
			read += t.keys.of(k.place - 1).ends()
		}
	}
	t.keys.read = read
}

// Owes reports whether a key may owe something.
func (t *Table) Owes(key budget.KeyID) bool { return t.debt[key] != nil }

// Owing returns how many keys owe something, or may have been charged by calls without an answer.
func (t *Table) Owing() int { return len(t.debt) }

// Void forgets everything except what is owed: from now on keys start empty. It is for a store
// whose contents have changed, or a time in which other daemons may have spent.
func (t *Table) Void(now budget.Instant) {
	t.keys.clear()
	clear(t.taken)
	clear(t.changing)
	t.Disown()
	t.whole, t.emptied = now, 0
	t.voided++
	for _, d := range t.debt {
		d.lost, d.folded, d.use = nil, lostCalls{}, nil
	}
}

// Forget starts a key from empty, or from what its record owes, before its share changes in the store. It is unknown what the key
// will hold until Tell, or until an answer after Untold. The store may answer calls meanwhile, before it
// makes the change or after. Of a counting limit nothing is admitted.
func (t *Table) Forget(key budget.KeyID, now budget.Instant) {
	e, known := t.keys.get(key)
	ch := t.changing[key]
	if t.emptied != 0 && e.told {
		ch.was, ch.owed, ch.taken = e, t.Owed(key, now), t.taken[key]
	}
	ch.until = math.MaxInt64
	t.changing[key] = ch
	if !known && !t.recordable(now) {
		return
	}
	e.left, e.at, e.told, e.capacity = min(e.left, 0), now, false, 0
	t.keys.put(key, e)
}

// Tell records what the store reported that a key holds, at stamp of its clock, after its share had
// changed to one that earns at rate micro-tokens a second. If the store has answered a later call
// meanwhile, that answer holds. An answer of contents that the store has lost since says nothing. No two changes
// of one key may be under way.
func (t *Table) Tell(key budget.KeyID, tokens limit.Tokens, rate, stamp int64, now budget.Instant) {
	if !t.changed(key) {
		return
	}
	e, known := t.keys.get(key)
	if !known && !t.recordable(now) {
		return
	}
	if left := tokens - t.Owed(key, now); !e.told || stamp > e.stamp || stamp == e.stamp && left < e.left {
		t.unfold(key)
		e.left, e.at, e.basis, e.stamp, e.told = left, now, rate, stamp, true
	}
	e.basis, e.capacity = min(e.basis, rate), 0
	t.keys.put(key, e)
}

// TellUse is Tell for a counting limit: what is left of its rights, and what is in use. It reads the
// charge's key and limit.
func (t *Table) TellUse(c *Charge, left, used limit.Tokens, stamp int64, now budget.Instant) {
	key := c.Key
	if !t.changed(key) {
		return
	}
	e, known := t.keys.get(key)
	if !known && !t.recordable(now) {
		return
	}
	if !e.told || stamp >= e.stamp {
		t.learnUse(c, &e, left, used, stamp, now)
		if !e.unknown() {
			t.recount(c, &e, now)
		}
	}
	t.keys.put(key, e)
}

// changed ends a change that the store has made. It reports whether the store still has the contents that it made
// the change in: Void and Emptied end all changes.
func (t *Table) changed(key budget.KeyID) bool {
	changing := t.isChanging(key)
	delete(t.changing, key)
	return changing
}

// Untold ends a change of which it is not known whether the store has made it, and which it can no longer
// make. It stays unknown what the key holds until the answer to a call that leaves from now on.
func (t *Table) Untold(key budget.KeyID, now budget.Instant) {
	ch, changing := t.changing[key]
	if !t.keys.has(key) {
		delete(t.changing, key) // no call of it is under way, and nothing is known that could be wrong
	} else if changing {
		ch.until = now
		t.changing[key] = ch
	}
}

// decidedSince ends the doubt about a key's share: the store has decided a call that was sent then. If it
// has made the change, that was before.
func (t *Table) decidedSince(key budget.KeyID, sent budget.Instant) {
	if ch, changing := t.changing[key]; changing && sent >= ch.until {
		delete(t.changing, key)
	}
}

// isChanging reports whether a key's share changes.
func (t *Table) isChanging(key budget.KeyID) bool {
	_, changing := t.changing[key]
	return changing
}

// uncertain is what is known of a key whose share changes, if what the store told is of before.
func (e entry) uncertain() entry {
	if e.told && !e.counts {
		e.left = min(e.left, 0)
	}
	e.told, e.capacity = false, 0
	return e
}

// credit adds to what is known of a bucket, as of the instant of that knowledge.
func (t *Table) credit(key budget.KeyID, amount limit.Tokens) {
	if e, known := t.keys.get(key); known {
		e.left += amount
		t.keys.put(key, e)
	}
}

// Owed returns what a key owes.
func (t *Table) Owed(key budget.KeyID, now budget.Instant) limit.Tokens {
	d := t.debt[key]
	if d == nil {
		return 0
	}
	owed := d.held(now)
	if now <= d.full {
		owed += d.total - d.paid
	}
	return owed
}

// find returns what is known of a charge's key, brought to now. It does not record that: frequent calls
// would round a slow limit's earnings away.
func (t *Table) find(c *Charge, now budget.Instant) entry {
	t.fold(c, now)
	e, known := t.keys.get(c.Key)
	if !known {
		return t.untouched(c, now)
	}
	if t.isChanging(c.Key) {
		told := e.told // so that no earlier answer replaces what is known
		e = e.uncertain()
		e.told = told
	}
	return e.bring(t.taken[c.Key], c, now)
}

// certain is find for a decision: while a key's share changes the store has told nothing that counts.
func (t *Table) certain(c *Charge, now budget.Instant) entry {
	e := t.find(c, now)
	if t.isChanging(c.Key) {
		e.told = false
	}
	return e
}

// bring returns what was known of a charge's key, less what calls may have taken of it, brought to now.
func (e entry) bring(lost taken, c *Charge, now budget.Instant) entry {
	if lost.most > 0 {
		e = e.less(lost, c)
	}
	return e.to(c, now)
}

// less returns what was known, brought to when calls had taken of it, less that.
func (e entry) less(lost taken, c *Charge) entry {
	e = e.to(c, lost.at)
	e.left = max(lost.of(e.left), min(e.left, -lost.owed-c.Limit.Capacity)) // no record owes more, see limit.Adjust
	return e
}

// replace records what is known of a key by now.
func (t *Table) replace(key budget.KeyID, e entry) {
	delete(t.taken, key)
	t.keys.put(key, e)
}

// to returns what was known, brought to now.
func (e entry) to(c *Charge, now budget.Instant) entry {
	if c.Limit.Algorithm.Counts() {
		return e // it decays by the store's clock, see use
	}
	if e.at < c.From {
		e.left, e.at = min(e.left, 0), c.From
	}
	for e.at < now {
		until, rate, most := now, min(e.basis, c.Bucket.Rate.Micro), c.Bucket.Cap
		switch former := c.Former.Rate.Micro; {
		case e.at < c.Revised && c.Former.Cap > 0:
			until, rate, most = min(until, c.Revised), min(e.basis, former), min(most, c.Former.Cap)
		case e.at < c.SlowUntil:
			until, rate = min(until, c.SlowUntil), min(rate, former)
		}
		if e.lent > 0 && e.at < e.lentUntil {
			// Meanwhile the bucket holds that much less, as in the store.
			until, most = min(until, e.lentUntil), max(0, most-e.lent)
		}
		e.left, e.at = earned(e.left, rate, most, e.at, until), until
	}
	e.left = min(e.left, c.Bucket.Cap)
	return e
}

// untouched returns what a key holds that was not used since the table is whole.
func (t *Table) untouched(c *Charge, now budget.Instant) entry {
	t.missed(now)
	if c.Limit.Algorithm.Counts() {
		if !t.unused(c, now) {
			return entry{at: now, counts: true}
		}
		return entry{left: c.Bucket.Cap, at: now, stamp: c.StoreNow, told: c.StoreNow != 0, counts: true}
	}
	e := entry{at: min(now, max(t.whole, c.From)), basis: math.MaxInt64}.to(c, now)
	e.basis = c.Bucket.Rate.Micro
	if c.Room.Least == c.Room.Most {
		e.capacity = c.Room.Most
	}
	return e
}

// missed has the table not be whole before now, if there were calls for whose keys it had no room.
func (t *Table) missed(now budget.Instant) {
	if t.unrecorded > 0 || t.unseen {
		t.whole, t.unseen = max(t.whole, now), false
	}
}

// unused reports whether nothing can be in use of a counting limit whose key was not used since the
// table is whole. That covers use by this region in the present window of its store's clock, and
// use of its rights by others.
func (t *Table) unused(c *Charge, now budget.Instant) bool {
	tail := c.Limit.Tail()
	// Half a tail more is beyond what clocks may differ by.
	if c.From != 0 && now < c.From.Add(tail+tail/2) {
		return false
	}
	if unsure(c) {
		return now >= t.whole.Add(tail+tail/2)
	}
	if c.Limit.Algorithm == limit.Concurrency {
		return now >= t.whole+lasting(c)
	}
	age := int64(now-t.whole) / 1000
	return c.Limit.Since(c.StoreNow) >= c.StoreLatest-age+drift(age, c)
}

// earned returns what a bucket holds at an instant if it held tokens at an earlier one. It rounds
// down.
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

// recordable makes room for a key that is used now. If there is none, the table is not whole before now.
func (t *Table) recordable(now budget.Instant) bool {
	if t.makeRoom(now) {
		return true
	}
	t.whole = max(t.whole, now)
	return false
}

// nothingOwed reports whether nothing is owed of a key any more, nor in use of an earlier debt of it, and whether the
// store can decide no call of it any more.
func (t *Table) nothingOwed(key budget.KeyID, now budget.Instant) bool {
	d := t.debt[key]
	return d == nil || d.carried == 0 && d.held(now) == 0 && now > max(d.full, d.lostUntil(), d.lostEnds())
}

// debtOf finds or creates a key's debt.
func (t *Table) debtOf(key budget.KeyID) *debt {
	d := t.debt[key]
	if d == nil {
		d = &debt{total: t.settled, paid: t.settled, mark: t.nextMark()}
		t.debt[key] = d
	}
	return d
}

func (t *Table) nextMark() uint64 {
	t.marks++
	return t.marks
}

// settle drops a debt of nothing. Use of a counting limit stays known, even after it was paid,
// until the store has reported what is in use.
func (t *Table) settle(key budget.KeyID, d *debt) {
	if d.total == d.paid && len(d.slots) == 0 && len(d.lost) == 0 && d.folded.cost == 0 && d.carried == 0 && d.use == nil {
		t.settled = max(t.settled, d.total)
		delete(t.debt, key)
	}
}
