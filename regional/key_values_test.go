package regional

import (
	"net/http"
	"testing"
)

// A daemon that was told to remember values tells whose a hot key is, to a client that reaches its ops
// listener and asks for it; another one has nothing to tell.
func TestValuesOfHotKeys(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		var page struct{ Keys []hotKeyOf }
		l := newLeader(t, watchedRules)
		c := testConfig(l.address())
		c.RememberKeys = 2
		d, _ := startLive(t, c)
		for range 160 { // one in 16 is looked at
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
	})
}
