package explain

import (
	"encoding/binary"
	"sync"

	"aliquot/budget"
	"aliquot/internal/penalty"
	"aliquot/internal/prefetch"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
)

// namedKeys is for how many keys the latest id is kept. Two keys with the same place replace each
// other, and then each denial gets an id of its own.
const namedKeys = 1024

// denialNames lets denials share an id for a chunk's life, as denials from memory do. It serves
// clients that are held back or on the blacklist, and all denials while the rules are not known.
// Such a client may ask at any rate, and would push the denials of all others out of memory. The
// zero value has no ids. Safe for concurrent use.
type denialNames struct {
	mu    sync.Mutex
	names [namedKeys]denialName
}

// denialName is the id of a denial of a key at an instant.
type denialName struct {
	key budget.KeyID
	id  string
	at  budget.Instant
}

// place returns where a key's id is kept. The caller holds mu.
func (n *denialNames) place(key budget.KeyID) *denialName {
	return &n.names[binary.BigEndian.Uint64(key.Hash[:])%namedKeys]
}

// named returns the id of an earlier denial that a denial of the key at now may share, or an empty
// text if there is none.
func (n *denialNames) named(key budget.KeyID, now budget.Instant) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.place(key); p.key == key && now.Sub(p.at) < prefetch.Life {
		return p.id
	}
	return ""
}

// remember stores a denial's id for the following denials of its key.
func (n *denialNames) remember(key budget.KeyID, id string, now budget.Instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.place(key) = denialName{key: key, id: id, at: now}
}

// refusedClient returns the key of a client that is denied whatever its limits hold, and false if
// there is none.
func refusedClient(d *charge.Decision, r *charge.Request) (key budget.KeyID, ok bool) {
	if d.Mode == modes.NoRulesYet {
		return budget.KeyID{Rule: engine.BlockerRule}, true
	}
	if d.Mode == modes.BlockList {
		return budget.KeyID{Rule: engine.BlockerRule, Hash: d.Policy.Hasher.Key(r.Namespace, []byte(r.Attributes.Get("api_key")))}, true
	}
	for i := range d.Never {
		if d.Never[i].Held != penalty.Free {
			return d.Never[i].Key, true
		}
	}
	return budget.KeyID{}, false
}
