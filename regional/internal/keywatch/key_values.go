package keywatch

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

const (
	// MaxRememberKeys caps RememberKeys.
	MaxRememberKeys = 100_000
	// maxRememberedText caps the text of one key's values, in bytes.
	maxRememberedText = 256
	// valueOneIn: one request in this many is examined. A hot key comes often enough to be found.
	valueOneIn = 16
)

// keyValues remembers which attribute values clients sent for the keys that were checked, so that
// an operator can see whose key a hash is. It holds the latest keys, up to the number that it was
// made for. A nil keyValues remembers nothing. The values stay in memory. Safe for concurrent use.
type keyValues struct {
	mu     sync.Mutex
	values map[budget.KeyID]string
	order  []budget.KeyID // a ring of the keys in values, the oldest at next once it is full
	next   int
	most   int
}

// newKeyValues returns a keyValues for at most that many keys, and nil for 0.
func newKeyValues(most int) *keyValues {
	if most == 0 {
		return nil
	}
	return &keyValues{values: make(map[budget.KeyID]string), most: most}
}

// see remembers the keys of a sample of the requests: one in valueOneIn.
func (k *keyValues) see(p *policy.Policy, r *charge.Request) {
	if k == nil || rand.Uint32()%valueOneIn != 0 || !p.Known() {
		return
	}
	_, matched := p.Set.Match(r.Attributes, time.Now().UnixMilli(), nil)
	for _, m := range matched {
		id := budget.KeyID{Rule: p.Numbers[m.Rule.ID], Hash: p.Hasher.Key(r.Namespace, rules.KeyValues(m.Rule, r.Attributes, nil))}
		k.remember(id, m.Rule, r)
	}
}

func (k *keyValues) remember(id budget.KeyID, of *rules.Rule, r *charge.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.values[id]; known {
		return
	}
	if len(k.order) < k.most {
		k.order = append(k.order, id)
	} else {
		delete(k.values, k.order[k.next])
		k.order[k.next] = id
		k.next = (k.next + 1) % k.most
	}
	k.values[id] = valuesText(of, r)
}

// valuesText returns the attributes of a rule's key, such as api_key="sk_1", cut to
// maxRememberedText.
func valuesText(of *rules.Rule, r *charge.Request) string {
	parts := make([]string, 0, len(of.Key)+1)
	if r.Namespace != "" && r.Namespace != "default" {
		parts = append(parts, "namespace="+strconv.Quote(r.Namespace))
	}
	for _, name := range of.Key {
		parts = append(parts, name+"="+strconv.Quote(r.Attributes.Get(name)))
	}
	text := strings.Join(parts, " ")
	if len(text) > maxRememberedText {
		text = strings.ToValidUTF8(text[:maxRememberedText], "") + "..."
	}
	return text
}

// of returns the remembered values of a key, or "" if there are none.
func (k *keyValues) of(id budget.KeyID) string {
	if k == nil {
		return ""
	}
	id.Rule &^= policy.IndependentBit
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[id]
}
