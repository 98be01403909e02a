package regional

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
	"aliquot/rules"
)

const (
	// localKeys caps the keys that a daemon decides from memory: 43 MiB, and their names.
	localKeys = 65_536
	// localName caps a name in bytes. The store decides keys with longer names.
	localName = 512
	// localWays is the number of places in which one key may be.
	localWays = 8
	// localWorth is how often a key must have come recently to get an entry. So a flood of keys
	// that come once creates no entries.
	localWorth = 3
)

// localTable holds the keys that this daemon decides from memory. It is searched by the plain
// attributes of a request, without the keyed hash that names the key in the store. A search takes
// no lock. An entry has its own lock, which is held for a few additions. Safe for concurrent use.
type localTable struct {
	sets   [localKeys / localWays]localSet // first, so that a set is one cache line of the processor
	tags   [localKeys / localWays]localTags
	seed   maphash.Seed
	sketch sketch

	// turn counts the events that ended all chunks.
	turn atomic.Uint64
	// lost counts how often borrowed tokens ended before they were spent or returned.
	lost atomic.Int64

	mu    sync.Mutex // guards admission and the fields below; taken before the locks of entries
	byKey map[budget.KeyID]*localEntry
	made  uint64

	activeMu sync.Mutex // taken after the locks of entries
	active   []*localEntry
	wake     chan struct{} // holds one value: something is due before its time
}

// localSet holds the places of one set.
type localSet [localWays]atomic.Pointer[localEntry]

// localTags holds one byte of the hash of each entry of a set, in the order of its places. So a
// search need not read most of the other entries, which are far apart in memory. A tag changes a
// moment after its place. A search that finds nothing meanwhile asks the store.
type localTags struct{ all atomic.Uint64 }

// tagOf returns a byte of the hash that does not take part in the choice of the set.
func tagOf(hash uint64) uint8 { return uint8(hash >> 56) }

// put sets the tag of a place. The caller holds the table's mu.
func (t *localTags) put(place int, tag uint8) {
	at := 8 * place
	t.all.Store(t.all.Load()&^(0xff<<at) | uint64(tag)<<at)
}

// localEntry is one key. The fields above its lock do not change.
type localEntry struct {
	hash   uint64
	name   string
	key    budget.KeyID
	number uint64 // the order in which several entries are locked

	mu    sync.Mutex
	gone  bool // it is no longer in the table
	chunk chunk.Key
	// rule and limit are those of the latest check of the key. A check with others asks the store.
	rule   *rules.Rule
	limit  limit.Limit
	window time.Duration
	shadow bool
	// floorCap and coldCap are from the latest view.
	floorCap, coldCap limit.Tokens
	// active: the entry is in the table's list of entries that have a chunk or unreported use.
	active bool
	// landed is closed when no call that may bring tokens is under way any more; it is nil if no
	// check waits for that. claimed: such a call is about to be made. shares: other checks gain by
	// waiting for it, as far as the latest call showed.
	landed          chan struct{}
	claimed, shares bool
	stalled         bool // the latest call that ended, or was given up, had no answer
	// denial is the id that denials from memory have had since deniedAt.
	denial   string
	deniedAt budget.Instant
}

func newLocalTable() *localTable {
	return &localTable{seed: maphash.MakeSeed(), byKey: map[budget.KeyID]*localEntry{}, wake: make(chan struct{}, 1)}
}

// find returns the entry of a name, or nil.
func (t *localTable) find(name []byte) (e *localEntry, hash uint64) {
	hash = maphash.Bytes(t.seed, name)
	at := hash % uint64(len(t.sets))
	tags, tag := t.tags[at].all.Load(), tagOf(hash)
	for i := range localWays {
		if uint8(tags>>(8*i)) != tag {
			continue
		}
		if e := t.sets[at][i].Load(); e != nil && e.hash == hash && e.name == string(name) {
			return e, hash
		}
	}
	return nil, hash
}

// ofKey returns the entry of a key, or nil.
func (t *localTable) ofKey(key budget.KeyID) *localEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// admit returns the entry of a name. It creates one if the key has come often enough recently and a
// place is free, or has an idle key that came less often. Otherwise it returns nil.
func (t *localTable) admit(name []byte, key budget.KeyID, now budget.Instant) *localEntry {
	if len(name) > localName {
		return nil
	}
	e, hash := t.find(name)
	if e != nil {
		return e
	}
	count := t.sketch.add(hash)
	if count < localWorth {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, _ := t.find(name); e != nil {
		return e
	}
	place, free := t.room(hash, count, now)
	if !free {
		return nil
	}
	t.made++
	e = &localEntry{hash: hash, name: string(name), key: key, number: t.made}
	t.byKey[key] = e
	at := hash % uint64(len(t.sets))
	t.sets[at][place].Store(e)
	t.tags[at].put(place, tagOf(hash))
	return e
}

// room returns a free place in the set of a hash, and evicts an entry for it if necessary. free is
// false if there is no such place. The caller holds mu.
func (t *localTable) room(hash uint64, count uint32, now budget.Instant) (place int, free bool) {
	set := &t.sets[hash%uint64(len(t.sets))]
	var out *localEntry
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

func (e *localEntry) idle(now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.active && !e.claimed && e.chunk.Idle(now)
}

// evict removes an entry if it is still idle. The caller holds mu.
func (t *localTable) evict(e *localEntry, now budget.Instant) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active || e.claimed || !e.chunk.Idle(now) {
		return false
	}
	e.gone = true
	delete(t.byKey, e.key)
	return true
}

// evictIdle removes all idle entries, so that they do not keep the former rules of their latest
// checks in memory.
func (t *localTable) evictIdle(now budget.Instant) {
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

// end ends all chunks and memories. drop also voids the chunks, because the store's contents are
// others. After it has returned, no check is decided by what was known before.
func (t *localTable) end(drop bool) {
	t.turn.Add(1)
	for i := range t.sets {
		for j := range t.sets[i] {
			e := t.sets[i][j].Load()
			if e == nil {
				continue
			}
			e.mu.Lock()
			if drop {
				e.chunk.Drop()
			} else {
				e.chunk.End()
			}
			e.mu.Unlock()
		}
	}
	t.nudge()
}

// activate puts an entry on the list of entries that upkeep visits. The caller holds e.mu.
func (t *localTable) activate(e *localEntry) {
	if e.active {
		return
	}
	e.active = true
	t.activeMu.Lock()
	t.active = append(t.active, e)
	t.activeMu.Unlock()
}

// nudge makes upkeep run now.
func (t *localTable) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// appendName appends the name of a key in the table: the number of its rule, the namespace, and the
// values of the rule's key.
func appendName(dst []byte, number uint32, rule *rules.Rule, r *request) []byte {
	namespace := r.namespace
	if namespace == "" {
		namespace = rules.DefaultNamespace
	}
	dst = binary.BigEndian.AppendUint32(dst, number)
	dst = append(dst, byte(len(namespace)))
	dst = append(dst, namespace...)
	return r.keyValues(rule, dst)
}

// takeActive returns the list of active entries and empties it.
func (t *localTable) takeActive() []*localEntry {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	active := t.active
	t.active = nil
	return active
}

// putActive puts entries that are still active back on the list, before those that were added
// meanwhile.
func (t *localTable) putActive(kept []*localEntry) {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	t.active = append(kept, t.active...)
}

// activeKeys returns the number of active entries.
func (t *localTable) activeKeys() int {
	t.activeMu.Lock()
	defer t.activeMu.Unlock()
	return len(t.active)
}

// keys returns the number of entries.
func (t *localTable) keys() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byKey)
}

// named returns the id of an earlier denial of the key that also stands for a denial at now; empty
// if there is none.
func (e *localEntry) named(now budget.Instant) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.denial == "" || now.Sub(e.deniedAt) >= chunk.Life {
		return ""
	}
	return e.denial
}

func (e *localEntry) rememberDenial(denial string, now budget.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.denial, e.deniedAt = denial, now
}
