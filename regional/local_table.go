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
	// localKeys bounds the keys that a daemon decides from memory: 43 MiB, and their names.
	localKeys = 65_536
	// localName bounds a name: keys that take more are decided by the store.
	localName = 512
	// localWays are the places that one key may stand in.
	localWays = 8
	// localWorth is how often a key has to have come of late to get an entry: in a flood
	// of keys that come once, nothing is made for any of them.
	localWorth = 3
)

// localTable holds the keys that this daemon decides from memory. It is found in by what
// a request says, without the keyed hash that names the key in the store. Finding takes
// no lock; an entry has its own, which is held for a few additions. Safe for concurrent
// use.
type localTable struct {
	sets   [localKeys / localWays]localSet // first, so that a set is one line of the processor's cache
	tags   [localKeys / localWays]localTags
	seed   maphash.Seed
	sketch sketch

	// turn counts what ended all chunks.
	turn atomic.Uint64
	// lost is how often something that was borrowed ended before it was spent or back.
	lost atomic.Int64

	mu    sync.Mutex // of admission, and of what follows; taken before those of entries
	byKey map[budget.KeyID]*localEntry
	made  uint64

	activeMu sync.Mutex // taken after those of entries
	active   []*localEntry
	wake     chan struct{} // room for one: something is due before its time
}

// localSet are the places of one set.
type localSet [localWays]atomic.Pointer[localEntry]

// localTags are a byte of the hash of each entry of a set, in the order of its places: most
// of those that are not looked for need not be touched, which are far apart in memory. A tag
// changes a moment after its place does; who finds nothing meanwhile asks the store.
type localTags struct{ all atomic.Uint64 }

// tagOf is a byte of a hash that does not tell the set.
func tagOf(hash uint64) uint8 { return uint8(hash >> 56) }

// put gives a place its tag. The caller holds the table's mu.
func (t *localTags) put(place int, tag uint8) {
	at := 8 * place
	t.all.Store(t.all.Load()&^(0xff<<at) | uint64(tag)<<at)
}

// localEntry is one key. What stands above its lock does not change.
type localEntry struct {
	hash   uint64
	name   string
	key    budget.KeyID
	number uint64 // in the order of which several entries are locked

	mu    sync.Mutex
	gone  bool // it is not in the table any more
	chunk chunk.Key
	// rule and limit are as the latest check of the key had them; one by others asks the
	// store.
	rule   *rules.Rule
	limit  limit.Limit
	window time.Duration
	shadow bool
	// floorCap and coldCap are as the latest view had them.
	floorCap, coldCap limit.Tokens
	// active: it is in the table's list of those that have use to tell, or a chunk.
	active bool
	// landed is closed when no call is under way any more that may bring tokens here; nil
	// if nobody waits for that. claimed tells that one is about to be made, and shares that
	// others gain by waiting for it, as far as the latest showed.
	landed          chan struct{}
	claimed, shares bool
	stalled         bool // the latest call that ended, or was given up, had no answer
	// denial is the name that denials from memory have, since deniedAt.
	denial   string
	deniedAt budget.Instant
}

func newLocalTable() *localTable {
	return &localTable{seed: maphash.MakeSeed(), byKey: map[budget.KeyID]*localEntry{}, wake: make(chan struct{}, 1)}
}

// find returns the entry of a name, nil if there is none.
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

// ofKey is the entry of a key, nil if there is none.
func (t *localTable) ofKey(key budget.KeyID) *localEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// admit finds the entry of a name, or makes one if the key has come often enough of late
// and a place is free, or held by a key that is idle and came less often.
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

// room is a place in the set of a hash that is free, or is made so; false if there is none.
// The caller holds mu.
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

// evict ends an entry that is idle still. The caller holds mu.
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

// evictIdle ends all entries that are idle: what the rules were that their latest checks
// had nobody needs to keep for them.
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

// end ends all chunks and memories, and voids them if the store's contents are others.
// When it returns, no check is decided by what was known before.
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

// activate puts an entry on the list of those to look after. The caller holds e.mu.
func (t *localTable) activate(e *localEntry) {
	if e.active {
		return
	}
	e.active = true
	t.activeMu.Lock()
	t.active = append(t.active, e)
	t.activeMu.Unlock()
}

// nudge has what is due looked after now.
func (t *localTable) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// appendName appends what stands for a key in the table: the number of its rule, the
// namespace, and the values of the rule's key.
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
