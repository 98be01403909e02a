package regional

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// quick is a bucket of 100 that fills in a second, and slowed one that does not while a test
// runs; the region's floor is half of it, strictly.
var quick, slowed = strictRule(100, 100, ", local_cache: false"), strictRule(100, slow, ", local_cache: false")

// earned is what a bucket of the quick rule earns at most from an instant on.
func earned(since time.Time) int { return int(time.Since(since).Seconds()*50*1.02) + 1 }

// kept is longer than the quick rule's records are.
const kept = 4 * time.Second

// takes waits until a daemon goes by a version of the rules.
func takes(t *testing.T, d *Daemon, l *leader, version uint64, yaml string) {
	t.Helper()
	l.setRules(version, yaml)
	eventually(t, "the version is in force", func() bool { return d.policies.Load().Text.Version == version })
}

// TestASlowedRuleRefillsNoBucket: what a record was kept for is a thing of the faster rule.
func TestASlowedRuleRefillsNoBucket(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, quick)
		d, _ := startLive(t, testConfig(l.address()))
		exactly(t, "a bucket of 50", burst(t, d, "k"), 50)
		began := time.Now()
		takes(t, d, l, 2, slowed)
		most := earned(began)
		<-time.After(kept)
		if again := burst(t, d, "k"); again > most {
			t.Errorf("%d more when its rule was slowed and its record gone; it had earned %d", again, most)
		}
	})
}

// TestASlowedRuleTakesNothing: a client that was never seen has its whole bucket when the rule is slowed, and so has one
// whose bucket was full again by then. One that spent all a second before has the 25 tokens that it earned until the
// change can have come at the earliest.
func TestASlowedRuleTakesNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, quick)
		d, _ := startLive(t, testConfig(l.address()))
		exactly(t, "a bucket of 50", burst(t, d, "early"), 50)
		<-time.After(kept)
		exactly(t, "a bucket of 50", burst(t, d, "late"), 50)
		<-time.After(time.Second)
		takes(t, d, l, 2, slowed)
		<-time.After(kept)
		for client, want := range map[string]int{"never seen": 50, "early": 50, "late": 25} {
			if got := burst(t, d, client); got < want-1 || got > want+1 {
				t.Errorf("%s: %d admitted, want %d", client, got, want)
			}
		}
	})
}

// TestASlowedRuleIsRememberedOverARestart: the state file tells a daemon what its store's records
// were kept for.
func TestASlowedRuleIsRememberedOverARestart(t *testing.T) {
	t.Parallel()
	l := newLeader(t, quick)
	c := testConfig(l.address())
	r := startRedis(t)
	c.Redis, c.StateFile = r.url(), filepath.Join(t.TempDir(), "state")
	d, stop := startKept(t, c)
	eventually(t, "the store admits a bucket of 50", func() bool {
		a := post(t, d, `{"attributes":{"api_key":"k"},"cost":50}`)
		return a.Allowed && a.Mode == modes.Store
	})
	takes(t, d, l, 2, slowed)
	eventually(t, "the state file remembers the faster rule", func() bool {
		s, err := readState(c.StateFile, c.Region, c.Logger)
		return err == nil && s != nil && len(s.Former) == 1
	})
	stop()
	l.set(func() { l.down = true })
	eventually(t, "the record is gone", func() bool { return r.say("KEYS aq:{*}:1:*") == "*0" })
	d, _ = start(t, c)
	if again := burst(t, d, "k"); again > 0 {
		t.Errorf("%d more after a restart", again)
	}
}

// TestAnOverrideThatEndsRefillsNoBucket: at its end the rule's own numbers hold, for its key
// and no other one.
func TestAnOverrideThatEndsRefillsNoBucket(t *testing.T) {
	const rule = "defaults: {enforcement: strict, local_cache: false}\nrules:\n  - id: r0\n" +
		"    params: {capacity: 100, refill_rate: 0.001}\n    override: {k: {capacity: 100, refill_rate: 100, until: %q}}\n"
	inNetwork(t, func(t *testing.T) {
		ends := time.Now().Add(8 * time.Second).UTC()
		d, _ := startLive(t, testConfig(newLeader(t, fmt.Sprintf(rule, ends.Format(time.RFC3339Nano))).address()))
		<-time.After(time.Until(ends) - 10*time.Millisecond)
		exactly(t, "a bucket of 50", burst(t, d, "k"), 50)
		most := earned(time.Now().Add(-10 * time.Millisecond))
		<-time.After(kept)
		if again := burst(t, d, "k"); again > most {
			t.Errorf("%d more when its override had ended; it had earned %d", again, most)
		}
		exactly(t, "another client", burst(t, d, "other"), 50)
	})
}

// TestAnOverrideThatGoesIsItsKeysMatter: the clients that had the rule's own numbers all along
// keep full buckets.
func TestAnOverrideThatGoesIsItsKeysMatter(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, slowed+"    override: {vip: {capacity: 100, refill_rate: 100}, \"vip_*\": {capacity: 100, refill_rate: 90}}\n")
		d, _ := startLive(t, testConfig(l.address()))
		began := time.Now()
		for _, key := range []string{"vip", "vip_1"} {
			exactly(t, key, burst(t, d, key), 50)
		}
		takes(t, d, l, 2, slowed)
		most := earned(began)
		<-time.After(kept)
		for _, key := range []string{"vip", "vip_1"} {
			if got := burst(t, d, key); got > most {
				t.Errorf("%s had %d more, and had earned %d", key, got, most)
			}
		}
		exactly(t, "another client", burst(t, d, "another"), 50)
	})
}

// TestARaisedRuleIsWholeAtOnce: who has no bucket has the new one, and who has one keeps what is
// in it, and has earned no more than the rule gave until then.
func TestARaisedRuleIsWholeAtOnce(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, strictRule(20, slow, ", local_cache: false"))
		d, _ := startLive(t, testConfig(l.address()))
		exactly(t, "half of 20", burst(t, d, "k"), 10)
		<-time.After(kept)
		takes(t, d, l, 2, strictRule(200, 2, ", local_cache: false"))
		exactly(t, "a new client has half of 200", burst(t, d, "new"), 100)
		if got := burst(t, d, "k"); got > 2 {
			t.Errorf("a drained one has %d of what the new rate would have earned before it held", got)
		}
	})
}

// TestALimitLoweredAndRaisedRefusesNoColdClient: a limit is lowered by a third and raised again 5 s later, as by a stage
// that is aborted, and again for a tenth of a second. 40 clients ask every 2 s. None is refused, because each
// asks below the lower limit. A client that spends all it can has no more than the first burst and what the limits
// have earned since.
func TestALimitLoweredAndRaisedRefusesNoColdClient(t *testing.T) {
	for _, enforcement := range []string{"strict", "elastic"} {
		t.Run(enforcement, func(t *testing.T) {
			rule := func(capacity, rate int) string {
				return fmt.Sprintf("rules:\n  - id: r0\n    enforcement: %s\n    local_cache: false\n    params: {capacity: %d, refill_rate: %d}\n", enforcement, capacity, rate)
			}
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, rule(90, 30))
				d, _ := startLive(t, testConfig(l.address()))
				refused, asked, began := 0, 0, time.Now()
				next := func(until time.Duration) {
					for ; time.Since(began) < until; asked++ {
						if a := check(t, d, fmt.Sprintf("k%d", asked%40)); !a.Allowed {
							refused++
						}
						<-time.After(50 * time.Millisecond)
					}
				}
				next(3 * time.Second)
				takes(t, d, l, 2, rule(60, 20))
				next(8 * time.Second)
				takes(t, d, l, 3, rule(90, 30))
				next(12 * time.Second)
				takes(t, d, l, 4, rule(60, 20))
				next(12100 * time.Millisecond)
				takes(t, d, l, 5, rule(90, 30))
				next(15 * time.Second)
				exactly(t, fmt.Sprintf("refused of %d", asked), refused, 0)
			})
		})
	}
}

// TestALimitLoweredAndRaisedRefillsNoBucket: a client spends its bucket of 100, which fills in a second, just before the
// limit is slowed. Its record is gone when the limit is raised again, and the client has no more than the slow limit has
// earned, and what the present one has.
func TestALimitLoweredAndRaisedRefillsNoBucket(t *testing.T) {
	for _, lasts := range []time.Duration{100 * time.Millisecond, kept, 20 * time.Second} {
		inNetwork(t, func(t *testing.T) {
			l := newLeader(t, quick)
			d, _ := startLive(t, testConfig(l.address()))
			exactly(t, "a bucket of 50", burst(t, d, "k"), 50)
			began := time.Now()
			takes(t, d, l, 2, strictRule(100, 2, ", local_cache: false"))
			early := earned(began) // by the first rate
			slow := time.Now()
			<-time.After(lasts)
			takes(t, d, l, 3, quick)
			raised := time.Now()
			again := burst(t, d, "k")
			if most := early + int(time.Since(slow).Seconds()) + 1 + earned(raised); again > most {
				t.Errorf("after %v of a slow limit %d more; it had earned %d", lasts, again, most)
			}
		})
	}
}

// TestALongerWindowForgetsNoUse: a record that a shorter window kept may have counted all there
// was, until the window ends in which the rule changed.
func TestALongerWindowForgetsNoUse(t *testing.T) {
	const rule = "rules:\n  - id: r0\n    algorithm: %s\n    local_cache: false\n    params: {limit: 100, window: %s}\n"
	for _, algorithm := range []string{rules.FixedWindow, rules.SlidingWindowCounter} {
		t.Run(algorithm, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, fmt.Sprintf(rule, algorithm, "1s"))
				d, _ := startLive(t, testConfig(l.address()))
				exactly(t, "half of 100", burst(t, d, "k"), 50)
				takes(t, d, l, 2, fmt.Sprintf(rule, algorithm, "365d"))
				<-time.After(kept)
				exactly(t, "more when its window had grown and its record was gone", burst(t, d, "k"), 0)
				takes(t, d, l, 3, strings.Replace(fmt.Sprintf(rule, algorithm, "365d"), "limit: 100", "limit: 200", 1))
				exactly(t, "a new client has what the limit has grown by", burst(t, d, "new"), 50)
			})
		})
	}
}
