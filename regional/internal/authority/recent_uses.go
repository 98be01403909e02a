package authority

import (
	"iter"
	"maps"

	"aliquot/budget"
)

// maxUnreported is the largest number of keys whose unreported use is remembered.
const maxUnreported = 1000

// recentUses remembers the use of the keys that were used last, maxUnreported at most. It is a map in two generations: the
// young one takes every key that is used, and becomes the old one when it has half of the most. The old one is forgotten
// then, all at once, which costs less than to choose single keys. The zero value is empty. It is not safe for concurrent use.
type recentUses struct {
	young, old map[budget.KeyID]spentUse
}

// len returns the number of keys.
func (r *recentUses) len() int { return len(r.young) + len(r.old) }

// full reports whether another key has others forgotten.
func (r *recentUses) full() bool { return len(r.young) == maxUnreported/2-1 && len(r.old) > 0 }

// get returns the use of a key.
func (r *recentUses) get(k budget.KeyID) (use spentUse, known bool) {
	if use, known = r.young[k]; !known && len(r.old) > 0 {
		use, known = r.old[k]
	}
	return use, known
}

// put sets the use of a key.
func (r *recentUses) put(k budget.KeyID, use spentUse) {
	if r.young == nil {
		r.young = map[budget.KeyID]spentUse{}
	}
	before := len(r.young)
	if r.young[k] = use; len(r.young) == before {
		return
	}
	delete(r.old, k)
	if len(r.young) == maxUnreported/2 {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
}

// delete forgets a key.
func (r *recentUses) delete(k budget.KeyID) {
	delete(r.young, k)
	delete(r.old, k)
}

// all returns the keys with their uses. Keys may be deleted meanwhile.
func (r *recentUses) all() iter.Seq2[budget.KeyID, spentUse] {
	return func(yield func(budget.KeyID, spentUse) bool) {
		for _, generation := range []map[budget.KeyID]spentUse{r.young, r.old} {
			for k, use := range generation {
				if !yield(k, use) {
					return
				}
			}
		}
	}
}

// change replaces each use by what a function makes of it; false: the key is forgotten.
func (r *recentUses) change(to func(spentUse) (use spentUse, keep bool)) {
	for _, generation := range []map[budget.KeyID]spentUse{r.young, r.old} {
		maps.DeleteFunc(generation, func(k budget.KeyID, use spentUse) bool {
			use, keep := to(use)
			if keep {
				generation[k] = use
			}
			return !keep
		})
	}
}
