package entitlement_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
)

func of(capacity, rate int64) limit.Limit {
	return limit.Limit{Capacity: limit.Tokens(capacity) * limit.Token, Rate: limit.Rate{Micro: rate * 1_000_000}}
}

var all = budget.Share{Rate: budget.Unit, Burst: budget.Unit}

// TestWhatIsRememberedOfAChange: a limit of 100 tokens at 100 a second that changes at 10 s.
func TestWhatIsRememberedOfAChange(t *testing.T) {
	at := budget.Instant(10 * time.Second)
	once := func(to limit.Limit) entitlement.Change {
		return entitlement.Change{}.Then(of(100, 100), to, all, false, at)
	}
	fast, slow := of(100, 100), of(100, 10)
	tokens := func(n int64) limit.Tokens { return limit.Tokens(n) * limit.Token }
	soon, late := at.Add(100*time.Millisecond), at.Add(time.Minute)
	for _, tt := range []struct {
		name      string
		got, want entitlement.Change
	}{
		{"nothing has changed", once(fast), entitlement.Change{}},
		{"slowed: it was full by the limit before", once(slow), entitlement.Change{At: at, Slow: fast.Rate, Small: tokens(100), Cap: tokens(100), Rate: fast.Rate}},
		{"raised: it is full by the new one", once(of(200, 100)), entitlement.Change{At: at, Slow: fast.Rate, Small: tokens(100), Cap: limit.MaxTokens, Rate: fast.Rate}},
		{"less burst and a faster rate", once(of(50, 200)), entitlement.Change{At: at, Slow: fast.Rate, Small: tokens(100), Cap: tokens(100), Rate: fast.Rate}},
		{"slowed twice within what the first one needs: nothing is known to be left, and a second in which daemons may differ earns nothing",
			once(slow).Then(slow, of(100, 1), all, false, at.Add(time.Second)), entitlement.Change{At: at.Add(time.Second), Slow: slow.Rate, Small: tokens(100), Rate: fast.Rate}},
		{"slowed twice, a minute apart: the first one is settled",
			once(slow).Then(slow, of(100, 1), all, false, late), entitlement.Change{At: late, Slow: slow.Rate, Small: tokens(100), Cap: tokens(100), Rate: slow.Rate}},
		{"a missed change", once(slow).Unknown(false), entitlement.Change{At: at, Slow: fast.Rate, Small: tokens(100), Rate: fast.Rate}},
		{"a missed raise", once(of(200, 100)).Unknown(false), once(of(200, 100))},
		{"of two clients the more cautious", once(slow).Or(entitlement.Change{At: at, Slow: slow.Rate, Small: tokens(100), Cap: tokens(5), Rate: of(1, 200).Rate}, false),
			entitlement.Change{At: at, Slow: slow.Rate, Small: tokens(100), Cap: tokens(5), Rate: of(1, 200).Rate}},
		{"one of which nothing is known", once(slow).Or(entitlement.Change{}, false), once(slow)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, tt.got, tt.want)
		}
	}
	if back := once(slow).Then(slow, fast, all, false, soon); back.Cap <= tokens(88) || back.Cap >= tokens(90) {
		t.Errorf("slowed and raised again after 0.1 s, some 89 are left of 100: %+v", back)
	}
}

// TestForHowLongAChangeMatters: until the slower bucket has filled at the region's floor.
func TestForHowLongAChangeMatters(t *testing.T) {
	c, slow := entitlement.Change{At: 1, Cap: limit.Token}, of(100, 10)
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	for _, tt := range []struct {
		floor   budget.Share
		elastic bool
		after   time.Duration
	}{{all, false, 10 * time.Second}, {half, false, 10 * time.Second}, {half, true, 20 * time.Second}} {
		if c.Settled(slow, tt.floor, tt.elastic, c.At.Add(tt.after)) || !c.Settled(slow, tt.floor, tt.elastic, c.At.Add(tt.after+tt.after/10+6*time.Second)) {
			t.Errorf("%+v, elastic %t: it fills in %v and is remembered for %v", tt.floor, tt.elastic, tt.after, entitlement.Memory(slow, tt.floor, tt.elastic))
		}
	}
	if c.Settled(slow, budget.Share{}, false, c.At.Add(100*365*24*time.Hour)) {
		t.Error("a bucket that never fills was forgotten")
	}
}

// TestAWindowThatGrows: nothing else matters of a limit that counts.
func TestAWindowThatGrows(t *testing.T) {
	window := func(a limit.Algorithm, d time.Duration) limit.Limit {
		return limit.Limit{Algorithm: a, Capacity: 7 * limit.Token, Window: d}
	}
	then := func(a limit.Algorithm, from, to time.Duration) entitlement.Change {
		return entitlement.Change{}.Then(window(a, from), window(a, to), all, false, 5)
	}
	if got := then(limit.FixedWindow, time.Second, time.Minute); got != (entitlement.Change{At: 5, Cap: 7 * limit.Token}) {
		t.Errorf("%+v", got)
	}
	for _, got := range []entitlement.Change{
		then(limit.FixedWindow, time.Minute, time.Second), then(limit.SlidingLog, time.Second, time.Minute),
	} {
		if got != (entitlement.Change{}) {
			t.Errorf("%+v", got)
		}
	}
}

// TestALimitEarnsBetweenTwoChanges: an absent record has what the slowest limit since could have earned. A limit of
// 1000 tokens at 100 a second has 200 at 10 for a time.
func TestALimitEarnsBetweenTwoChanges(t *testing.T) {
	const at = budget.Instant(10 * time.Second)
	first, low := of(1000, 100), of(200, 10)
	third := budget.Share{Rate: budget.Unit / 3, Burst: budget.Unit / 3}
	uneven := budget.Share{Rate: budget.Unit / 4, Burst: budget.Unit / 2}
	for _, tt := range []struct {
		name     string
		after    time.Duration
		to       limit.Limit
		floor    budget.Share
		elastic  bool
		min, max float64 // tokens of the whole limit
	}{
		{"raised at once: it held no more than the lower one does", 100 * time.Millisecond, first, all, false, 200, 200},
		{"some of the first is left", 8500 * time.Millisecond, first, all, false, 64 + 68, 65 + 75},
		{"nothing of the first is left, and 10 s are certain", 11 * time.Second, first, all, false, 90, 100},
		{"the part of the limit that a floor has comes later", 11 * time.Second, first, third, false, 90, 100},
		{"a floor earns by its rate", 11 * time.Second, first, uneven, false, 45, 50},
		{"an elastic bucket is whole, and earns by the floor's rate", 11 * time.Second, first, third, true, 30, 34},
		{"no more than the lower capacity", 21*time.Second + 4*time.Second, first, all, false, 200, 200},
		{"lowered again", 11 * time.Second, of(50, 1), all, false, 90, 100},
		{"lowered again, when the lower one was full", 25 * time.Second, of(50, 1), all, false, 200, 200},
	} {
		c := entitlement.Change{}.Then(first, low, tt.floor, tt.elastic, at)
		c = c.Then(low, tt.to, tt.floor, tt.elastic, at.Add(tt.after))
		if got := float64(c.Cap) / float64(limit.Token); got < tt.min || got > tt.max || c.At != at.Add(tt.after) || c.Rate != first.Rate {
			t.Errorf("%s: %g tokens, want %g to %g: %+v", tt.name, got, tt.min, tt.max, c)
		}
	}
	raised := entitlement.Change{}.Then(low, first, all, false, at)
	if c := raised.Then(first, of(2000, 100), all, false, at.Add(2*time.Second)); c.Cap != limit.MaxTokens {
		t.Errorf("raised twice: %+v", c)
	}
	unknown := entitlement.UnknownChange(at, false)
	if c := unknown.Then(low, first, all, false, at.Add(11*time.Second)); c.Cap < 90*limit.Token || c.Cap > 100*limit.Token {
		t.Errorf("a limit of which nothing was known before earns too: %+v", c)
	}
}

// TestHeldIsWhatAnAbsentRecordHolds: a limit of 100 tokens that filled at 10 a second fills at 1 a second since 20 s by
// the store's clock, and since a second more by the daemon's. A record that is absent may have been empty at the change,
// so without what the daemon knows it holds 20.
func TestHeldIsWhatAnAbsentRecordHolds(t *testing.T) {
	at := budget.Instant(100 * time.Second)
	c := entitlement.Change{}.Then(of(100, 10), of(100, 1), all, false, at.Add(-21*time.Second))
	for held, want := range map[limit.Tokens][2]limit.Tokens{0: {20, 20}, 20: {20, 20}, 21: {20, 20}, 60: {55, 60}, 99: {94, 99}, 100: {100, 100}} {
		v := limit.View{Floor: limit.Bucket{Cap: 100 * limit.Token, Rate: limit.Rate{Micro: 1_000_000}}, RuleSince: 80e6, Stamp: 1}
		v.Before = limit.Bucket{Cap: c.Cap, Rate: c.Rate}
		entitlement.Held(&v, c, held*limit.Token, at)
		r, _, _ := limit.Settle(limit.Record{}, v, 100e6)
		if got := r.Tokens / limit.Token; got < want[0] || got > want[1] {
			t.Errorf("%d were known to be there: it holds %d, want %d to %d", held, got, want[0], want[1])
		}
	}
	grown := limit.View{Algorithm: limit.FixedWindow, Before: limit.Bucket{Cap: 50 * limit.Token}}
	for _, used := range []limit.Tokens{70, 30, 40} {
		entitlement.Held(&grown, c, used*limit.Token, at)
	}
	if grown.Before.Cap != 30*limit.Token {
		t.Errorf("%d in use at most, want the least that is known", grown.Before.Cap)
	}
}
