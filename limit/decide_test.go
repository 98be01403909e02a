package limit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDecide(t *testing.T) {
	l := Limit{Capacity: 100 * Token, Rate: Rate{Micro: 10 * million}}
	local := of(50, 5)
	tests := []struct {
		name    string
		out     Outcome
		cost    Tokens
		allowed bool
		want    Decision
	}{
		{"allowed", Outcome{Tokens: 40*Token + 1, Bucket: local}, Token, true,
			Decision{Allowed: true, Limit: 100, Remaining: 40, ResetAfter: 2 * time.Second}},
		{"denied", Outcome{Tokens: Token / 2, Bucket: local}, Token, false,
			Decision{Limit: 100, ResetAfter: 9900 * time.Millisecond, RetryAfter: 100 * time.Millisecond}},
		{"denied by another limit", Outcome{Tokens: 2 * Token, Bucket: local}, Token, false,
			Decision{Limit: 100, Remaining: 2, ResetAfter: 9600 * time.Millisecond}},
		{"above the capacity: never", Outcome{Tokens: 50 * Token, Bucket: local}, 101 * Token, false,
			Decision{Limit: 100, Remaining: 50, RetryAfter: Never}},
		{"above the local capacity: as if it grew", Outcome{Tokens: 50 * Token, Bucket: local}, 60 * Token, false,
			Decision{Limit: 100, Remaining: 50, RetryAfter: 2 * time.Second}},
		{"lent empty: as the whole limit, and a share that moves", Outcome{Bucket: of(1, 0)}, Token, false,
			Decision{Limit: 100, ResetAfter: 100 * time.Millisecond, RetryAfter: 100*time.Millisecond + shareMoves}},
		{"hardly a share, and a cost above it", Outcome{Bucket: Bucket{Cap: Token, Rate: Rate{Micro: 1}}}, 50 * Token, false,
			Decision{Limit: 100, ResetAfter: 1_000_000 * time.Second, RetryAfter: 5*time.Second + shareMoves}},
		{"full and without rate", Outcome{Tokens: Token, Bucket: of(1, 0)}, Token, true,
			Decision{Allowed: true, Limit: 100, Remaining: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Decide(l, tt.out, tt.cost, tt.allowed); got != tt.want {
				t.Fatalf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestTheWaitForWhatOtherRegionsHold: the answer tells no longer wait than for a share that has to grow.
func TestTheWaitForWhatOtherRegionsHold(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, time.Hour: longestGuess, longestWait: longestGuess, Never: Never} {
		if got := (Decision{Limit: 5, RetryAfter: wait, ResetAfter: time.Hour}).CapWait(); got != (Decision{Limit: 5, RetryAfter: want, ResetAfter: time.Hour}) {
			t.Errorf("%v: %+v", wait, got)
		}
	}
}

// After RetryAfter the cost is there, and a millisecond earlier it is not: so says
// Take itself, with nothing carried over.
func TestRetryAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t, "b")
		b.Cap = max(b.Cap, 1)
		extra := Tokens(rapid.Int64Range(0, int64(b.Cap)/2).Draw(t, "extra"))
		cost := Tokens(rapid.Int64Range(int64(extra)+1, int64(b.Cap+extra)).Draw(t, "cost"))
		have := Tokens(rapid.Int64Range(0, int64(cost-extra)-1).Draw(t, "have"))
		r := []Record{{Hot: true, Gen: 1, Share: b, Stamp: 1, Tokens: have, Extra: extra, At: tick}}
		v := []View{{Hot: true, Gen: 1, Share: b, Extra: extra, Phase: Live, Until: MaxExact, Stamp: 1}}
		out := make([]Outcome, 1)
		if Take(r, v, cost, tick, out) {
			t.Fatal("allowed at once")
		}
		d := Decide(Limit{Capacity: 2 * MaxTokens}, out[0], cost, false)
		if b.Rate == (Rate{}) || d.RetryAfter >= longestWait {
			return
		}
		allowedAfter := func(wait time.Duration) bool {
			return Take(slices.Clone(r), v, cost, tick+wait.Microseconds(), out)
		}
		if !allowedAfter(d.RetryAfter) {
			t.Fatalf("denied after waiting %v", d.RetryAfter)
		}
		if d.RetryAfter > 0 && allowedAfter(d.RetryAfter-time.Millisecond) {
			t.Fatalf("%v is later than need be", d.RetryAfter)
		}
	})
}

// A cold record lives at least until it is full.
func TestTTLOutlastsTheRefill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t, "b")
		tokens := Tokens(rapid.Int64Range(0, int64(b.Cap)).Draw(t, "tokens"))
		ms := TTL(tokens, b)
		if ms < 1000 || ms > maxSecs*1000+1000 {
			t.Fatalf("TTL of %d ms", ms)
		}
		if ms >= maxSecs*1000 {
			return
		}
		if full, _ := refill(tokens, 0, b, 0, ms*1000); full != b.Cap {
			t.Fatalf("after %d ms it holds %d of %d", ms, full, b.Cap)
		}
	})
}

func TestEpochBirth(t *testing.T) {
	if birth, ok := EpochBirth("n:memory:12"); !ok || birth != 12 {
		t.Fatal(birth, ok)
	}
	for _, bad := range []string{"", "n:r", "n:r:", "n:r:0", "n:r:-1", "n:r:x", ":r:1", "n::1", "a:b:c:1", "n:r:9007199254740992"} {
		if _, ok := EpochBirth(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestStamp(t *testing.T) {
	if got := Stamp("a"); got != 0xe40c292c { // FNV-1a's published value
		t.Fatalf("%08x", got)
	}
	if Stamp("n:r:1") == Stamp("n:r:2") {
		t.Fatal("stamps do not differ")
	}
}

func BenchmarkTake(b *testing.B) {
	records := []Record{{Stamp: 7, Tokens: 10 * Token, At: tick}}
	views := []View{{Floor: of(100, 10), Phase: Live, Until: 1 << 52, Stamp: 7}}
	out := make([]Outcome, 1)
	now := tick
	b.ReportAllocs()
	for b.Loop() {
		now += 10
		Take(records, views, Token, now, out)
	}
}
