package regional

import (
	"bytes"
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/modes"
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
	eventually(t, "the second may spend", func() bool { return answers(t, second, "busy") > 2 && second.others.Spends() })
	had := int64(0) // all of it, also what a store on a busy machine did not decide
	eventually(t, "the store denies", func() bool {
		a := check(t, second, "cold")
		if a.Allowed {
			had += 1e6
		}
		return !a.Allowed && a.Mode == modes.Store
	})
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
	admitted := rest // until it is told
	eventually(t, "the next session tells it", func() bool {
		if check(t, d, "k").Allowed {
			admitted++
		}
		now, age := l.spentTold(key)
		told = now - before
		return told >= rest && age > 0
	})
	if rest == 0 || told > admitted+50 {
		t.Errorf("told %d, admitted %d since the last report", told, admitted)
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
