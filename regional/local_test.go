package regional

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// asked asks for a client, cost 1.
func asked(apiKey string) []charge.Request {
	return []charge.Request{{Attributes: rules.Attributes{{Name: "api_key", Value: apiKey}}, Cost: limit.Token}}
}

// hammer has callers decide checks, each so many, and counts what passes. which names the
// client of a check.
func hammer(t *testing.T, d *Daemon, callers, each int, which func(int) string) (passed int64) {
	t.Helper()
	var allowed atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				out, err := d.service.Check(t.Context(), &aliquotv1.CheckRequest{
					Attributes: map[string]string{"api_key": which(c*each + i)},
				})
				if err != nil {
					t.Error(err)
				} else if out.GetAllowed() && out.GetMode() != modes.Emergency {
					allowed.Add(1)
				}
			}
		})
	}
	all.Wait()
	return allowed.Load()
}

func same(apiKey string) func(int) string { return func(int) string { return apiKey } }

// strictRule is one strict rule, of which the region's floor is the half.
func strictRule(capacity int, rate float64, more string) string {
	return fmt.Sprintf("defaults: {enforcement: strict%s}\nrules:\n  - id: r0\n    params: {capacity: %d, refill_rate: %f}\n", more, capacity, rate)
}

// slow is a refill rate of which nothing shows during a test.
const slow = 0.001

// callsPerCheck is how many calls of the store each check took since before.
func callsPerCheck(t *testing.T, d *Daemon, before float64, checks int) float64 {
	t.Helper()
	return (sampleOf(t, scrape(t, d), "aliquot_store_call_groups_count") - before) / float64(checks)
}

// TestHotKeyIsDecidedFromMemory: one key takes a call of the store now and then, and
// every check below the limit passes.
func TestHotKeyIsDecidedFromMemory(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(1_000_000, 1_000_000, "")).address()))
		const callers, each = 8, 2500
		before := sampleOf(t, scrape(t, d), "aliquot_store_call_groups_count")
		exactly(t, "all", int(hammer(t, d, callers, each, same("hot"))), callers*each, d)
		if calls := callsPerCheck(t, d, before, callers*each); calls > 0.05 {
			t.Errorf("%.3f calls a check", calls)
		}
		if !strings.Contains(scrape(t, d), `mode="local",outcome="allowed"`) || sampleOf(t, scrape(t, d), "aliquot_local_cache_hits_total") == 0 {
			t.Error("no decision from memory was counted")
		}
	})
}

// TestZipfTraffic: of a hundred thousand keys some are busy, and these spare the store.
func TestZipfTraffic(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(100_000, 100_000, "")).address()))
		const checks, aMillisecond = 32_000, 20
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 99_999)
		before := sampleOf(t, scrape(t, d), "aliquot_store_call_groups_count")
		passed := 0
		for range checks / aMillisecond {
			passed += int(hammer(t, d, 1, aMillisecond, func(int) string { return fmt.Sprint("k", zipf.Uint64()) }))
			<-time.After(time.Millisecond)
		}
		exactly(t, "all", passed, checks)
		if calls := callsPerCheck(t, d, before, checks); calls > 0.6 {
			t.Errorf("%.3f calls a check", calls)
		}
	})
}

// TestStrictLimitIsExactWithChunks: many at once get the region's floor to the token;
// nothing borrowed is lost, or there twice.
func TestStrictLimitIsExactWithChunks(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(20_000, slow, "")).address()))
		exactly(t, "half of 20,000", int(hammer(t, d, 16, 1000, same("k"))), 10_000, d)
	})
}

// TestCrashLosesAChunkAtMost: a chunk is a quarter of what there is at the most, and is
// lost; nothing is there twice.
func TestCrashLosesAChunkAtMost(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(20_000, slow, "")).address()))
		passed := hammer(t, d, 8, 100, same("k"))
		d.auth.Local.End(true) // a daemon that dies, as far as memory goes
		passed += hammer(t, d, 8, 2000, same("k"))
		if passed > 10_000 || passed < 10_000*3/4 {
			t.Errorf("%d passed of 10,000", passed)
		}
	})
}

// TestShareMovesWhileChunksAreOut: whatever the share becomes, what passes is within what
// it was at its largest, and a shrink is acknowledged with nothing of the earlier share
// left to spend.
func TestShareMovesWhileChunksAreOut(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, strictRule(8000, slow, ""))
		d, _ := startLive(t, testConfig(l.address()))
		passed := hammer(t, d, 4, 250, same("k")) // of 4,000
		l.lend(keyOf(d, "k"), budget.Unit/8)      // of 3,000 left, a quarter stays
		first := hammer(t, d, 4, 100, same("k"))
		l.lend(keyOf(d, "k"), budget.Unit/16) // of 350 left, half stays
		second := hammer(t, d, 8, 250, same("k"))
		exactly(t, "before", int(passed), 1000, d)
		exactly(t, "of an eighth", int(first), 400, d)
		exactly(t, "of a sixteenth", int(second), 175, d)
		l.lend(keyOf(d, "k"), budget.Unit/2) // grows empty
		exactly(t, "of a share that has grown", int(hammer(t, d, 4, 50, same("k"))), 0, d)
	})
}

// TestSaturatedKeyLosesNothing: of far more than the limit, what it earns is admitted,
// within the rounding of what is left at both ends.
func TestSaturatedKeyLosesNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(1000, 4000, "")).address()))
		hammer(t, d, 8, 500, same("k")) // the burst
		passed := int64(0)
		for range 1000 {
			passed += hammer(t, d, 4, 2, same("k"))
			<-time.After(time.Millisecond)
		}
		if passed > 2000 || passed < 1900 {
			t.Errorf("%d passed in a second that earns 2,000", passed)
		}
	})
}

// TestLocalCacheOff: every check asks the store.
func TestLocalCacheOff(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(100, slow, ", local_cache: false")).address()))
		for range 100 {
			if a := check(t, d, "k"); a.Mode != modes.Store {
				t.Fatalf("decided by %s", a.Mode)
			}
		}
	})
}

// TestDrainBringsChunksBack: who comes after finds everything that was not spent.
func TestDrainBringsChunksBack(t *testing.T) {
	c := withRedis(t, newLeader(t, strictRule(2000, slow, "")))
	d, stop := startKept(t, c)
	passed := int(hammer(t, d, 4, 50, same("k")))
	stop()
	again, _ := startLive(t, c)
	exactly(t, "before and after", passed+burst(t, again, "k"), 1000, d, again)
}

// TestDenialFromMemoryIsExplained: its name leads to one like it.
func TestDenialFromMemoryIsExplained(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(20, 1, "")).address()))
		var out *aliquotv1.CheckResponse
		eventually(t, "a denial from memory", func() bool {
			var err error
			out, err = d.service.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}})
			return err == nil && !out.GetAllowed() && out.GetMode() == modes.Local
		})
		if wait := out.GetRetryAfter().AsDuration(); wait <= 0 || wait > 2*time.Second {
			t.Errorf("retry after %v at half a token a second", wait)
		}
		told, err := d.service.Explain(t.Context(), &aliquotv1.ExplainRequest{What: &aliquotv1.ExplainRequest_DecisionId{DecisionId: out.GetDecisionId()}})
		if err != nil {
			t.Fatal(err)
		}
		if rule := told.GetRules()[0]; !rule.GetMatched() || rule.GetCapacity() != 10 || rule.GetRetryBasis() == "" || rule.GetBurstShare() != 0.5 {
			t.Errorf("%v", rule)
		}
	})
}

// TestNewRulesEndMemory at once: a limit that is raised counts from the first check.
func TestNewRulesEndMemory(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, strictRule(20, slow, ""))
		d, _ := startLive(t, testConfig(l.address()))
		exactly(t, "half of 20", burst(t, d, "k"), 10, d)
		l.setRules(2, strictRule(20, 2_000_000, ""))
		eventually(t, "the rate has risen", func() bool { return check(t, d, "k").Allowed })
	})
}

// TestDecisionFromMemoryAllocatesNothing.
func TestDecisionFromMemoryAllocatesNothing(t *testing.T) {
	d, _ := startLive(t, testConfig(newLeader(t, strictRule(1_000_000_000, 1_000_000_000, "")).address()))
	requests, room := asked("k"), &charge.Scratch{}
	decide := func() bool {
		out, err := d.limiter.DecideIn(t.Context(), requests, room)
		return err == nil && out[0].CachedVerdicts != nil
	}
	eventually(t, "a decision from memory", decide)
	allocated := 1.0
	eventually(t, "no allocations", func() bool { // but for what goes on beside
		allocated = testing.AllocsPerRun(1000, func() { decide() })
		return allocated == 0
	})
}
