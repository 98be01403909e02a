package regional

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"aliquot/budget"
	"aliquot/internal/abuse"
)

const (
	// hotShown is how many keys /hotkeys shows unless asked for more or fewer, mostShown
	// how many it and /held show at most.
	hotShown, mostShown = 20, 1000
	// hotLook is how often it is looked whether a key has become hot, hotAgain how long
	// after a key was logged the next one is.
	hotLook, hotAgain = time.Second, time.Minute
)

// hotKeyText is a key of /hotkeys: by its hash, as Explain and Redis key names have it,
// never by what a client sent.
type hotKeyText struct {
	Rule   string  `json:"rule"`
	Key    string  `json:"key_hash"`
	Checks float64 `json:"checks_per_second"`
	Denied float64 `json:"denied_per_second"`
	// Values are the key's attributes, where they were asked for and are remembered.
	Values string `json:"values,omitempty"`
}

// heldText is a client of /held.
type heldText struct {
	Rule  string    `json:"rule"`
	Key   string    `json:"key_hash"`
	State string    `json:"state"`
	Until time.Time `json:"until"`
}

// ruleNames are the ids of rules by their numbers in keys.
func (p *policy) ruleNames() map[uint32]string {
	out := make(map[uint32]string, len(p.numbers))
	for id, number := range p.numbers {
		out[number] = id
	}
	return out
}

// remember notes the values of a request's keys, if that was asked for.
func (c *conduct) remember(p *policy, r *request) {
	if c != nil {
		c.values.see(p, r)
	}
}

// hotKeys are the n keys that are checked most, with their values where these are asked for.
func (c *conduct) hotKeys(p *policy, n int, values bool) []hotKeyText {
	names := p.ruleNames()
	out := []hotKeyText{}
	for _, k := range c.hot.Top(n, c.now()) {
		out = append(out, hotKeyText{
			Rule: names[k.Key.Rule&^aloneBit], Key: hashText(k.Key.Hash), Checks: tenths(k.Checks), Denied: tenths(k.Denied),
		})
		if values {
			out[len(out)-1].Values = c.values.of(k.Key)
		}
	}
	return out
}

// tenths rounds a rate to what it is exact to at best.
func tenths(rate float64) float64 { return float64(int64(rate*10+0.5)) / 10 }

// held are the clients that are held back, mostShown at most, and how many there are.
func (c *conduct) held(p *policy) (shown []heldText, n int) {
	names, now, wall := p.ruleNames(), c.now(), time.Now()
	shown = []heldText{}
	c.clients.Each(p.conductTerms, now, func(h abuse.Held) {
		if n++; n <= mostShown {
			shown = append(shown, heldText{
				Rule: names[h.Key.Rule&^aloneBit], Key: hashText(h.Key.Hash), State: h.State.String(),
				Until: wall.Add(h.Until.Sub(now)).UTC().Truncate(time.Millisecond),
			})
		}
	})
	return shown, n
}

// conductTerms are those of a rule by its number in keys; of a rule that is gone they say
// nothing.
func (p *policy) conductTerms(number uint32) abuse.Terms { return p.byNumber[number&^aloneBit].conduct }

// handle serves what is known of keys and clients, for operators.
func (c *conduct) handle(mux *http.ServeMux, policies *policies, region string) {
	mux.HandleFunc("GET /hotkeys", func(w http.ResponseWriter, r *http.Request) {
		n := hotShown
		if asked := r.URL.Query().Get("n"); asked != "" {
			var err error
			if n, err = strconv.Atoi(asked); err != nil || n < 1 || n > mostShown {
				http.Error(w, "n must be a whole number from 1 to "+strconv.Itoa(mostShown), http.StatusBadRequest)
				return
			}
		}
		values := r.URL.Query().Get("values") == "true"
		switch {
		case values && c.values == nil:
			http.Error(w, "no values are remembered here; start the daemon with --remember-keys, such as 10000", http.StatusBadRequest)
			return
		case values:
			c.log.Info("the values of hot keys were asked for", "from", r.RemoteAddr)
		}
		writeJSON(w, map[string]any{"region": region, "keys": c.hotKeys(policies.load(), n, values)})
	})
	mux.HandleFunc("GET /held", func(w http.ResponseWriter, _ *http.Request) {
		shown, n := c.held(policies.load())
		writeJSON(w, map[string]any{"region": region, "held": n, "clients": shown})
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone: nobody to tell
}

// run logs keys that are checked more than atLeast times a second, until ctx ends.
func (c *conduct) run(ctx context.Context, policies *policies, atLeast int) {
	if atLeast == 0 {
		return
	}
	logged := map[budget.KeyID]time.Time{}
	for pause(ctx, hotLook) {
		c.logHot(policies.load(), float64(atLeast), logged, time.Now())
	}
}

// logHot logs the keys that are hot, each once in hotAgain; logged is when each was.
func (c *conduct) logHot(p *policy, atLeast float64, logged map[budget.KeyID]time.Time, now time.Time) {
	for key, at := range logged {
		if now.Sub(at) >= hotAgain {
			delete(logged, key)
		}
	}
	names := p.ruleNames()
	for _, k := range c.hot.Top(hotShown, c.now()) {
		if _, known := logged[k.Key]; known || k.Checks < atLeast {
			continue
		}
		logged[k.Key] = now
		if c.lines.Allow("", now) {
			c.log.Warn("a key is checked very often", "rule", names[k.Key.Rule&^aloneBit], "key_hash", hashText(k.Key.Hash),
				"checks_per_second", int64(k.Checks), "denied_per_second", int64(k.Denied))
		}
	}
}
