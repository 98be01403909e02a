package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/regional/store/memory"
)

// TestKeysWithoutRoomAskForNoShare: of a flood of keys beyond what the embedded store has room
// for none becomes a candidate, whatever the record says that they share; a key that comes
// often does, for it gets a record of its own by that.
func TestKeysWithoutRoomAskForNoShare(t *testing.T) {
	for name, params := range map[string]string{
		"bucket": "params: {capacity: 100, refill_rate: 0.001}",
		"window": "algorithm: fixed_window\n    params: {limit: 100, window: 1d}",
		"log":    "algorithm: sliding_window_log\n    params: {limit: 100, window: 1d}", // denied without any record
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := crowdedLimiter(t, "rules:\n  - id: r0\n    enforcement: strict\n    "+params+"\n")
				denied := 0
				for n := range 10_000 {
					if !lets(t, l, fmt.Sprint("once", n)) {
						denied++
					}
				}
				if denied == 0 {
					t.Fatal("there was room for all")
				}
				if n := l.Auth.Info().Candidates; n != 0 {
					t.Errorf("%d keys that came once, without a record of their own, ask for a share", n)
				}
				for range 10 {
					lets(t, l, "often")
				}
				if n := l.Auth.Info().Candidates; n != 1 {
					t.Errorf("%d candidates, want the key that comes often", n)
				}
			})
		})
	}
}

// crowdedLimiter is a limiter before an embedded store with room for one record a shard. The
// test is in a bubble.
func crowdedLimiter(t *testing.T, yaml string) *Engine {
	began := time.Now()
	now := func() budget.Instant { return budget.Instant(100*time.Second) + budget.Instant(time.Since(began)) }
	s, err := memory.New(memory.Config{MaxKeys: 1, Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return limiterBefore(t, s, epoch, now, yaml)
}

// lets decides a check of a client.
func lets(t *testing.T, l *Engine, apiKey string) bool {
	t.Helper()
	out, err := l.Decide(t.Context(), asked(apiKey))
	if err != nil {
		t.Fatal(err)
	}
	_, v := out[0].Verdicts()
	return v.Decision.Allowed
}
