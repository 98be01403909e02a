package recall

import (
	"iter"
	"math/bits"

	"aliquot/budget"
)

// entries remembers an entry for each of many keys, in blocks. It is a hash table of its own: to make room it looks at the
// keys that lie beside each other, which a map cannot tell, and a map beside the blocks would hold each key twice. Entries
// never move. They have no pointers, so the garbage collector does not scan them. The key that was looked for last is found
// or missed again at once: a call looks for its key several times. The zero value is empty. It is not safe for concurrent
// use.
type entries struct {
	// index finds the keys by open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3,
	// section 6.4, algorithm L). Its length is a power of two.
	index  []cell
	blocks [][]box
	free   []int32 // places of keys that were deleted
	used   int32   // places that were ever given out
	n      int     // keys
	hand   int32   // the place that some looks at next
	// last was looked for last, if searched. It has the place at, or none.
	last     budget.KeyID
	at       int32
	searched bool
	// read is what warm has read last.
	read int
}

// none is the place of a key that has no entry.
const none = -1

// cell is one of the index. It has a part of the key's hash beside its place, so a search touches no box of another key: in
// a large table each of them is in no cache of the processor. The zero value is free.
type cell struct {
	hash  uint32
	place int32 // plus 1
}

// box is a place for a key.
type box struct {
	key   budget.KeyID
	taken bool
	entry
}

const (
	// blockSize is how many keys a block has.
	blockSize = 1024
	// smallIndex is the least length of an index.
	smallIndex = 64
)

// len returns the number of keys.
func (es *entries) len() int { return es.n }

// find returns the entry of a key, which may be changed until a key is put or deleted; nil: there is none.
func (es *entries) find(key budget.KeyID) *entry {
	if !es.searched || key != es.last {
		if es.n == 0 {
			return nil
		}
		at, _ := es.cell(key)
		es.last, es.at, es.searched = key, es.index[at].place-1, true
	}
	if es.at == none {
		return nil
	}
	return &es.of(es.at).entry
}

// warm reads the cells at which the searches for some keys begin, and then the boxes of the keys that it finds there. In a
// large table no two of them lie beside each other. Read in a row, the processor waits for memory twice, and not twice for
// each key.
func (es *entries) warm(keys []budget.KeyID) {
	if es.n == 0 {
		return
	}
	read := 0
	for i := range keys {
		read += int(es.index[es.home(hashOf(&keys[i]))].place)
	}
	for i := range keys {
		hash := hashOf(&keys[i])
		if c := es.index[es.home(hash)]; c.place > 0 && c.hash == hash {
			read += es.of(c.place - 1).ends()
		}
	}
	es.read = read // so that the compiler leaves nothing out
}

// ends reads where a box begins and where it ends, which is in the next line of the processor's cache.
func (b *box) ends() int { return int(b.key.Rule) + int(b.recent.length) }

func (es *entries) of(place int32) *box { return &es.blocks[place/blockSize][place%blockSize] }

// place returns the place of the key that was looked for last, for hint.
func (es *entries) place() int32 { return es.at + 1 }

// hint lets find need no search for a key that had this place; 0: it had none.
func (es *entries) hint(key budget.KeyID, place int32) {
	if place > 0 && place <= es.used {
		if b := es.of(place - 1); b.taken && b.key == key {
			es.last, es.at, es.searched = key, place-1, true
		}
	}
}

// hashOf returns a hash of a key. The first bits of it say at which cell the search for the key begins.
func hashOf(key *budget.KeyID) uint32 { return uint32(key.Spread() >> 32) }

// home returns the cell at which the search for a hash begins.
func (es *entries) home(hash uint32) int {
	return int(hash >> (32 - bits.TrailingZeros(uint(len(es.index)))))
}

// cell returns the cell of a key, or the free one where it belongs, and the key's hash.
func (es *entries) cell(key budget.KeyID) (at int, hash uint32) {
	hash = hashOf(&key)
	for at = es.home(hash); ; at = es.after(at) {
		if c := es.index[at]; c.place == 0 || c.hash == hash && es.of(c.place-1).key == key {
			return at, hash
		}
	}
}

func (es *entries) after(cell int) int { return (cell + 1) & (len(es.index) - 1) }

// has reports whether a key has an entry.
func (es *entries) has(key budget.KeyID) bool { return es.find(key) != nil }

// get returns the entry of a key; false: there is none.
func (es *entries) get(key budget.KeyID) (e entry, found bool) {
	if p := es.find(key); p != nil {
		return *p, true
	}
	return entry{}, false
}

// put sets the entry of a key, and returns it as find does.
func (es *entries) put(key budget.KeyID, e entry) *entry {
	p := es.find(key)
	if p == nil {
		p = es.add(key)
	}
	*p = e
	return p
}

// add gives a new key a place.
func (es *entries) add(key budget.KeyID) *entry {
	if 4*(es.n+1) > 3*len(es.index) {
		es.grow()
	}
	place := es.used
	if n := len(es.free); n > 0 {
		place, es.free = es.free[n-1], es.free[:n-1]
	} else {
		if int(place) == len(es.blocks)*blockSize {
			es.blocks = append(es.blocks, make([]box, blockSize))
		}
		es.used++
	}
	at, hash := es.cell(key)
	es.index[at] = cell{hash, place + 1}
	es.n++
	b := es.of(place)
	b.key, b.taken = key, true
	es.last, es.at, es.searched = key, place, true
	return &b.entry
}

// grow doubles the index. That takes some ten nanoseconds for each key.
func (es *entries) grow() {
	old := es.index
	es.index = make([]cell, max(smallIndex, 2*len(old)))
	for _, c := range old {
		if c.place == 0 {
			continue
		}
		at := es.home(c.hash)
		for es.index[at].place != 0 {
			at = es.after(at)
		}
		es.index[at] = c
	}
}

// delete removes a key, and reports whether it had an entry. It moves back the keys that lie behind it only because its
// cell was taken.
func (es *entries) delete(key budget.KeyID) bool {
	if es.n == 0 {
		return false
	}
	hole, _ := es.cell(key)
	place := es.index[hole].place - 1
	if place == none {
		return false
	}
	es.of(place).taken = false
	es.free, es.searched = append(es.free, place), false
	es.n--
	for at := es.after(hole); es.index[at].place != 0; at = es.after(at) {
		home := es.home(es.index[at].hash)
		if (at-home)&(len(es.index)-1) >= (at-hole)&(len(es.index)-1) {
			es.index[hole], hole = es.index[at], at
		}
	}
	es.index[hole] = cell{}
	return true
}

// clear removes all keys.
func (es *entries) clear() {
	clear(es.index)
	es.free, es.used, es.n, es.hand, es.searched = es.free[:0], 0, 0, 0, false
}

// all returns the keys with their entries. Entries of these keys may be put meanwhile.
func (es *entries) all() iter.Seq2[budget.KeyID, entry] {
	return func(yield func(budget.KeyID, entry) bool) {
		for at := range es.used {
			if b := es.of(at); b.taken && !yield(b.key, b.entry) {
				return
			}
		}
	}
}

// some returns the keys at the next n places, with their entries, which nobody may keep. One call goes on where the one
// before ended, and after the last place comes the first.
func (es *entries) some(n int) iter.Seq2[budget.KeyID, *entry] {
	return func(yield func(budget.KeyID, *entry) bool) {
		for range min(n, int(es.used)) {
			b := es.of(es.hand)
			if es.hand++; es.hand == es.used {
				es.hand = 0
			}
			if b.taken && !yield(b.key, &b.entry) {
				return
			}
		}
	}
}
