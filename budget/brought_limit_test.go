package budget

import (
	"testing"
	"time"
)

// brings lets requests bring the key's limit: a store that is not told it does not know it.
func (w *world) brings() {
	w.records = func(i int, c ShareChange) ShareResult {
		switch {
		case c.Limit.Capacity == 0:
			return ShareResult{Key: c.Key, Unenforced: !c.Cold}
		case w.rights != nil:
			return w.storeRights(i, c)
		}
		return w.storeBucket(i, c)
	}
}

// otherRules puts a version of the rules in force that leaves the limits of all rules as they were, or of none.
func (w *world) otherRules(version uint64, same bool) {
	w.rules = RulesState{Version: version}
	for i, r := range w.regions {
		w.act(i, r.Step(RulesReplaced{Rules: w.rules, Same: func(uint32) bool { return same }}, w.now))
	}
	ev := w.rulesChanged(version)
	ev.Tail = func(uint32) time.Duration { return MaxTail }
	w.lead(w.leader.Step(ev, w.now))
}

// Rules change while a region is idle that has used most of a limit. It tells its use by the limit that requests had
// brought, if the rule is as before. If not, it does so by the limit that the leader sends.
func TestUseOfABroughtLimitIsToldUnderNewRules(t *testing.T) {
	for _, same := range []bool{true, false} {
		w := hourly(t, 2, 90)
		w.brings()
		w.use(0, 60)
		w.otherRules(2, same)
		w.run(time.Second)
		w.load[1] = 3
		w.runUntil("b has what nobody uses", 10*time.Second, func() bool { return w.inUse(1) == 29 })
		w.load[1] = 0
		w.run(time.Hour)
		w.load[1] = 3
		w.runUntil("b has all once a's use has ended", 10*time.Second, func() bool { return w.inUse(1) >= 88 })
	}
}

// Rules change, and nobody uses a bucket any more whose limit requests had brought. It returns to cold.
func TestABucketOfABroughtLimitCoolsUnderNewRules(t *testing.T) {
	w := started(t, 2)
	w.brings()
	w.load[0] = 10
	w.run(5 * time.Second)
	if w.rate(0) < 900 {
		t.Fatalf("a was to borrow: %d per mille", w.rate(0))
	}
	w.load[0] = 0
	w.run(time.Second)
	w.otherRules(2, true)
	w.runUntil("the key is cold", time.Minute, func() bool { return w.ledger.Len() == 0 })
}

// A limit in an answer to a report by earlier rules is not taken for that of the present ones.
func TestALimitByEarlierRulesIsNotKept(t *testing.T) {
	w := started(t, 2)
	r, h := w.regions[0], &hotKey{}
	r.hot[w.key] = h
	act := Action{Key: w.key, Gen: Gen{Epoch: 9}, Limit: w.limit}
	for _, a := range []applying{{oldRules: true}, {noGrants: true}, {}} {
		r.applying = &a
		r.recordApplied(act, ShareResult{Key: w.key}, w.now)
		if kept := h.limit == w.limit; kept == (a.oldRules || a.noGrants) {
			t.Errorf("%+v: kept %t", a, kept)
		}
	}
}
