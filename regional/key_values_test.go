package regional

import (
	"net/http"
	"testing"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// A daemon that was told to remember values tells whose a hot key is, to a client that reaches its ops
// listener and asks for it; another one has nothing to tell.
func TestValuesOfHotKeys(t *testing.T) {
	var page struct{ Keys []hotKeyText }
	l := newLeader(t, watchedRules)
	c := testConfig(l.address())
	c.RememberKeys = 2
	d, _ := startLive(t, c)
	for range 10 * valueOneIn { // one in so many is looked at
		check(t, d, "often")
	}
	if opsJSON(t, d, "/hotkeys", &page); len(page.Keys) == 0 || page.Keys[0].Values != "" {
		t.Errorf("values come unasked: %+v", page)
	}
	if opsJSON(t, d, "/hotkeys?values=true", &page); page.Keys[0].Values != `api_key="often"` {
		t.Errorf("%+v", page)
	}
	c = testConfig(l.address())
	d, _ = start(t, c)
	if status := opsJSON(t, d, "/hotkeys?values=true", &page); status != http.StatusBadRequest {
		t.Errorf("nothing is remembered: %d", status)
	}
}

// The table has so many keys and no more: the oldest go.
func TestValuesAreCapped(t *testing.T) {
	k := newKeyValues(2)
	of := &rules.Rule{Key: []string{"api_key"}}
	for n := range uint32(5) {
		k.remember(budget.KeyID{Rule: n}, of, &charge.Request{})
	}
	if len(k.values) != 2 || k.of(budget.KeyID{Rule: 4}) == "" || k.of(budget.KeyID{Rule: 3 | policy.IndependentBit}) == "" || k.of(budget.KeyID{Rule: 2}) != "" {
		t.Errorf("%v", k.values)
	}
	if newKeyValues(0).of(budget.KeyID{}) != "" {
		t.Error("none remembers something")
	}
}
