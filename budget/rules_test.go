package budget

import (
	"testing"
	"time"
)

// inForce puts a version of the rules with another limit in force in all regions but the ones left
// out.
func (w *world) inForce(version uint64, limit KeyLimit, without ...int) {
	w.limit = limit
	w.rules = RulesState{Version: version}
	for i, r := range w.regions {
		if len(without) == 0 || without[0] != i {
			r.Step(RulesReplaced{Rules: w.rules}, w.now)
		}
	}
	w.lead(w.leader.Step(w.rulesChanged(version), w.now))
}

// rulesChanged tells a leader of a version of the rules in which no limit has a longer tail than the key's.
func (w *world) rulesChanged(version uint64) RulesChanged {
	tail := w.limit.Tail
	return RulesChanged{
		Kept: func(uint32) bool { return true }, Version: version, Newest: version, Tail: func(uint32) time.Duration { return tail },
	}
}

// The tokens of a limit that was lowered are not handed out under the new one, neither those in the
// pool nor those in flight.
func TestTokensOfALoweredLimitAreVoid(t *testing.T) {
	w := lent(t)
	w.load[0] = 0
	w.run(4 * time.Second) // a's bucket is full
	key := w.leader.keys[w.key]
	key.pool = 50 * microToken // what a lender released a moment ago
	lowered := KeyLimit{Capacity: 30 * microToken, Rate: 10 * microToken, Placement: PlacementSplit}
	w.inForce(2, lowered)
	if key.pool != 0 {
		t.Errorf("the pool still holds %d", key.pool)
	}
	for i := range w.bank {
		w.bank[i] = 0 // everything is spent at once
	}
	before := w.granted
	w.load = []int64{0, 10, 0} // the share moves, by a limit that only b has used
	w.runUntil("b has the rate", 5*time.Second, func() bool { return w.rate(1) >= 900 })
	if got := w.granted - before; got > 10*microToken*5 {
		t.Errorf("%d micro-tokens arrived with the share, more than were earned", got)
	}
}

// An override that ends is like other rules, from the first region's report of it: the tokens that regions
// released under it are not handed out, and its limit goes out to no region.
func TestAnOverridesEndVoidsItsTokens(t *testing.T) {
	w := lent(t)
	w.load[0] = 0
	w.run(4 * time.Second)
	key := w.leader.keys[w.key]
	w.inForce(2, w.limit)
	w.load = []int64{0, 10, 0}
	w.runUntil("the limit is known again", 5*time.Second, func() bool { return key.limitNow().Capacity > 0 })
	w.rules.Ended, w.load = 1, []int64{0, 0, 0}
	for _, r := range w.regions {
		r.Step(RulesReplaced{Rules: w.rules}, w.now)
	}
	w.runUntil("a region reports the end", 5*time.Second, func() bool { return w.leader.rules == RulesState{2, 1} })
	if l := key.limitNow(); l != (KeyLimit{}) {
		t.Errorf("the regions are sent the limit %+v, which may be the override's", l)
	}
	key.pool = 50 * microToken
	w.leader.overridesEnded(RulesState{2, 2})
	if key.pool != 0 {
		t.Errorf("the pool still holds %d", key.pool)
	}
	key.pool = microToken
	if w.leader.overridesEnded(RulesState{2, 1}); key.pool != microToken {
		t.Error("the report of a region whose clock is behind voids the tokens again")
	}
	w.lead(w.leader.Step(w.rulesChanged(2), w.now))
	w.run(time.Second)
	if key.since != (RulesState{2, 2}) {
		t.Errorf("the key's tokens count from %+v after the rules were read again", key.since)
	}
}

// A region that still has older rules does not set a key's limit once another region has reported
// it by newer rules. What it releases does not count.
func TestTheLatestRulesSayWhatALimitIs(t *testing.T) {
	w := lent(t)
	old, lowered := w.limit, KeyLimit{Capacity: 60 * microToken, Rate: 20 * microToken}
	key := w.leader.keys[w.key]
	w.inForce(2, lowered, 0)
	w.leader.regions[0].rules, w.leader.regions[1].rules = RulesState{Version: 1}, RulesState{Version: 2}
	w.leader.learn(key, lowered, RulesState{Version: 2})
	w.leader.learn(key, old, RulesState{Version: 1})
	if key.limit != lowered {
		t.Errorf("the limit is %+v again", key.limit)
	}
	w.leader.learn(key, old, RulesState{Version: 3})
	if key.limit != old {
		t.Error("newer rules raise it")
	}
	kr := &key.regions[0]
	pool := key.pool
	rep := KeyReport{
		Key: w.key, Gen: kr.gen, Share: kr.sent, Admitted: kr.demand.admitted, Offered: kr.demand.offered,
		Released: kr.released + microToken, Tokens: 0,
	}
	w.leader.foldKey(0, w.leader.keys[rep.Key], rep, w.now, w.now)
	if key.pool != pool || kr.released != rep.Released {
		t.Errorf("tokens released by older rules: the pool went from %d to %d, seen %d of %d", pool, key.pool, kr.released, rep.Released)
	}
}

// TestADecisionByReplacedRules: a check began by rules that allowed more, and its decision comes after they were
// replaced, however long after. Its limit is not told under the present rules, nor put into the store with a share. A
// later one's is. A cold key that was to be asked for by the older limit is asked for by the present one.
func TestADecisionByReplacedRules(t *testing.T) {
	w := lent(t)
	r := w.regions[1]
	h := r.hot[w.key]
	cold := KeyID{Rule: w.key.Rule, Hash: [16]byte{9}}
	before := Usage{Limit: KeyLimit{Capacity: 2 * w.limit.Capacity, Rate: 2 * w.limit.Rate}, Cost: microToken}
	r.Observe(cold, before, w.now)
	now := Usage{Rules: RulesState{Version: 2, Ended: 1}, Limit: w.limit, Cost: microToken}
	r.Step(RulesReplaced{Rules: now.Rules}, w.now)
	offered := h.offered
	r.Observe(w.key, before, w.now.Add(time.Minute))
	r.Observe(cold, before, w.now.Add(time.Minute))
	if h.limit.Capacity != 0 || h.asked || h.offered != offered+microToken {
		t.Errorf("a decision of before: limit %+v, told: %v, %d asked for", h.limit, h.asked, h.offered-offered)
	}
	if out := r.candidateReports(nil, w.now); len(out) != 0 {
		t.Errorf("cold keys are asked for by limits of before: %+v", out)
	}
	r.Observe(w.key, now, w.now)
	r.Observe(cold, now, w.now)
	if h.limit != w.limit || !h.asked {
		t.Errorf("a decision of now: limit %+v, told: %v", h.limit, h.asked)
	}
	if out := r.candidateReports(nil, w.now); len(out) != 1 || out[0].Limit != w.limit {
		t.Errorf("a cold key's first request by the present rules asks %+v", out)
	}
}

// A region forgets what it knows of limits with the rules it came from. What it has released and
// not reported, or is about to release, is not counted.
func TestReplacedRulesVoidWhatIsOnItsWay(t *testing.T) {
	w := lent(t)
	r := w.regions[1]
	h := r.hot[w.key]
	h.limit = w.limit
	h.released += 5 * microToken // not reported yet
	r.applying = &applying{left: map[KeyID]Action{}}
	r.Step(RulesReplaced{}, w.now)
	if h.limit.Capacity != 0 || h.released != h.reportedReleased {
		t.Errorf("limit %+v, released %d, reported %d", h.limit, h.released, h.reportedReleased)
	}
	act := Action{Key: w.key, Gen: Gen{Epoch: 9}, Share: h.share}
	r.recordApplied(act, ShareResult{Key: w.key, Released: microToken}, w.now)
	if h.released != h.reportedReleased {
		t.Error("what the change under way released is counted")
	}
	r.applying = nil
	act.Granted = h.granted + microToken
	r.inFlight, r.session.open = noCall, true
	effects := r.apply(&applying{}, []Action{act}, w.now)
	if got := effects[0].(ApplyShares).Changes[0].Grant; got != 0 {
		t.Errorf("a grant of %d by older rules", got)
	}
	act.Granted += microToken
	effects = r.apply(&applying{}, []Action{act}, w.now)
	if got := effects[0].(ApplyShares).Changes[0].Grant; got != microToken {
		t.Errorf("the next directive brings %d", got)
	}
}

// A limit that is raised brings no tokens: shares stay, and only the limit that they are fractions
// of grows.
func TestRaisedLimitKeepsShares(t *testing.T) {
	w := lent(t)
	before := w.ledger.Shares(w.key)[0]
	w.inForce(2, KeyLimit{Capacity: 3000 * microToken, Rate: 1000 * microToken})
	granted := w.granted
	w.run(tick)
	if after := w.ledger.Shares(w.key)[0]; after.Rate < before.Rate-Unit/20 || w.granted != granted {
		t.Errorf("a's share went from %v to %v, %d granted", before, after, w.granted-granted)
	}
}
