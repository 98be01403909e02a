package regional

import (
	"bytes"
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// TestASecondDaemonTellsWhatItAdmits: with its next Hello, for the watch over promises, since the
// answer to the one before.
func TestASecondDaemonTellsWhatItAdmits(t *testing.T) {
	l := newLeader(t, ruled(rules.Strict))
	l.set(func() { l.exclusive = true })
	c := withRedis(t, l)
	startKept(t, c)
	second, _ := start(t, copied(t, c, l.address()))
	eventually(t, "the second may spend", func() bool { return answers(t, second, "busy") > 2 && second.others.spends() })
	had := int64(burst(t, second, "cold")) * 1e6
	told := func() (sum int64) {
		l.set(func() {
			for _, h := range l.seconds {
				for _, k := range h.GetSpent() {
					if since := h.GetSpentSince(); since == 0 || since >= h.GetNonce() || k.GetLimit().GetCapacityMicro() == 0 {
						t.Errorf("it tells %v since %d", k, h.GetSpentSince())
					}
					sum += k.GetAdmittedMicro()
				}
			}
		})
		return sum
	}
	eventually(t, "what it admitted is told", func() bool { return told() > 0 })
	if got := told(); got > had {
		t.Errorf("it tells of %d, and admitted %d", got, had)
	}
}

// spentKey and spentLimit are what the tests of unreported spend of: 7 tokens, one a second.
func spentKey(i int) budget.KeyID { return budget.KeyID{Rule: uint32(i)} }

var spentLimit = budget.KeyLimit{Capacity: 7e6, Rate: 1e6}

// TestUnreported: a Hello tells nothing without an answer that ages count from, nor more keys than the
// most; what it told goes when it is answered, and what came meanwhile stays.
func TestUnreported(t *testing.T) {
	var u unreported
	at := func(s float64) budget.Instant { return budget.Instant(s * 1e9) }
	u.admit(spentKey(1), spentLimit, 3e6, at(1))
	u.refund(spentKey(1), 1e6)
	if since, spent := u.tell(); len(spent) != 0 || since != 0 {
		t.Errorf("before an answer: %v since %d", spent, since)
	}
	u.countFrom(4, at(3))
	u.admit(spentKey(1), spentLimit, 2e6, at(3.5))
	since, spent := u.tell()
	if k := spent[0]; since != 4 || k.Admitted != 5e6 || k.Refunded != 1e6 || k.Age != 2*time.Second {
		t.Errorf("%v since %d; 5 tokens since 2 s before the answer to 4, one given back", spent, since)
	}
	if _, spent := u.tell(); len(spent) != 1 || spent[0].Admitted != 5e6 {
		t.Errorf("again without an answer: %v", spent)
	}
	u.admit(spentKey(2), spentLimit, 1e6, at(4))
	u.countFrom(6, at(5))
	if _, spent := u.tell(); len(spent) != 1 || spent[0].Key != spentKey(2) {
		t.Errorf("after the answer: %v", spent)
	}
	for i := range maxUnreported + 5 {
		u.admit(spentKey(i), spentLimit, 1e6, at(6))
	}
	if _, spent := u.tell(); len(spent) != maxUnreported {
		t.Errorf("%d keys", len(spent))
	}
	u.admit(budget.KeyID{Rule: 1 | policy.IndependentBit}, spentLimit, 1e6, at(6))
	if len(u.keys) != 0 {
		t.Error("the limit of a region alone has no promise to watch")
	}
}

// TestUnreportedOfAKeyThatGetsHot: its first report tells what was admitted before, once.
func TestUnreportedOfAKeyThatGetsHot(t *testing.T) {
	var u unreported
	at := func(s float64) budget.Instant { return budget.Instant(s * 1e9) }
	u.admit(spentKey(1), spentLimit, 5e6, at(1))
	hot := budget.KeyReport{Key: spentKey(1), Gen: budget.Gen{Epoch: 1, Counter: 1}, Limit: spentLimit}
	candidate, unused := hot, hot
	candidate.Gen, unused.Limit = budget.Gen{}, budget.KeyLimit{}
	if out := u.report([]budget.KeyReport{candidate, unused}, at(2)); len(out) != 0 {
		t.Errorf("told of a key that is not hot, or whose limit is not known: %v", out)
	}
	if out := u.report([]budget.KeyReport{hot}, at(3)); len(out) != 1 || out[0].Admitted != 5e6 || out[0].Age != 2*time.Second {
		t.Errorf("%v", out)
	}
	if out := u.report([]budget.KeyReport{hot}, at(3)); len(out) != 0 {
		t.Errorf("told twice: %v", out)
	}
}

// TestUnreportedIsCertain: of use that the limit has earned back nothing is told, nor what an earlier
// limit may have allowed.
func TestUnreportedIsCertain(t *testing.T) {
	at := func(s float64) budget.Instant { return budget.Instant(s * 1e9) }
	slow := budget.KeyLimit{Capacity: 7e6, Rate: 1000}
	after := func(changes int, limit budget.KeyLimit) int64 {
		var u unreported
		u.admit(spentKey(1), spentLimit, 6e6, at(10))
		for range changes {
			u.rulesReplaced(at(12))
		}
		u.admit(spentKey(1), limit, 2e6, at(15))
		return u.keys[spentKey(1)].admitted
	}
	for _, c := range []struct {
		what    string
		changes int
		limit   budget.KeyLimit
		want    int64
	}{
		{"the same limit", 0, spentLimit, 8e6},
		{"a rule slowed after 2 s, in which it earned 2 and for clocks .1", 1, slow, 6e6 - 2.1e6 + 2e6},
		{"a smaller one", 1, budget.KeyLimit{Capacity: 5e6, Rate: 1000}, 6e6 - 2e6 - 2.1e6 + 2e6},
		{"two changes", 2, slow, 2e6},
		{"an override that ended", 0, slow, 2e6},
	} {
		if got := after(c.changes, c.limit); got != c.want {
			t.Errorf("%s: %d count, want %d", c.what, got, c.want)
		}
	}
	var u unreported
	u.admit(spentKey(1), spentLimit, 6e6, at(0))
	u.admit(spentKey(1), spentLimit, 1e6, at(50))
	if use := u.keys[spentKey(1)]; use.admitted != 7e6 || use.began != at(0) {
		t.Errorf("%+v; all of the last minute counts", use)
	}
	u.admit(spentKey(1), spentLimit, 2e6, at(61))
	if use := u.keys[spentKey(1)]; use.admitted != 2e6 || use.began != at(61) {
		t.Errorf("%+v; the others were earned again", use)
	}
}

// spentTold returns what the reports have told beside their counters of a key, in tokens, and since how
// long before.
func (l *leader) spentTold(key *aliquotv1.KeyId) (tokens int64, age time.Duration) {
	l.set(func() {
		for _, r := range l.reports {
			for _, k := range r.GetSpent() {
				if bytes.Equal(k.GetKey().GetHash(), key.GetHash()) {
					tokens += k.GetAdmittedMicro() / 1e6
					age = max(age, time.Duration(k.GetAgeMicros())*time.Microsecond)
				}
			}
		}
	})
	return tokens, age
}

// TestTheRestOfALostSessionIsTold: what was admitted after the last report of a session that is lost,
// and before the next one, is in the first report of the key in that one.
func TestTheRestOfALostSessionIsTold(t *testing.T) {
	l := newLeader(t, strictRule(1000, .001, ""))
	d, _ := startLive(t, withRedis(t, l))
	check(t, d, "k")
	key := keyOf(d, "k")
	l.lend(key, budget.Unit/2)
	eventually(t, "the use is reported", func() bool {
		check(t, d, "k")
		told := false
		l.set(func() {
			last := l.reports[len(l.reports)-1].GetKeys()
			told = len(last) > 0 && last[0].GetAdmittedMicro() > 0
		})
		return told
	})
	before, _ := l.spentTold(key)
	hold := make(chan struct{})
	l.set(func() { l.hold, l.holding = hold, 0 })
	eventually(t, "a report is under way", func() bool {
		held := false
		l.set(func() { held = l.holding > 0 })
		return held
	})
	rest := int64(0)
	for range 40 {
		if check(t, d, "k").Allowed {
			rest++
		}
	}
	l.set(func() { l.hold, l.session = nil, l.session+1 })
	close(hold)
	var told int64
	eventually(t, "the next session tells it", func() bool {
		check(t, d, "k")
		now, age := l.spentTold(key)
		told = now - before
		return told >= rest && age > 0
	})
	if rest == 0 || told > rest+50 {
		t.Errorf("told %d, admitted %d since the last report", told, rest)
	}
}

// TestWhatPassedBeforeTheRulesIsTold: under --without-rules allow, by the rules that came.
func TestWhatPassedBeforeTheRulesIsTold(t *testing.T) {
	l := newLeader(t, strictRule(1000, .001, ""))
	l.set(func() { l.down = true })
	c := withRedis(t, l)
	c.WithoutRules = PassWithoutRules
	d, _ := start(t, c)
	for range 30 {
		if a := check(t, d, "k"); !a.Allowed || a.Mode != modes.NoRulesYet {
			t.Fatalf("%+v", a)
		}
	}
	l.set(func() { l.down = false })
	eventually(t, "the rules decide", func() bool { return check(t, d, "k").Mode != modes.NoRulesYet })
	l.lend(keyOf(d, "k"), budget.Unit/2)
	eventually(t, "it is told", func() bool {
		check(t, d, "k")
		told, age := l.spentTold(keyOf(d, "k"))
		return told >= 30 && age > 0
	})
}
