package keywatch

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"aliquot/budget"
	"aliquot/internal/penalty"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
)

const (
	// hotShown is how many keys /hotkeys shows by default. mostShown is the maximum that /hotkeys
	// and /held show.
	hotShown, mostShown = 20, 1000
	// hotLook is the interval at which hot keys are looked for. hotAgain is how long after a key
	// was logged it may be logged again.
	hotLook, hotAgain = time.Second, time.Minute
)

// hotKeyText is a key of /hotkeys. It is named by its hash, as in Explain and in Redis key names,
// and never by a client's text.
type hotKeyText struct {
	Rule   string  `json:"rule"`
	Key    string  `json:"key_hash"`
	Checks float64 `json:"checks_per_second"`
	Denied float64 `json:"denied_per_second"`
	// Values are the key's attributes, if the request asked for them and they are remembered.
	Values string `json:"values,omitempty"`
}

// heldText is a client of /held.
type heldText struct {
	Rule  string    `json:"rule"`
	Key   string    `json:"key_hash"`
	State string    `json:"state"`
	Until time.Time `json:"until"`
}

// Remember keeps the values of a request's keys, if the daemon is set to remember values.
func (c *Watch) Remember(p *policy.Policy, r *charge.Request) {
	if c != nil {
		c.values.see(p, r)
	}
}

// hotKeys returns the n keys with the most checks, with their values if values is true.
func (c *Watch) hotKeys(p *policy.Policy, n int, values bool) []hotKeyText {
	names := p.RuleNames()
	out := []hotKeyText{}
	for _, k := range c.hot.Top(n, c.now()) {
		out = append(out, hotKeyText{
			Rule: names[k.Key.Rule&^policy.IndependentBit], Key: charge.HashText(k.Key.Hash), Checks: tenths(k.Checks), Denied: tenths(k.Denied),
		})
		if values {
			out[len(out)-1].Values = c.values.of(k.Key)
		}
	}
	return out
}

// tenths rounds a rate to the precision that it has at best.
func tenths(rate float64) float64 { return float64(int64(rate*10+0.5)) / 10 }

// held returns the clients that are held back, at most mostShown, and how many there are.
func (c *Watch) held(p *policy.Policy) (shown []heldText, n int) {
	names, now, wall := p.RuleNames(), c.now(), time.Now()
	shown = []heldText{}
	c.clients.Each(p.ConductTerms, now, func(h penalty.Held) {
		if n++; n <= mostShown {
			shown = append(shown, heldText{
				Rule: names[h.Key.Rule&^policy.IndependentBit], Key: charge.HashText(h.Key.Hash), State: h.State.String(),
				Until: wall.Add(h.Until.Sub(now)).UTC().Truncate(time.Millisecond),
			})
		}
	})
	return shown, n
}

// Handle serves the state of keys and clients, for operators.
func (c *Watch) Handle(mux *http.ServeMux, policies *policy.Policies, region string) {
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
		writeJSON(w, map[string]any{"region": region, "keys": c.hotKeys(policies.Load(), n, values)})
	})
	mux.HandleFunc("GET /held", func(w http.ResponseWriter, _ *http.Request) {
		shown, n := c.held(policies.Load())
		writeJSON(w, map[string]any{"region": region, "held": n, "clients": shown})
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has gone
}

// Run logs keys with more than atLeast checks a second, until ctx ends.
func (c *Watch) Run(ctx context.Context, policies *policy.Policies, atLeast int) {
	if atLeast == 0 {
		return
	}
	logged := map[budget.KeyID]time.Time{}
	for background.Pause(ctx, hotLook) {
		c.LogHot(policies.Load(), float64(atLeast), logged, time.Now())
	}
}

// LogHot logs the hot keys, each at most once every hotAgain. logged holds when each was logged.
func (c *Watch) LogHot(p *policy.Policy, atLeast float64, logged map[budget.KeyID]time.Time, now time.Time) {
	for key, at := range logged {
		if now.Sub(at) >= hotAgain {
			delete(logged, key)
		}
	}
	names := p.RuleNames()
	for _, k := range c.hot.Top(hotShown, c.now()) {
		if _, known := logged[k.Key]; known || k.Checks < atLeast {
			continue
		}
		logged[k.Key] = now
		if c.lines.Allow("", now) {
			c.log.Warn("a key is checked very often", "rule", names[k.Key.Rule&^policy.IndependentBit], "key_hash", charge.HashText(k.Key.Hash),
				"checks_per_second", int64(k.Checks), "denied_per_second", int64(k.Denied))
		}
	}
}
