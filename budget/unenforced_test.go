package budget

import (
	"testing"
	"time"
)

// startedUnknown starts three regions, of which a is in use, and b does not know the rule until knows is set.
func startedUnknown(t *testing.T) (w *world, knows *bool) {
	w, knows = started(t, 3), new(bool)
	w.records = func(i int, c ShareChange) ShareResult {
		return ShareResult{Key: c.Key, Unenforced: i == 1 && !*knows && !c.Cold}
	}
	w.load[0] = 10
	return w, knows
}

// TestShareThatNoStoreHasIsNotGivenAway: a region whose rules do not have a key's rule keeps no
// record of its share. A daemon that learns the rule later would enforce the floor, so the floor
// stays reserved for it, in rate and burst, until its store has the share.
func TestShareThatNoStoreHasIsNotGivenAway(t *testing.T) {
	w, knows := startedUnknown(t)
	w.runUntil("c has lent its floor", 5*time.Second, func() bool { return w.rate(2) == 6 })
	w.run(3 * time.Second)
	floor := w.ledger.Config.Regions[1].Floor
	if got := w.ledger.Shares(w.key)[1]; got != floor {
		t.Errorf("b, whose store has no share, is covered by %+v; its floor is %+v", got, floor)
	}
	if w.rate(0) > 1000-333-6 {
		t.Errorf("a has %d per mille, though b may come to enforce its floor", w.rate(0))
	}
	if !w.allLive() {
		t.Error("a rule that one region does not know ended a lease")
	}
	*knows = true
	w.runUntil("b's store has the share, and a what b lends", 3*time.Second, func() bool { return w.rate(0) >= 980 })
}

// TestRuleThatIsGoneBlocksNothing: a region that does not know the rule of a key forgets the key
// as soon as the leader does.
func TestRuleThatIsGoneBlocksNothing(t *testing.T) {
	w, _ := startedUnknown(t)
	w.runUntil("b was told a share", 5*time.Second, func() bool { return w.regions[1].hot[w.key] != nil })
	w.load[0] = 0
	w.ledger.DropRules(func(uint32) bool { return false })
	w.lead(w.leader.Step(RulesChanged{Kept: func(uint32) bool { return false }, Version: 2}, w.now))
	w.runUntil("nobody has the key", 2*time.Second, func() bool {
		return len(w.regions[0].hot)+len(w.regions[1].hot)+len(w.regions[2].hot) == 0
	})
	w.run(time.Second)
	if len(w.regions[1].outlasting) != 0 || !w.allLive() {
		t.Errorf("%d keys are looked at still, all live: %v", len(w.regions[1].outlasting), w.allLive())
	}
}

// TestUseWithoutARecordIsToldOnce: what a region admits of a key while its store does not have the share is told beside
// the counters. The counters, which name no time, do not contain it once the store has the share.
func TestUseWithoutARecordIsToldOnce(t *testing.T) {
	w, knows := startedUnknown(t)
	r := w.regions[1]
	w.runUntil("b was told a share", 5*time.Second, func() bool { return r.hot[w.key] != nil })
	admit := func(tokens int64) {
		r.Observe(w.key, Usage{Limit: w.limit, Cost: tokens * microToken, Admitted: true}, w.now)
	}
	told := func() bool {
		_, told := r.Reports(w.key)
		return told
	}
	if told() {
		t.Error("the counters tell of a share that the store does not have")
	}
	admit(7)
	*knows = true
	w.runUntil("b's store has the share", 3*time.Second, told)
	admit(2)
	if got := r.hot[w.key].admitted; got != 2*microToken {
		t.Errorf("the counters tell of %d, want 2 tokens", got)
	}
}
