package budget

import (
	"math"
	"testing"
	"time"
)

// TestSpareTokensReachWhoNeedsThem: what a refund cannot fit into one region comes to another
// region whose share grows. It comes once, and never exceeds what the limit has room for.
func TestSpareTokensReachWhoNeedsThem(t *testing.T) {
	w := started(t, 2)
	w.load = []int64{2, 2}
	w.runUntil("the key is hot in both regions", 5*time.Second, func() bool { return w.regions[0].hot[w.key] != nil && w.regions[1].hot[w.key] != nil })
	h, leader := w.regions[0].hot[w.key], w.leader.keys[w.key]
	released := h.released
	for _, wrong := range []Gen{{}, {Epoch: h.gen.Epoch, Counter: h.gen.Counter + 1}} {
		w.regions[0].Release(w.key, wrong, 5*microToken)
	}
	w.regions[0].Release(KeyID{Rule: 99}, h.gen, 5*microToken)
	if h.released != released {
		t.Fatalf("tokens of another share were released: %d", h.released-released)
	}
	pool, granted, gave := leader.pool, w.granted, w.released
	w.regions[0].Release(w.key, h.gen, 10*microToken)
	w.load = []int64{0, 20}
	w.runUntil("b has what a does not need", 10*time.Second, func() bool { return w.rate(1) >= 900 })
	got, most := w.granted-granted, pool+10*microToken+w.released-gave
	if got > most || got < most-microToken {
		t.Errorf("%d micro-tokens were granted; a gave up %d, 10 tokens came back, the pool had %d", got, w.released-gave, pool)
	}
}

// TestReleaseOfOlderRules: tokens of a limit by older rules that come back are lost.
func TestReleaseOfOlderRules(t *testing.T) {
	w := started(t, 2)
	w.load = []int64{2, 2}
	w.runUntil("the key is hot", 5*time.Second, func() bool { return w.regions[0].hot[w.key] != nil })
	h := w.regions[0].hot[w.key]
	w.regions[0].Step(RulesReplaced{}, w.now)
	before := h.released
	w.regions[0].Release(w.key, h.gen, microToken)
	if h.released != before {
		t.Error("they were counted")
	}
}

// TestRefundsAreReported with the usage, cumulative over a session.
func TestRefundsAreReported(t *testing.T) {
	w := started(t, 2)
	w.load = []int64{2, 2}
	w.runUntil("the key is hot", 5*time.Second, func() bool { return w.regions[0].hot[w.key] != nil })
	r := w.regions[0]
	r.Refund(w.key, 3*microToken)
	r.Refund(w.key, 4*microToken)
	r.Refund(KeyID{Rule: 99}, microToken)
	r.hot[w.key].mustAck = true
	for _, rep := range r.hotReports(nil, ReportKeyEvery, w.now) {
		if rep.Key == w.key && rep.Refunded != 7*microToken {
			t.Errorf("reported %d", rep.Refunded)
		}
	}
	if got := r.hot[w.key].refunded; got != 7*microToken {
		t.Errorf("%d refunded", got)
	}
}

// TestCountersAreBounded: a flood of denied requests of a very large cost does not end the region's
// session, and a leader still accepts the counters.
func TestCountersAreBounded(t *testing.T) {
	w := started(t, 2)
	w.load = []int64{2, 2}
	w.runUntil("the key is hot", 5*time.Second, func() bool { return w.regions[0].hot[w.key] != nil })
	r, session := w.regions[0], w.regions[0].Session()
	h := r.hot[w.key]
	for _, admitted := range []bool{true, false} {
		for range 10_000 {
			r.Observe(w.key, Usage{Limit: h.limit, Cost: 1e15, Admitted: admitted, Tokens: h.tokens}, w.now)
			r.Observe(KeyID{Rule: 2}, Usage{Limit: h.limit, Cost: 1e15, Admitted: admitted, ColdCap: 1e15}, w.now)
		}
	}
	r.Refund(w.key, math.MaxInt64)
	r.Refund(w.key, math.MaxInt64)
	if h.offered != maxCounted || h.admitted != maxCounted || h.refunded != maxCounted {
		t.Errorf("offered %d, admitted %d, refunded %d", h.offered, h.admitted, h.refunded)
	}
	if c := r.candidates[KeyID{Rule: 2}]; c.offered != maxCounted || c.admitted != maxCounted {
		t.Errorf("cold: offered %d, admitted %d", c.offered, c.admitted)
	}
	w.run(time.Second)
	if r.Session() != session {
		t.Errorf("session %v, it was %v", r.Session(), session)
	}
}
