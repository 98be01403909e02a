package policy

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/regional/internal/telemetry"
)

// TestChangeOfAnUnknownLimit: a region whose rules do not have a key's rule keeps the record of
// its share by the limit that the leader tells. Without either there is no record.
func TestChangeOfAnUnknownLimit(t *testing.T) {
	log := limit.Limit{Algorithm: limit.SlidingLog, Capacity: limit.Token, Window: time.Second}
	p := Policy{byNumber: map[uint32]numbered{1: {algorithm: limit.SlidingLog, least: log}}}
	window := budget.KeyLimit{Capacity: 40e6, Rate: 10e6, Tail: 4 * time.Second}
	if _, l, ok := p.LimitOf(1, window); !ok || l.Window != 4*time.Second || l.Capacity != 40*limit.Token {
		t.Errorf("%+v, %t", l, ok)
	}
	if _, l, ok := p.LimitOf(1, budget.KeyLimit{}); !ok || l != log {
		t.Errorf("the rule's own: %+v, %t", l, ok)
	}
	queue := limit.Limit{Algorithm: limit.LeakyBucket, Capacity: 9 * limit.Token, Rate: limit.Rate{Micro: 1e6}}
	for _, told := range []limit.Limit{log, queue} {
		if _, l, ok := p.LimitOf(2, entitlement.KeyLimit(told)); !ok || l != told {
			t.Errorf("as told: %+v, %t, want %+v", l, ok, told)
		}
	}
	future := entitlement.KeyLimit(queue)
	future.Algorithm = 200
	for _, k := range []budget.KeyLimit{window, {}, {Capacity: 40e6, Rate: 10e6}, future, {Algorithm: 1}} {
		if _, l, ok := p.LimitOf(2, k); ok {
			t.Errorf("%+v was read as %+v without its rule", k, l)
		}
	}
}

// TestALimitThatRequestsBringIsNotKnown: what the rule says is not the limit of a key whose requests bring one, so without
// the leader's word none is known, and its share is not confirmed.
func TestALimitThatRequestsBringIsNotKnown(t *testing.T) {
	const text = "rules:\n  - id: r0\n    algorithm: sliding_window_log\n    request_limit: %s\n    params: {limit: 1000, window: 1h}\n"
	brought := limit.Limit{Algorithm: limit.SlidingLog, Capacity: 100 * limit.Token, Window: time.Hour}
	for allows, known := range map[string]bool{"allow": false, "ignore": true} {
		p, _, err := (&Policy{}).withRules(RuleText{Version: 1, YAML: fmt.Sprintf(text, allows), Numbers: map[string]uint32{"r0": 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, l, ok := p.LimitOf(1, budget.KeyLimit{}); ok != known {
			t.Errorf("%s: without a word %+v, %t", allows, l, ok)
		}
		if _, l, ok := p.LimitOf(1, entitlement.KeyLimit(brought)); !ok || l != brought {
			t.Errorf("%s: as told %+v, %t", allows, l, ok)
		}
	}
}

// TestRuleNumbersLeaveRoom: a number with the bit of the independent buckets would
// share one with another rule.
func TestRuleNumbersLeaveRoom(t *testing.T) {
	text := RuleText{Version: 1, YAML: "rules:\n  - id: r0\n    params: {capacity: 10, refill_rate: 1}\n", Numbers: map[string]uint32{"r0": IndependentBit}}
	if _, _, err := (&Policy{}).withRules(text); err == nil {
		t.Error("accepted")
	}
	text.Numbers["r0"]--
	if _, _, err := (&Policy{}).withRules(text); err != nil {
		t.Error(err)
	}
}

// TestWhatARuleWasIsForgottenInTime: nothing is remembered beyond what records could be kept for,
// nor more than some changes of one rule.
func TestWhatARuleWasIsForgottenInTime(t *testing.T) {
	now := budget.Instant(time.Hour)
	p := policies(&now)
	version := uint64(0)
	apply := func(rate int) {
		version++
		if err := p.SetRules(RuleText{Version: version, YAML: fmt.Sprintf("rules:\n  - id: r0\n    enforcement: strict\n    params: {capacity: 100, refill_rate: %d}\n", rate), Numbers: map[string]uint32{"r0": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	known := func() *entitlement.Change {
		r := p.Load().Set.Rule("r0")
		return p.Load().Changed(1, r, "k", r.Limit, now)
	}
	apply(100)
	if known() != nil {
		t.Fatalf("a first version has changed nothing: %+v", known())
	}
	apply(10)
	fast, slow := limit.Rate{Micro: 100e6}, limit.Rate{Micro: 10e6}
	if c := known(); c == nil || *c != (entitlement.Change{At: now, Slow: fast, Small: 100 * limit.Token, Cap: 100 * limit.Token, Rate: fast}) {
		t.Fatalf("%+v", c)
	}
	now = now.Add(15 * time.Second)
	if known() == nil {
		t.Error("a bucket of 100 fills in 10 s; it was forgotten after 15")
	}
	now = now.Add(2 * time.Second)
	if c := known(); c != nil {
		t.Errorf("after 17 s %+v is remembered", c)
	}
	apply(100)
	if c := known(); c == nil || c.Cap != limit.MaxTokens || c.Slow != slow {
		t.Errorf("raised, it is %+v", c)
	}
	for i := range 20 {
		apply(50 - i)
	}
	if got := len(p.Load().former[1].rules); got != mostFormer {
		t.Errorf("%d changes of one rule are remembered", got)
	}
	if c := known(); c == nil || c.Slow != (limit.Rate{}) || c.Cap != 0 {
		t.Errorf("of what went before nothing is known, but %+v", c)
	}
}

// policies returns those of one of three regions, whose clock is now.
func policies(now *budget.Instant) *Policies {
	p := New("us", false, func() budget.Instant { return *now }, slog.New(slog.DiscardHandler), telemetry.New("us", "test", prometheus.NewRegistry()))
	third := budget.Share{Rate: budget.Unit / 3, Burst: budget.Unit / 3}
	p.SetCluster(Cluster{ClusterID: "c", Secret: []byte("s"), Lease: time.Second, Regions: []Region{{Name: "us", Floor: third, Low: third}}})
	return p
}

// overridden returns the policies of one rule with overrides.
func overridden(t *testing.T, now *budget.Instant, overrides string) *Policies {
	t.Helper()
	p := policies(now)
	text := "rules:\n  - id: r0\n    enforcement: strict\n    params: {capacity: 100, refill_rate: 1}\n    override: {" + overrides + "}\n"
	if err := p.SetRules(RuleText{Version: 1, YAML: text, Numbers: map[string]uint32{"r0": 1}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// changed returns what is remembered of a client's limit.
func changed(p *Policies, client string, now budget.Instant) *entitlement.Change {
	r := p.Load().Set.Rule("r0")
	l, _ := r.LimitFor(client, p.Load().unixMS)
	return p.Load().Changed(1, r, client, l, now)
}

// TestAnOverrideEndsOnce: checks that read the clock before an override ended, and come later, do not bring it back. So
// nothing is forgotten of what other clients had.
func TestAnOverrideEndsOnce(t *testing.T) {
	now := budget.Instant(time.Hour)
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	p := overridden(t, &now, "vip: {capacity: 200, until: "+end.UTC().Format(time.RFC3339)+"}")
	for range 2 * mostFormer {
		p.At(end.UnixMilli())
		p.At(end.UnixMilli() - 40)
	}
	if got := len(p.Load().former[1].rules); got != 1 {
		t.Errorf("one override has ended, and %d changes are remembered", got)
	}
	if c := changed(p, "stranger", now); c != nil {
		t.Errorf("of a client without an override a change is remembered: %+v", c)
	}
	if changed(p, "vip", now) == nil {
		t.Error("nothing is remembered of the override")
	}
	p.At(end.UnixMilli() - setBack - 1)
	if got := p.Load().OverridesEnded; got != 0 {
		t.Errorf("the wall clock was set back by a minute, and %d overrides have ended", got)
	}
}

// TestOverridesThatEndWhileADaemonIsDown: each of them is remembered.
func TestOverridesThatEndWhileADaemonIsDown(t *testing.T) {
	now, at := budget.Instant(time.Hour), time.Now()
	ended := func(client string, ago time.Duration) string {
		return client + ": {capacity: 100, refill_rate: 100, until: " + at.Add(-ago).UTC().Format(time.RFC3339) + "}"
	}
	p := overridden(t, &now, ended("x", 20*time.Second)+", "+ended("y", 10*time.Second)+", "+ended("old", time.Hour))
	p.Restore(nil)
	fast := limit.Rate{Micro: 100e6}
	for _, client := range []string{"x", "y"} {
		if c := changed(p, client, now); c == nil || c.Rate != fast {
			t.Errorf("%s: %+v", client, c)
		}
	}
	for _, client := range []string{"old", "stranger"} {
		if c := changed(p, client, now); c != nil {
			t.Errorf("%s: %+v is remembered", client, c)
		}
	}
}

// A bucket remembers the smallest floor since a change that matters. Without such a change it is the present floor.
func TestTheSmallestFloorIsKept(t *testing.T) {
	low, floor := budget.Share{Rate: 1, Burst: 2}, budget.Share{Rate: 3, Burst: 4}
	for version, want := range map[uint64]budget.Share{0: floor, 7: low} {
		if got := (Region{Low: low, Floor: floor, FloorVersion: version}).Normal().Low; got != want {
			t.Errorf("change %d: %+v, want %+v", version, got, want)
		}
	}
}
