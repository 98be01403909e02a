package policy

import (
	"encoding/base64"
	"sync"
	"time"

	"aliquot/limit"
	"aliquot/rules"
)

// Client is what a reservation keeps of its client for one rule: enough to find the client's limit under other
// rules, and not its API key.
type Client struct {
	// Hash is the ClientHash of its API key.
	Hash string
	// Override is the pattern of the override that applied to it, or empty. Wildcards are those of the rule then.
	Override  string
	Wildcards uint64
}

// ClientHash returns a keyed hash of an API key.
func ClientHash(h *rules.KeyHasher, apiKey string) string {
	sum := h.Key("", append([]byte("client\x00"), apiKey...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// namedBy returns a function that finds the API keys that overrides name, by ClientHash. It computes them when
// it is first called.
func namedBy(set *rules.Set, h *rules.KeyHasher) func() map[string]string {
	return sync.OnceValue(func() map[string]string {
		out := map[string]string{}
		for _, r := range set.Rules() {
			for i := range r.Overrides() {
				if o := &r.Overrides()[i]; o.NamesKey() {
					out[ClientHash(h, o.Pattern)] = o.Pattern
				}
			}
		}
		return out
	})
}

// LimitAgain returns the limit that a client has of a rule of the policy. It returns false if the client has no
// limit any more, or if nothing says which one it has.
func (p *Policy) LimitAgain(r *rules.Rule, c Client) (l limit.Limit, window time.Duration, ok bool) {
	if c.Hash == "" && len(r.Overrides()) > 0 { // an older daemon made it
		return l, 0, false
	}
	o, known := r.OverrideAgain(c.Override, c.Wildcards, func() (string, bool) {
		key, is := p.named()[c.Hash]
		return key, is
	}, p.unixMS)
	switch {
	case !known, o == nil && r.Unlimited, o != nil && o.Unlimited:
		return l, 0, false
	case o != nil:
		return o.Limit, o.Window, true
	}
	return r.Limit, r.Window, true
}

// SlotsAtLeast returns the smallest capacity and the longest window of a rule that counts slots, for a client whose
// limit is not known.
func SlotsAtLeast(r *rules.Rule) limit.Limit {
	l := r.Limit
	for i := range r.Overrides() {
		if o := &r.Overrides()[i]; !o.Unlimited {
			l.Capacity, l.Window = min(l.Capacity, o.Limit.Capacity), max(l.Window, o.Limit.Window)
		}
	}
	return l
}
