package service

import (
	"maps"
	"slices"
	"sync"
)

// storeOwners remembers which contents of a store each region named last, to find regions that share a store by
// mistake. The zero value knows of none. It is safe for concurrent use.
type storeOwners struct {
	mu       sync.Mutex
	contents map[string]string // by region
}

// note records the contents that a region names in a Hello. It returns the first other region, by name, that named the
// same; empty if none did. Empty contents are not known, and shared with nobody.
func (o *storeOwners) note(region, contents string) (sharedWith string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.contents == nil {
		o.contents = map[string]string{}
	}
	o.contents[region] = contents
	if contents == "" {
		return ""
	}
	for _, other := range slices.Sorted(maps.Keys(o.contents)) {
		if other != region && o.contents[other] == contents {
			return other
		}
	}
	return ""
}
