package charge

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/rules"
)

const (
	// maxKeys is the largest number of keys that a daemon decides from memory. They take 43 MiB, and
	// their names.
	maxKeys = 65_536
	// maxNameBytes is the longest name of an entry. The store decides keys with longer names.
	maxNameBytes = 512
	// ways is the number of places in which one key may be: the places of one set.
	ways = 8
	// AdmitAfter is how often a key must have come recently to get an entry. So a flood of keys
	// that come once creates no entries.
	AdmitAfter = 3
)

// Table holds the keys that this daemon decides from memory. It is searched by the plain
// attributes of a request, without the keyed hash that names the key in the store. A search takes
// no lock. An entry has its own lock, which is held for a few additions. Safe for concurrent use.
type Table struct {
	sets   [maxKeys / ways]placeSet // first, so that a set is one cache line of the processor
	tags   [maxKeys / ways]tagSet
	seed   maphash.Seed
	sketch sketch

	// Resets counts the events that ended all chunks.
	Resets atomic.Uint64
	// LostChunks counts how often borrowed tokens ended before they were spent or returned.
	LostChunks atomic.Int64

	mu      sync.Mutex // guards admission and the fields below; taken before the locks of entries
	byKey   map[budget.KeyID]*Entry
	created uint64

	activeMu sync.Mutex // taken after the locks of entries
	active   []*Entry
	urgent   []*Entry
	// Wake has room for one value, which wakes the janitor for the urgent entries before its interval ends.
	Wake chan struct{}
}

// placeSet holds the places of one set.
type placeSet [ways]atomic.Pointer[Entry]

// tagSet holds one byte of the hash of each entry of a set, in the order of its places. So a search
// reads few other entries, which are far apart in memory. A tag changes a moment after its place. A
// search in that moment may find nothing; the store then decides.
type tagSet struct{ all atomic.Uint64 }

// tagOf returns a byte of the hash that does not take part in the choice of the set.
func tagOf(hash uint64) uint8 { return uint8(hash >> 56) }

// put sets the tag of a place. The caller holds the table's mu.
func (t *tagSet) put(place int, tag uint8) {
	at := 8 * place
	t.all.Store(t.all.Load()&^(0xff<<at) | uint64(tag)<<at)
}

// Entry is one key. The fields above its lock do not change; see WhileLocked for the others. Its
// methods are safe for concurrent use, unless they say otherwise.
type Entry struct {
	hash   uint64
	name   string
	Key    budget.KeyID
	number uint64 // the order in which several entries are locked

	mu      sync.Mutex
	Evicted bool // it is no longer in the table
	Chunk   prefetch.Key
	// Rule and Limit are those of the latest check of the key. The store decides a check with others. rules are those that
	// Limit belongs to.
	Rule   *rules.Rule
	Limit  limit.Limit
	rules  budget.RulesState
	window time.Duration
	shadow bool
	// floorCap and coldCap are Charge.FloorCap and ColdCap of the latest view.
	floorCap, coldCap limit.Tokens
	// lent is Charge.Lent of the latest view.
	lent bool
	// active: the entry is in the table's list of entries that have a chunk or unreported use. urgent: it is in the list of
	// those that need a call now.
	active, urgent bool
	// done is closed when no call in flight can bring tokens any more; it is nil if no check waits
	// for that. InFlight: a check makes such a call, or is about to. Shares: by the latest call,
	// other checks gain by waiting for it.
	done             chan struct{}
	InFlight, Shares bool
	Stalled          bool // the latest call that ended, or was given up, had no answer
	// denial is the id that denials from memory have had since deniedAt.
	denial   string
	deniedAt budget.Instant
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{seed: maphash.MakeSeed(), byKey: map[budget.KeyID]*Entry{}, Wake: make(chan struct{}, 1)}
}

// Find returns the entry of a name, or nil.
func (t *Table) Find(name []byte) (e *Entry, hash uint64) {
	hash = maphash.Bytes(t.seed, name)
	at := hash % uint64(len(t.sets))
	tags, tag := t.tags[at].all.Load(), tagOf(hash)
	for i := range ways {
		if uint8(tags>>(8*i)) != tag {
			continue
		}
		if e := t.sets[at][i].Load(); e != nil && e.hash == hash && e.name == string(name) {
			return e, hash
		}
	}
	return nil, hash
}

// ByKey returns the entry of a key, or nil.
func (t *Table) ByKey(key budget.KeyID) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// Admit returns the entry of a name. It creates one if the key has come often enough recently, and a
// place is free or has an idle key that came less often. Otherwise it returns nil.
func (t *Table) Admit(name []byte, key budget.KeyID, now budget.Instant) *Entry {
	if len(name) > maxNameBytes {
		return nil
	}
	e, hash := t.Find(name)
	if e != nil {
		return e
	}
	count := t.sketch.add(hash)
	if count < AdmitAfter {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, _ := t.Find(name); e != nil {
		return e
	}
	place, free := t.placeFor(hash, count, now)
	if !free {
		return nil
	}
	t.created++
	e = &Entry{hash: hash, name: string(name), Key: key, number: t.created}
	t.byKey[key] = e
	at := hash % uint64(len(t.sets))
	t.sets[at][place].Store(e)
	t.tags[at].put(place, tagOf(hash))
	return e
}

// placeFor returns a free place in the set of a hash, and evicts an entry for it if necessary. free is
// false if there is no such place. The caller holds mu.
func (t *Table) placeFor(hash uint64, count uint32, now budget.Instant) (place int, free bool) {
	set := &t.sets[hash%uint64(len(t.sets))]
	var out *Entry
	for i := range set {
		e := set[i].Load()
		if e == nil {
			return i, true
		}
		if n := t.sketch.count(e.hash); n < count && e.idle(now) {
			place, count, out = i, n, e
		}
	}
	return place, out != nil && t.evict(out, now)
}

// WhileLocked calls do, which may use all fields of the entry and must call no method of it.
func (e *Entry) WhileLocked(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
}

func (e *Entry) idle(now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.active && !e.InFlight && e.Chunk.Idle(now)
}

// evict removes an entry if it is still idle. The caller holds mu.
func (t *Table) evict(e *Entry, now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active || e.InFlight || !e.Chunk.Idle(now) {
		return false
	}
	e.Evicted = true
	delete(t.byKey, e.Key)
	return true
}

// EvictIdle removes all idle entries, so that they do not keep the former rules of their latest
// checks in memory.
func (t *Table) EvictIdle(now budget.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sets {
		for j := range t.sets[i] {
			place := &t.sets[i][j]
			if e := place.Load(); e != nil && t.evict(e, now) {
				place.Store(nil)
			}
		}
	}
}

// End ends all chunks and all remembered denials. drop also voids the chunks, because the store has
// other contents. After End has returned, no check is decided by what was known before.
func (t *Table) End(drop bool) {
	t.Resets.Add(1)
	for i := range t.sets {
		for j := range t.sets[i] {
			e := t.sets[i][j].Load()
			if e == nil {
				continue
			}
			e.mu.Lock()
			if drop {
				e.Chunk.Drop()
			} else {
				e.Chunk.End()
			}
			e.mu.Unlock()
		}
	}
}

// activate puts an entry on the list of entries that the janitor visits. The caller holds e.mu.
func (t *Table) activate(e *Entry) {
	if e.active {
		return
	}
	e.active = true
	t.activeMu.Lock()
	t.active = append(t.active, e)
	t.activeMu.Unlock()
}

// urge makes the janitor visit an entry now. The caller holds e.mu.
func (t *Table) urge(e *Entry) {
	if e.urgent {
		return
	}
	e.urgent = true
	t.activeMu.Lock()
	t.urgent = append(t.urgent, e)
	t.activeMu.Unlock()
	select {
	case t.Wake <- struct{}{}:
	default:
	}
}

// AppendName appends the name of a key in the table: the number of its rule, the namespace, and the
// values of the rule's key.
func AppendName(dst []byte, number uint32, rule *rules.Rule, r *Request) []byte {
	namespace := r.Namespace
	if namespace == "" {
		namespace = rules.DefaultNamespace
	}
	dst = binary.BigEndian.AppendUint32(dst, number)
	dst = append(dst, byte(len(namespace)))
	dst = append(dst, namespace...)
	return r.keyValues(rule, dst)
}

// ActiveKeys returns the number of active entries.
func (t *Table) ActiveKeys() int {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	return len(t.active)
}

// Keys returns the number of entries.
func (t *Table) Keys() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}

// RecentDenial returns the id of an earlier denial of the key that a denial at now shares; empty if
// there is none.
func (e *Entry) RecentDenial(now budget.Instant) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.denial == "" || now.Sub(e.deniedAt) >= prefetch.Life {
		return ""
	}
	return e.denial
}

// RememberDenial records the id of a denial at now.
func (e *Entry) RememberDenial(denial string, now budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.denial, e.deniedAt = denial, now
}
