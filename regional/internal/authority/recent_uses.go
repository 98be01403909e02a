package authority

import (
	"iter"

	"aliquot/budget"
)

// The keys whose unreported use is remembered lie in sets of a few. A key can only be in one set, which its hash names.
const (
	keysPerSet = 8
	useSets    = 128 // a power of two
	// maxUnreported is the largest number of such keys.
	maxUnreported = keysPerSet * useSets
)

// recentUses remembers the use of the keys that were used last, maxUnreported at most. It is a set-associative cache, as
// those of processors are: a new key takes the place of the one in its set that was used longest ago. So each key costs
// one look at a set, also if it never comes again, where two maps cost four. A set may be full while others have room: four
// of 500 keys are forgotten on average, and 130 of 1,000. The zero value is empty. It is not safe for concurrent use.
type recentUses struct {
	sets []useSet
	uses []keyUse // those of the first set first
	n    int
	used uint32 // how often a key was used
}

// useSet has what is needed to find a key of a set, in one line of the processor's cache.
type useSet struct {
	// tags are parts of the keys' hashes; 0: the place is free.
	tags [keysPerSet]uint32
	// used is recentUses.used when each key was used.
	used [keysPerSet]uint32
}

// keyUse is a key with its use.
type keyUse struct {
	key budget.KeyID
	spentUse
}

// len returns the number of keys.
func (r *recentUses) len() int { return r.n }

// home returns the set of a key, and its tag there.
func home(k *budget.KeyID) (set int, tag uint32) {
	h := k.Spread()
	return int(h >> 32 % useSets), uint32(h>>39) | 1
}

// find returns the use of a key, which may be changed until another key is added; nil: it is not known.
func (r *recentUses) find(k budget.KeyID) *spentUse {
	if r.n == 0 {
		return nil
	}
	at, i := r.place(&k)
	if i < 0 {
		return nil
	}
	r.used++
	r.sets[at].used[i] = r.used
	return &r.uses[at*keysPerSet+i].spentUse
}

// place returns where a key is in its set; -1: nowhere.
func (r *recentUses) place(k *budget.KeyID) (set, i int) {
	set, tag := home(k)
	for i, t := range r.sets[set].tags {
		if t == tag && r.uses[set*keysPerSet+i].key == *k {
			return set, i
		}
	}
	return set, -1
}

// add gives an unknown key a place, and returns its use of nothing as find does.
func (r *recentUses) add(k budget.KeyID) *spentUse {
	if r.sets == nil {
		r.sets, r.uses = make([]useSet, useSets), make([]keyUse, maxUnreported)
	}
	at, tag := home(&k)
	set, oldest := &r.sets[at], 0
	for i, t := range set.tags {
		if t == 0 {
			oldest = i
			r.n++
			break
		}
		if r.used-set.used[i] > r.used-set.used[oldest] {
			oldest = i
		}
	}
	r.used++
	set.tags[oldest], set.used[oldest] = tag, r.used
	use := &r.uses[at*keysPerSet+oldest]
	*use = keyUse{key: k}
	return &use.spentUse
}

// hasRoom reports whether an unknown key can be added without another one being forgotten.
func (r *recentUses) hasRoom(k budget.KeyID) bool {
	if r.sets == nil {
		return true
	}
	at, _ := home(&k)
	for _, t := range r.sets[at].tags {
		if t == 0 {
			return true
		}
	}
	return false
}

// delete forgets a key.
func (r *recentUses) delete(k budget.KeyID) {
	if r.n == 0 {
		return
	}
	if set, i := r.place(&k); i >= 0 {
		r.sets[set].tags[i] = 0
		r.n--
	}
}

// all returns the keys with their uses, which may be changed. Keys may be deleted meanwhile.
func (r *recentUses) all() iter.Seq2[budget.KeyID, *spentUse] {
	return func(yield func(budget.KeyID, *spentUse) bool) {
		for at := range r.uses {
			if u := &r.uses[at]; r.sets[at/keysPerSet].tags[at%keysPerSet] != 0 && !yield(u.key, &u.spentUse) {
				return
			}
		}
	}
}
