package regional

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// counted is one rule of an algorithm that counts: 40 in a window, of which a region
// that is one of two has 20 while the key is cold.
func counted(algorithm string, window int) string {
	return fmt.Sprintf("rules:\n  - id: r0\n    algorithm: %s\n    key: [api_key]\n    params: {limit: 40, window: %d}\n", algorithm, window)
}

// TestCountedLimits: a region admits its floor of a limit that counts, its answers say
// by what, and a share that comes adds to what is in use, not to a new window.
func TestCountedLimits(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "sliding_window_log", "concurrency"} {
		t.Run(algorithm, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, counted(algorithm, 86400))
				d, _ := startLive(t, testConfig(l.address()))
				exactly(t, "half of 40", burst(t, d, "k"), 20, d)
				a := askFor(t, d, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}})
				got := a.GetLimits()[0]
				if a.GetAllowed() || got.GetAlgorithm() != algorithm || got.GetWindow().AsDuration() != 24*time.Hour || got.GetLimit() != 40 || got.GetRemaining() != 0 {
					t.Errorf("%v", a)
				}
				if wait := a.GetRetryAfter().AsDuration(); wait <= 0 || wait > 48*time.Hour || a.GetNever() {
					t.Errorf("retry after %v", wait)
				}
				key := l.asked()
				if told := l.latest(key).GetLimit(); told.GetTailMicros() == 0 || told.GetCapacityMicro() != 40e6 {
					t.Errorf("the leader was told %v", told)
				}
				l.lend(key, budget.Unit)
				if algorithm == "fixed_window" {
					// Others may have used it in this window.
					exactly(t, "a share that grows in the window", burst(t, d, "k"), 0, d)
					label := l.latest(key).GetLabel()
					l.set(func() { l.from = label })
					l.lend(key, budget.Unit/8*7)
					exactly(t, "a share that counts from this window on", burst(t, d, "k"), 15, d)
				} else {
					exactly(t, "the other half", burst(t, d, "k"), 20, d)
				}
			})
		})
	}
}

// TestUseOutlastsAShare: a share that shrinks below what is in use is in force at once,
// and acknowledged only as far as the use has come down.
func TestUseOutlastsAShare(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, counted("sliding_window_log", 10))
		d, _ := startLive(t, testConfig(l.address()))
		if burst(t, d, "k") == 0 {
			t.Fatal("nothing passed")
		}
		key := l.asked()
		l.give(key, budget.Unit/8, budget.Unit/8) // 5 of 40
		var most int32
		eventually(t, "what is in use is told", func() bool {
			most = max(most, l.latest(key).GetInUse())
			return most > budget.Unit/8
		})
		if a := check(t, d, "k"); a.Allowed {
			t.Error("admitted above the share")
		}
		eventually(t, "the share is acknowledged whole", func() bool {
			k := l.latest(key)
			return k.GetGen().GetCounter() > 0 && k.GetInUse() == 0
		})
		// As much as the share may still be in use then, for as long as the checks took.
		eventually(t, "the share is free", func() bool {
			return post(t, d, `{"attributes":{"api_key":"k"},"cost":5}`).Allowed
		})
		exactly(t, "beyond the share", burst(t, d, "k"), 0, d)
		if n := l.sessions(); n != 1 {
			t.Errorf("%d sessions; nothing should have ended the first", n)
		}
	})
}

// latest is what was last reported of a key.
func (l *leader) latest(key *aliquotv1.KeyId) *aliquotv1.KeyReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range slices.Backward(l.reports) {
		for _, k := range r.GetKeys() {
			if string(k.GetKey().GetHash()) == string(key.GetHash()) {
				return k
			}
		}
	}
	return nil
}
