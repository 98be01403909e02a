package budget

import (
	"testing"
	"time"
)

// ask returns a region's request for a key to become hot.
func ask(rule uint32, offered int64, rejecting bool) KeyReport {
	return KeyReport{
		Key: KeyID{Rule: rule}, Limit: KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken},
		Offered: offered * microToken, Rejecting: rejecting,
	}
}

// A freed place goes to the busiest of the keys that found the table full, and to none that has
// stopped asking.
func TestFreedPlacesGoToTheBusiest(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	l.maxHot = 2
	for rule, offered := range map[uint32]int64{1: 5, 2: 5} {
		l.wantHot(0, ask(rule, offered, true), w.now)
	}
	w.run(time.Second)
	if len(l.keys) != 2 || l.hasRoom(ask(3, 1, true)) {
		t.Fatalf("%d keys are hot", len(l.keys))
	}
	l.wantHot(0, ask(3, 1000, false), w.now) // asks once and never again
	w.run(refusedFor + time.Second)
	for rule := uint32(4); rule < 10; rule++ {
		l.wantHot(1, ask(rule, int64(rule), rule != 9), w.now)
	}
	l.wantHot(1, ask(4, 4, true), w.now)
	if l.Refused() != 7 || l.stats.Refused != 8 {
		t.Errorf("%d wait, %d were refused", l.Refused(), l.stats.Refused)
	}
	l.maxHot = 4
	w.run(time.Second)
	for rule, hot := range map[uint32]bool{1: true, 2: true, 3: false, 4: false, 6: false, 7: true, 8: true, 9: false} {
		if _, is := l.keys[KeyID{Rule: rule}]; is != hot {
			t.Errorf("key %d is hot: %v", rule, is)
		}
	}
	w.run(refusedFor)
	if len(l.waiting(w.now, nil)) != 0 {
		t.Errorf("%d still wait", l.Refused())
	}
}

func TestRefusedKeysAreBounded(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	l.maxHot = 0
	for rule := range uint32(3 * maxRefused) {
		l.wantHot(0, ask(rule+1, int64(rule), false), w.now)
		if l.Refused() > maxRefused {
			t.Fatalf("%d wait", l.Refused())
		}
	}
	if _, kept := l.refused[KeyID{Rule: 3 * maxRefused}]; !kept {
		t.Error("the busiest is forgotten")
	}
}

// A flood of keys of one rule leaves room for the keys of other rules. The keys that remain when it
// is over have the table to themselves again.
func TestFloodOfOneRuleLeavesRoomForOthers(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	l.maxHot = 10
	key := func(rule uint32, i int) KeyReport {
		rep := ask(rule, 1, true)
		rep.Key.Hash[0] = byte(i)
		return rep
	}
	for i := range 3 * l.maxHot {
		l.wantHot(0, key(1, i), w.now)
		w.run(tick)
	}
	if l.used() != 8 || l.held[1] != 8 {
		t.Fatalf("the flood holds %d of %d places", l.used(), l.maxHot)
	}
	for i := range 3 {
		l.wantHot(1, key(2, i), w.now)
	}
	w.run(time.Second)
	if len(l.keys) != 10 || l.held[2] != 2 {
		t.Errorf("%d keys are hot, %d of them of the rule that is not flooded", len(l.keys), l.held[2])
	}
	w.run(time.Minute)
	if len(l.keys) != 0 || len(l.held) != 0 {
		t.Errorf("%d keys are hot a minute after the last use; counted are %v", len(l.keys), l.held)
	}
}

// In a crowded table a key becomes hot when it is denied, not when half of its floor is used: most
// keys of a flood are never denied.
func TestEarlyWarningsAreNotHeardInACrowd(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	l.maxHot = 4
	for rule := uint32(1); rule <= 3; rule++ {
		l.wantHot(0, ask(rule, 1, false), w.now)
	}
	w.run(time.Second)
	if len(l.keys) != 2 {
		t.Fatalf("%d keys are hot", len(l.keys))
	}
	l.wantHot(0, ask(3, 2, true), w.now)
	w.run(time.Second)
	if l.keys[KeyID{Rule: 3}] == nil {
		t.Error("a key that is denied is not hot")
	}
	w.run(3 * minCoolAfter)
	l.wantHot(0, ask(4, 1, false), w.now)
	w.run(time.Second)
	if l.keys[KeyID{Rule: 4}] == nil {
		t.Error("a key that has used half of its floor is not hot, though there is room again")
	}
}

// Keys whose buckets take an hour to fill stay hot for minutes after their last use, but not in a
// crowded table. As many yield as are too many, and no more.
func TestUnusedKeysGiveWayInACrowd(t *testing.T) {
	for most, hot := range map[int]int{3: 1, 4: 1, 6: 2, 7: 3} {
		w := started(t, 2)
		l := w.leader
		l.maxHot = most
		for rule := range uint32(3) {
			rep := ask(rule+1, 1, true)
			rep.Limit = KeyLimit{Capacity: 5 * microToken, Rate: 5 * microToken / 3600}
			l.wantHot(0, rep, w.now)
		}
		w.run(time.Second)
		if len(l.keys) != 3 {
			t.Fatalf("%d of 3 keys are hot", len(l.keys))
		}
		w.run(3 * minCoolAfter)
		if len(l.keys) != hot {
			t.Errorf("with %d places %d of 3 keys are still hot, want %d", most, len(l.keys), hot)
		}
	}
}

// The count of cooling keys stays right however cooling ends: it is done, a region falls silent, or
// the rule is removed.
func TestCoolingKeysAreCounted(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	most := 0
	live := func(d time.Duration) {
		t.Helper()
		for range d / tick {
			w.run(tick)
			n := 0
			for _, key := range l.order {
				if key.cooling != hotKeyState {
					n++
				}
			}
			if l.cooling != n {
				t.Fatalf("at %v %d keys are counted and %d are on their way", w.now, l.cooling, n)
			}
			most = max(most, n)
		}
	}
	flood := func() {
		for rule := range uint32(3) {
			l.wantHot(0, ask(rule+1, 1, true), w.now)
		}
		live(time.Second)
	}
	until := func(cooling bool) {
		t.Helper()
		for limit := w.now.Add(time.Minute); (l.cooling > 0) != cooling; {
			if live(tick); w.now > limit {
				t.Fatalf("%d keys are on their way", l.cooling)
			}
		}
	}
	flood()
	live(2 * minCoolAfter)
	if len(l.keys) != 0 || most != 3 {
		t.Fatalf("%d of 3 keys are still hot, %d were on their way", len(l.keys), most)
	}
	flood()
	w.cut[1] = true
	live(minCoolAfter - 2*time.Second) // its lease ends when they have set out
	until(true)
	until(false)
	if len(l.keys) != 3 {
		t.Fatalf("%d of 3 keys are hot beside a silent region", len(l.keys))
	}
	w.cut[1] = false
	until(true)
	l.dropRules(func(rule uint32) bool { return rule != 2 })
	live(minCoolAfter)
	if len(l.keys) != 0 || l.cooling != 0 {
		t.Errorf("%d keys are hot, %d are on their way", len(l.keys), l.cooling)
	}
}

// While many requests stay unanswered a region repeats each of them less often.
func TestUnansweredRequestsSlowDown(t *testing.T) {
	r := NewRegion(0, Config{}, 1, Instant(time.Hour))
	if got := r.repeatAfter(); got != repeatCandidate {
		t.Errorf("few are repeated after %v", got)
	}
	r.asked = make([]*candidate, maxCandidates)
	if asks := float64(maxCandidates) / r.repeatAfter().Seconds(); asks > 2*asksAtOnce {
		t.Errorf("%.0f a second", asks)
	}
}
