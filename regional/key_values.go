package regional

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/rules"
)

const (
	// maxRememberKeys bounds RememberKeys.
	maxRememberKeys = 100_000
	// maxRememberedText is how much is kept of the values of a key.
	maxRememberedText = 256
	// valueOneIn is which part of the requests is looked at: a key that is hot comes often.
	valueOneIn = 16
)

// keyValues remembers what clients sent of the keys that were asked about, so that an operator
// can tell whose a hash is. It has the latest keys, as many as it was made for; a nil one
// remembers nothing. It is in memory alone. Safe for concurrent use.
type keyValues struct {
	mu     sync.Mutex
	values map[budget.KeyID]string
	order  []budget.KeyID // the ring of those that are known
	next   int
	most   int
}

// newKeyValues remembers so many keys; nil of 0.
func newKeyValues(most int) *keyValues {
	if most == 0 {
		return nil
	}
	return &keyValues{values: make(map[budget.KeyID]string), most: most}
}

// see looks at some of the requests.
func (k *keyValues) see(p *policy, r *request) {
	if k == nil || rand.Uint32()%valueOneIn != 0 || !p.known() {
		return
	}
	_, matched := p.set.Match(r.attributes, time.Now().UnixMilli(), nil)
	for _, m := range matched {
		id := budget.KeyID{Rule: p.numbers[m.Rule.ID], Hash: p.hasher.Key(r.namespace, rules.KeyValues(m.Rule, r.attributes, nil))}
		k.remember(id, m.Rule, r)
	}
}

func (k *keyValues) remember(id budget.KeyID, of *rules.Rule, r *request) {
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

// valuesText is the attributes of a rule's key, such as api_key="sk_1".
func valuesText(of *rules.Rule, r *request) string {
	parts := make([]string, 0, len(of.Key)+1)
	if r.namespace != "" && r.namespace != "default" {
		parts = append(parts, "namespace="+strconv.Quote(r.namespace))
	}
	for _, name := range of.Key {
		parts = append(parts, name+"="+strconv.Quote(r.attributes.Get(name)))
	}
	text := strings.Join(parts, " ")
	if len(text) > maxRememberedText {
		text = strings.ToValidUTF8(text[:maxRememberedText], "") + "..."
	}
	return text
}

// of is what is known of a key; "" if nothing is.
func (k *keyValues) of(id budget.KeyID) string {
	if k == nil {
		return ""
	}
	id.Rule &^= aloneBit
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[id]
}
