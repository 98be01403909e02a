package sample

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
)

// takeEarly returns how often each API key came before the rules, and when it first did.
func takeEarly(s *Sample) (times map[string]int64, first map[string]budget.Instant) {
	times, first = map[string]int64{}, map[string]budget.Instant{}
	s.TakeEarly(func(r *charge.Request, n int64, at budget.Instant) {
		key := r.Attributes.Get("api_key")
		times[key], first[key] = n, at
	})
	return times, first
}

// TestEveryRequestBeforeTheRulesIsCounted, also of a client that is so busy that the sample has nothing of it. What was
// refused, and what came with rules, is not counted.
func TestEveryRequestBeforeTheRulesIsCounted(t *testing.T) {
	c := &recentClock{at: budget.Instant(time.Hour)}
	s := New(c.now)
	passes := &charge.Decision{Mode: modes.NoRulesYet, Policy: &policy.Policy{Open: true}}
	for i := range 100_000 {
		s.See(passes, askedBy("busy"))
		if i%1000 == 0 {
			s.See(passes, askedBy("calm"))
		}
		c.at += budget.Instant(time.Millisecond)
	}
	s.See(&charge.Decision{Mode: modes.NoRulesYet, Policy: &policy.Policy{}}, askedBy("refused"))
	s.See(&charge.Decision{Mode: modes.NoRule, Policy: &policy.Policy{}}, askedBy("later"))
	times, first := takeEarly(s)
	if len(times) != 2 || times["busy"] != 100_000 || times["calm"] != 100 {
		t.Errorf("counted %v", times)
	}
	if began := budget.Instant(time.Hour); first["busy"] != began || first["calm"] != began {
		t.Errorf("they came first at %v", first)
	}
	if again, _ := takeEarly(s); len(again) != 0 {
		t.Errorf("a second time %v", again)
	}
}

// TestFewRequestsBeforeTheRulesAreRemembered, however many clients come and however large their requests are.
func TestFewRequestsBeforeTheRulesAreRemembered(t *testing.T) {
	for _, large := range []int{0, 100 << 10} {
		var e early
		for i := range 2 * maxEarly / (1 + large>>10) {
			r := askedBy(fmt.Sprint(i, strings.Repeat("x", large)))
			r.Cost = limit.Token
			e.add(r, 0)
		}
		if len(e.seen) > maxEarly || e.bytes > maxEarlyBytes || len(e.seen) < 50 {
			t.Errorf("requests of %d bytes: %d are remembered, %d bytes", large, len(e.seen), e.bytes)
		}
	}
}
