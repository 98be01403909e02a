package budget

import (
	"testing"
	"time"
)

// ask is a region's request for a key to become hot.
func ask(rule uint32, offered int64, rejecting bool) KeyReport {
	return KeyReport{
		Key: KeyID{Rule: rule}, Limit: KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken},
		Offered: offered * microToken, Rejecting: rejecting,
	}
}

// A freed place goes to the busiest of those who found the table full, and nobody who
// has stopped asking.
func TestFreedPlacesGoToTheBusiest(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	l.most = 2
	for rule, offered := range map[uint32]int64{1: 5, 2: 5} {
		l.wantHot(0, ask(rule, offered, false), w.now)
	}
	w.run(time.Second)
	if len(l.keys) != 2 || !l.full() {
		t.Fatalf("%d keys are hot", len(l.keys))
	}
	l.wantHot(0, ask(3, 1000, false), w.now) // asks once and never again
	w.run(refusedFor + time.Second)
	for rule := uint32(4); rule < 10; rule++ {
		l.wantHot(1, ask(rule, int64(rule), rule == 5), w.now)
	}
	l.wantHot(1, ask(4, 4, false), w.now)
	if l.Refused() != 7 || l.stats.Refused != 8 {
		t.Errorf("%d wait, %d were refused", l.Refused(), l.stats.Refused)
	}
	l.most = 4
	w.run(time.Second)
	for rule, hot := range map[uint32]bool{1: true, 2: true, 3: false, 4: false, 5: true, 6: false, 8: false, 9: true} {
		if _, is := l.keys[KeyID{Rule: rule}]; is != hot {
			t.Errorf("key %d is hot: %v", rule, is)
		}
	}
	w.run(refusedFor)
	if len(l.waiting(w.now)) != 0 {
		t.Errorf("%d still wait", l.Refused())
	}
}

func TestRefusedKeysAreBounded(t *testing.T) {
	w := started(t, 2)
	l := w.leader
	l.most = 0
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
