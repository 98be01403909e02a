package recall

import (
	"iter"

	"aliquot/budget"
)

// entries remembers an entry for each of many keys. The entries lie in blocks, because a map of them would take twice
// the memory. They have no pointers, so the garbage collector does not scan them. The key that was looked for last is
// found again without the map: a call looks for its key several times. The zero value is empty. It is not safe for
// concurrent use.
type entries struct {
	places map[budget.KeyID]int32
	blocks [][]entry
	free   []int32 // places of keys that were deleted
	used   int32   // places that were ever given out
	// last has the place at, if found.
	last  budget.KeyID
	at    int32
	found bool
}

// blockSize is how many entries a block has.
const blockSize = 1024

// len returns the number of keys.
func (es *entries) len() int { return len(es.places) }

// find returns the entry of a key, which may be changed until a key is put or deleted; nil: there is none.
func (es *entries) find(key budget.KeyID) *entry {
	if !es.found || key != es.last {
		at, found := es.places[key]
		if !found {
			return nil
		}
		es.last, es.at, es.found = key, at, true
	}
	return es.of(es.at)
}

func (es *entries) of(place int32) *entry { return &es.blocks[place/blockSize][place%blockSize] }

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
	if es.places == nil {
		es.places = map[budget.KeyID]int32{}
	}
	at := es.used
	if n := len(es.free); n > 0 {
		at, es.free = es.free[n-1], es.free[:n-1]
	} else {
		if int(at) == len(es.blocks)*blockSize {
			es.blocks = append(es.blocks, make([]entry, blockSize))
		}
		es.used++
	}
	es.places[key] = at
	es.last, es.at, es.found = key, at, true
	return es.of(at)
}

// delete removes a key.
func (es *entries) delete(key budget.KeyID) {
	if es.has(key) {
		delete(es.places, key)
		es.free, es.found = append(es.free, es.at), false
	}
}

// clear removes all keys.
func (es *entries) clear() {
	clear(es.places)
	es.free, es.used, es.found = es.free[:0], 0, false
}

// all returns the keys with their entries, in no order. Entries of these keys may be put meanwhile.
func (es *entries) all() iter.Seq2[budget.KeyID, entry] {
	return func(yield func(budget.KeyID, entry) bool) {
		for key, at := range es.places {
			if !yield(key, *es.of(at)) {
				return
			}
		}
	}
}
