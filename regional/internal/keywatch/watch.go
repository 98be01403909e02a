// Package keywatch watches how keys behave: it counts the hot ones, and denies clients that a rule holds
// back.
package keywatch

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/penalty"
	"aliquot/internal/ratelog"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/telemetry"
	"aliquot/rules"
)

// Watch watches how keys behave. It counts the hot ones, and holds clients back if their rule
// says so. It runs before the store and never calls it. A nil Watch watches nothing. Safe for
// concurrent use.
type Watch struct {
	now     func() budget.Instant
	hot     *penalty.HotKeys
	clients penalty.Clients
	values  *keyValues
	metrics *telemetry.Metrics
	log     *slog.Logger
	lines   ratelog.Limiter
}

// New returns a watch that has seen nothing. It remembers the values of at most so many keys.
func New(now func() budget.Instant, remember int, m *telemetry.Metrics, log *slog.Logger) *Watch {
	return &Watch{now: now, hot: penalty.NewHotKeys(rand.Uint32), values: newKeyValues(remember), metrics: m, log: log}
}

// Hold denies a request that comes at now if one of its clients is held back. Then no limit is
// asked, and nothing is consumed anywhere.
func (c *Watch) Hold(d *charge.Decision, now budget.Instant) {
	if c != nil {
		d.Hold(now, func(a *charge.Charge) penalty.Hold { return c.arrives(a, now) })
	}
}

// HoldLocal does the work of Hold for a request whose limits are all in memory. It reports whether
// the request is denied.
func (c *Watch) HoldLocal(d *charge.Decision, l *charge.LocalPlan, s *charge.Scratch, now budget.Instant) bool {
	if c == nil {
		return false
	}
	for i, e := range l.Entries[:l.N] {
		m := &s.Matched[i]
		if !m.Rule.Watched() || m.Rule.Shadows(e.Key.Hash) {
			continue
		}
		a := charge.Charge{Planned: charge.Planned{Rule: m.Rule, Limit: m.Limit, Window: m.Window, Cost: l.Costs[i], Key: e.Key}}
		if h := c.arrives(&a, now); h.State != penalty.Free {
			d.Never = append(d.Never, a.HeldBack(h, now))
		}
	}
	return len(d.Never) > 0
}

// arrives counts a request at a watched limit, and returns whether its client is held back. A
// client that is not held back may be counted twice for one request.
func (c *Watch) arrives(a *charge.Charge, now budget.Instant) penalty.Hold {
	held := c.clients.Arrives(a.Key, policy.TermsOf(a.Rule), now)
	if held.Began {
		c.began(a.Rule, a.Key, held)
	}
	return held
}

// Look does the work of Hold for a request that only peeks.
func (c *Watch) Look(d *charge.Decision, now budget.Instant) {
	if c != nil {
		d.Hold(now, func(a *charge.Charge) penalty.Hold { return c.clients.Look(a.Key, policy.TermsOf(a.Rule), now) })
	}
}

// mostSeen bounds the checks of one key that are counted together.
const mostSeen = 1 << 16

// run is a number of consecutive checks of one key, of which all or none were denied.
type run struct {
	key    budget.KeyID
	denied bool
	times  int32
}

// Decided counts the decisions of requests at now.
func (c *Watch) Decided(decisions []charge.Decision, now budget.Instant) {
	if c == nil {
		return
	}
	var seen run
	for i := range decisions {
		c.requestDecided(&decisions[i], &seen, now)
	}
	c.seen(&seen, now)
}

// seen counts a run and empties it.
func (c *Watch) seen(r *run, now budget.Instant) {
	c.hot.SeenTimes(r.key, r.times, r.denied, now)
	r.times = 0
}

// checked adds a check to a run, or counts the run and begins another.
func (c *Watch) checked(key *budget.KeyID, denied bool, seen *run, now budget.Instant) {
	if seen.times > 0 && (seen.denied != denied || seen.key != *key || seen.times == mostSeen) {
		c.seen(seen, now)
	}
	if seen.times == 0 {
		seen.key, seen.denied = *key, denied
	}
	seen.times++
}

func (c *Watch) requestDecided(d *charge.Decision, seen *run, now budget.Instant) {
	for i := range d.Never {
		c.checked(&d.Never[i].Key, true, seen, now)
	}
	for i := range d.CachedVerdicts {
		c.limitDecided(&d.CachedVerdicts[i], seen, now)
	}
	for _, g := range d.Groups {
		for i := range g.Out {
			c.limitDecided(&g.Out[i], seen, now)
		}
	}
}

// limitDecided counts one limit's decision.
func (c *Watch) limitDecided(v *charge.Verdict, seen *run, now budget.Instant) {
	denied := !v.Decision.Allowed
	c.checked(&v.Key, denied, seen, now)
	// Only a denial by the limit itself is the client's fault. That a store is down is not, nor a
	// cost above the capacity.
	asked := v.Mode == modes.Store || v.Mode == modes.Local
	if !denied || v.Shadow || !v.Rule.Watched() || !asked || v.Decision.RetryAfter <= 0 || v.Never() {
		return
	}
	if held := c.clients.Denied(v.Key, policy.TermsOf(v.Rule), v.Decision.RetryAfter, now); held.Began {
		c.began(v.Rule, v.Key, held)
	}
}

// began counts and logs a cool-down or a block that begins.
func (c *Watch) began(r *rules.Rule, key budget.KeyID, h penalty.Hold) {
	c.metrics.HeldBack(r.ID, h.State)
	if h.State != penalty.Blocked || !c.lines.Allow("", time.Now()) {
		return
	}
	c.log.Warn("a client is blocked in this region, as its rule says: it went on although it was denied", "rule", r.ID,
		"key_hash", charge.HashText(key.Hash), "for", h.For, "after_denials", r.AutoBlock.After, "within", r.AutoBlock.Within)
}

// Export registers the state of keys and clients, read at each scrape.
func (c *Watch) Export(m *telemetry.Metrics, policies *policy.Policies, reg prometheus.Registerer) {
	labels := prometheus.Labels{"region": m.Region}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aliquot_hottest_key_checks_per_second", ConstLabels: labels,
			Help: "Checks a second of the key that is checked most.",
		}, func() float64 {
			for _, k := range c.hot.Top(1, c.now()) {
				return k.Checks
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aliquot_clients_held_back", ConstLabels: labels,
			Help: "Clients that are in a cool-down or a block of a rule.",
		}, func() float64 {
			n := 0
			c.clients.Each(policies.Load().ConductTerms, c.now(), func(penalty.Held) { n++ })
			return float64(n)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "aliquot_clients_forgotten_total", ConstLabels: labels,
			Help: "Denials that no rule's cool_down or auto_block counted, because there was no room beside clients that are held back.",
		}, func() float64 { return float64(c.clients.Refused()) }),
	)
}
