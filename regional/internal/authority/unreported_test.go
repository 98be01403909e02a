package authority

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/policy"
)

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
	for i := range 3 * maxUnreported {
		u.admit(spentKey(i), spentLimit, 1e6, at(6))
	}
	if _, spent := u.tell(); len(spent) > maxUnreported || len(spent) < maxUnreported/2 {
		t.Errorf("%d keys", len(spent))
	}
	u.admit(budget.KeyID{Rule: 1 | policy.IndependentBit}, spentLimit, 1e6, at(6))
	if u.uses.len() != 0 {
		t.Error("the limit of a region alone has no promise to watch")
	}
}

// TestUseThatMatters: of 64 tokens of a floor one may be in use, and nothing is remembered, unless the key is hot or the
// store was not asked.
func TestUseThatMatters(t *testing.T) {
	used := func(tokens int64) budget.Usage {
		return budget.Usage{Admitted: true, Cost: 1e6, ColdCap: 100e6, FloorCap: 64e6, Tokens: 100e6 - tokens}
	}
	denied, without := used(50e6), budget.Usage{Admitted: true, Cost: 1e6, Tokens: 9e6}
	denied.Admitted = false
	for _, c := range []struct {
		what      string
		u         budget.Usage
		hot, want bool
	}{
		{"one token is in use", used(1e6), false, false},
		{"one of a hot key", used(1e6), true, true},
		{"a bit more", used(1e6 + 1), false, true},
		{"a denial", denied, true, false},
		{"decided without the store", without, false, true},
	} {
		if got := matters(&c.u, c.hot); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
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
		return u.uses.find(spentKey(1)).admitted
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
	if use := u.uses.find(spentKey(1)); use.admitted != 7e6 || use.began != at(0) {
		t.Errorf("%+v; all of the last minute counts", use)
	}
	u.admit(spentKey(1), spentLimit, 2e6, at(61))
	if use := u.uses.find(spentKey(1)); use.admitted != 2e6 || use.began != at(61) {
		t.Errorf("%+v; the others were earned again", use)
	}
}
