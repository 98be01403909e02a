package regional

import (
	"encoding/binary"
	"sync"

	"aliquot/budget"
	"aliquot/internal/abuse"
	"aliquot/internal/chunk"
)

// namedKeys is how many keys' latest names are kept; two that fall on one place take turns,
// and each denial has a name of its own then.
const namedKeys = 1024

// denialNames has the denials of a client that is held back, or on the blacklist, and all denials
// while the rules are not known, share one
// name for a chunk's life, as those from memory do: such a client may ask as often as it
// likes, and would push the denials of all others out of what is remembered. The zero value
// has none. Safe for concurrent use.
type denialNames struct {
	mu    sync.Mutex
	names [namedKeys]denialName
}

type denialName struct {
	key budget.KeyID
	id  string
	at  budget.Instant
}

// place is where a key's name is. The caller holds mu.
func (n *denialNames) place(key budget.KeyID) *denialName {
	return &n.names[binary.BigEndian.Uint64(key.Hash[:])%namedKeys]
}

// named is the name of an earlier denial that stands for one of the key at now; empty if
// there is none.
func (n *denialNames) named(key budget.KeyID, now budget.Instant) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.place(key); p.key == key && now.Sub(p.at) < chunk.Life {
		return p.id
	}
	return ""
}

// remember takes a denial's name for those of its key that follow.
func (n *denialNames) remember(key budget.KeyID, id string, now budget.Instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.place(key) = denialName{key: key, id: id, at: now}
}

// shut is the key of a client that is denied whatever its limits hold; false if it is not.
func (d *decision) shut(r *request) (key budget.KeyID, ok bool) {
	if d.mode == modeNoRulesYet {
		return budget.KeyID{Rule: blockerRule}, true
	}
	if d.mode == modeBlockList {
		return budget.KeyID{Rule: blockerRule, Hash: d.policy.hasher.Key(r.namespace, []byte(r.attributes.Get("api_key")))}, true
	}
	for i := range d.never {
		if d.never[i].held != abuse.Free {
			return d.never[i].key, true
		}
	}
	return budget.KeyID{}, false
}
