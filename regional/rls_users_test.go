package regional

import (
	"math"
	"strconv"
	"testing"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// usersRules are what users of envoyproxy/ratelimit expect to be able to say. No bucket refills in a test.
const usersRules = `
defaults: {enforcement: independent, params: {capacity: 3, refill_rate: 0.001}}
rules:
  - {id: r0}
  - {id: r1, key: [tenant]}
  - {id: r2, key: []}
  - {id: r3, key: [], match: {attributes: {domain: all}}}
  - {id: r4, match: {attributes: {zero: "?*"}}, key: [zero], params: {limit: 0, window: 1m}}
  - {id: r5, match: {attributes: {free: "?*"}}, params: {limit: unlimited}}
  - {id: r6, match: {attributes: {watched: "?*"}}, key: [watched], shadow: true}
  - {id: r7, match: {attributes: {a: "?*"}}, key: [a]}
  - {id: r8, match: {attributes: {b: "?*"}}, key: [b], params: {capacity: 5, refill_rate: 0.001}, replaces_in_request: [r7]}
  - {id: r9, match: {attributes: {own: "?*"}}, key: [own], request_limit: allow}
  - {id: r10, match: {attributes: {counts: "?*"}}, key: [counts], algorithm: fixed_window, params: {limit: 3, window: 366d}}
  - {id: r11, match: {attributes: {late: "?*"}}, key: [late], overrun: debt, params: {capacity: 10, refill_rate: 0.01}}
  - {id: r12, match: {attributes: {slot: "?*"}}, key: [slot], overrun: debt, algorithm: fixed_window, params: {limit: 10, window: 366d}}
`

func usersDaemon(t *testing.T) *Daemon {
	t.Helper()
	d, _ := startLive(t, testConfig(newLeader(t, usersRules).address()))
	return d
}

// status asks about one descriptor.
func status1(t *testing.T, d *Daemon, of *descriptorv3.RateLimitDescriptor) (string, *ratelimitv3.RateLimitResponse_DescriptorStatus) {
	t.Helper()
	out := envoy(t, d, "mesh", 1, of)
	return codesOf(out), out.GetStatuses()[0]
}

// TestOneDefaultRuleIsNoBucketForAMesh: a rule without conditions applies to the descriptors that carry its
// key, and to no other; a pattern of API keys applies as it does to any request.
func TestOneDefaultRuleIsNoBucketForAMesh(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		for _, c := range []struct{ key, value, want string }{
			{"path", "/", ""}, {"remote_address", "192.0.2.1", ""}, {"tenant", "t", "r1"}, {"tenant", "", ""}, {"api_key", "k", "r0"},
		} {
			if code, s := status1(t, d, entries(c.key, c.value)); code != "k:k" || s.GetCurrentLimit().GetName() != c.want {
				t.Errorf("%s=%s: %s of %q, want of %q", c.key, c.value, code, s.GetCurrentLimit().GetName(), c.want)
			}
		}
		if got := envoy(t, d, "all", 1, entries("path", "/")).GetStatuses()[0].GetCurrentLimit().GetName(); got != "r3" {
			t.Errorf("a rule for the domain: %q", got)
		}
		if a := post(t, d, `{"attributes":{"path":"/"}}`); len(a.Limits) != 3 {
			t.Errorf("a request by another API: %+v", a)
		}
	})
}

// TestALimitOfZeroDenies, and says which limit that is.
func TestALimitOfZeroDenies(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		code, s := status1(t, usersDaemon(t), entries("zero", "x"))
		if l := s.GetCurrentLimit(); code != "O:O" || l.GetName() != "r4" || l.GetRequestsPerUnit() != 0 || l.GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_MINUTE || s.GetLimitRemaining() != 0 {
			t.Errorf("%s %v", code, s)
		}
	})
}

func TestUnlimitedHasAllLeft(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		if code, s := status1(t, d, entries("free", "x")); code != "k:k" || s.GetLimitRemaining() != math.MaxUint32 || s.GetCurrentLimit() != nil {
			t.Errorf("%s %v", code, s)
		}
		if code, s := status1(t, d, costing(0, entries("free", "x"))); code != "k:k" || s.GetLimitRemaining() != math.MaxUint32 {
			t.Errorf("a look: %s %v", code, s)
		}
		if code, s := status1(t, d, entries("free", "x", "a", "both")); code != "k:k" || s.GetLimitRemaining() != 2 {
			t.Errorf("beside a limit: %s %v", code, s)
		}
	})
}

// TestAShadowLeavesTheHeaders of the limits that can deny.
func TestAShadowLeavesTheHeaders(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, usersRules).address())
		c.RLSHeaders = "both"
		d, _ := startLive(t, c)
		for range 2 {
			out := envoy(t, d, "mesh", 3, entries("watched", "x"), entries("api_key", strconv.Itoa(len(t.Name()))))
			if headerOf(out, "X-RateLimit-Limit") != "3" || headerOf(out, "RateLimit-Policy") == "" {
				t.Errorf("%v", out)
			}
			out = envoy(t, d, "mesh", 1, entries("a", "h"), entries("watched", "x"))
			if headerOf(out, "X-RateLimit-Limit") != "3" {
				t.Errorf("%v", out)
			}
		}
	})
}

// TestLooksAreDecidedInOrder with what is charged.
func TestLooksAreDecidedInOrder(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		out := envoy(t, d, "mesh", 1, costing(0, entries("a", "x")), entries("a", "x"), costing(0, entries("a", "x")), costing(2, entries("a", "x")), costing(0, entries("a", "x")))
		left := ""
		for _, s := range out.GetStatuses() {
			left += strconv.Itoa(int(s.GetLimitRemaining()))
		}
		if left != "32200" || codesOf(out) != "O:kkkkO" {
			t.Errorf("left %s, %s, want 32200, O:kkkkO", left, codesOf(out))
		}
	})
}

// TestReplacedInTheWholeRequest: a rule of one descriptor takes the place of another one's.
func TestReplacedInTheWholeRequest(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		if code, s := status1(t, d, costing(3, entries("a", "x"))); code != "k:k" || s.GetLimitRemaining() != 0 {
			t.Errorf("%s %v", code, s)
		}
		out := envoy(t, d, "mesh", 1, entries("a", "x"), entries("b", "x"))
		if s := out.GetStatuses(); codesOf(out) != "k:kk" || s[0].GetCurrentLimit() != nil || s[1].GetLimitRemaining() != 4 {
			t.Errorf("%v", out)
		}
		if code, _ := status1(t, d, entries("a", "x")); code != "O:O" {
			t.Errorf("by itself it is asked still: %s", code)
		}
	})
}

// TestALimitThatTheRequestBrings is heeded where its rule says so, with a bucket of its own.
func TestALimitThatTheRequestBrings(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		ask := func(key string, requests, multiplier uint32) (string, *ratelimitv3.RateLimitResponse_DescriptorStatus) {
			of := entries(key, "x")
			of.Limit = &descriptorv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: typev3.RateLimitUnit_DAY}
			if multiplier > 0 {
				of.Limit.UnitMultiplier = wrapperspb.UInt32(multiplier)
			}
			return status1(t, d, of)
		}
		for _, c := range []struct {
			key        string
			requests   uint32
			code       string
			left, unit uint32
		}{
			{"own", 2, "k:k", 1, 2}, {"own", 2, "k:k", 0, 2}, {"own", 2, "O:O", 0, 2}, {"own", 100, "k:k", 99, 100}, {"own", 0, "O:O", 0, 0}, {"a", 100, "k:k", 2, 3},
		} {
			if code, s := ask(c.key, c.requests, 0); code != c.code || s.GetLimitRemaining() != c.left || s.GetCurrentLimit().GetRequestsPerUnit() != c.unit {
				t.Errorf("%s with %d: %s %v", c.key, c.requests, code, s)
			}
		}
		if _, s := ask("own", 7, 3); s.GetCurrentLimit().GetUnitMultiplier().GetValue() != 3 || s.GetCurrentLimit().GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_DAY {
			t.Errorf("in three days: %v", s)
		}
		if code, s := status1(t, d, entries("own", "x")); code != "k:k" || s.GetLimitRemaining() != 2 {
			t.Errorf("without one: %s %v", code, s)
		}
	})
}

// TestACostAboveTheLimit says how much is left of it, and until when.
func TestACostAboveTheLimit(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		for _, key := range []string{"a", "counts"} {
			status1(t, d, entries(key, "x"))
			code, s := status1(t, d, costing(4, entries(key, "x")))
			if code != "O:O" || s.GetLimitRemaining() != 2 || s.GetDurationUntilReset().GetSeconds() < 1000 || s.GetCurrentLimit().GetRequestsPerUnit() != 3 {
				t.Errorf("%s: %s %v", key, code, s)
			}
			out := envoy(t, d, "mesh", 1, costing(4, entries(key, "x")), entries(key, "x"))
			if s := out.GetStatuses(); codesOf(out) != "O:Ok" || s[0].GetLimitRemaining() != 2 || s[1].GetLimitRemaining() != 1 {
				t.Errorf("%s, before another one: %v", key, out)
			}
		}
	})
}

// TestCostsThatAreKnownAtTheEnd of a response are charged though they do not fit, as Settle charges what a
// reservation was overrun by: as far below nothing as the limit is large.
func TestCostsThatAreKnownAtTheEnd(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		for _, key := range []string{"late", "slot"} {
			if code, s := status1(t, d, costing(4, entries(key, "x"))); code != "k:k" || s.GetLimitRemaining() != 6 {
				t.Errorf("%s: %s %v", key, code, s)
			}
			if code, s := status1(t, d, costing(8, entries(key, "x"))); code != "O:O" || s.GetLimitRemaining() != 0 {
				t.Errorf("%s: %s %v", key, code, s)
			}
			if code, s := status1(t, d, costing(0, entries(key, "x"))); code != "O:O" || s.GetLimitRemaining() != 0 {
				t.Errorf("%s, a look: %s %v", key, code, s)
			}
		}
		// 2 are owed; what is owed beyond 10 is not charged.
		out := envoy(t, d, "mesh", 9, entries("late", "x"))
		if wait, err := strconv.Atoi(headerOf(out, "Retry-After")); err != nil || wait <= 1800 || wait > 1901 {
			t.Errorf("9 of 10 that are owed, at 1 in 100 s: %v", out)
		}
	})
}

// TestALookTellsWhatThereIs: a descriptor that costs nothing takes nothing, so what is left and when the limit is whole
// again are told as they are.
func TestALookTellsWhatThereIs(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d := usersDaemon(t)
		told := func(hits uint64, left uint32, whole time.Duration) {
			t.Helper()
			_, s := status1(t, d, costing(hits, entries("b", "looked at")))
			if reset := s.GetDurationUntilReset().AsDuration(); s.GetLimitRemaining() != left || reset != whole {
				t.Errorf("a cost of %d: %d are left, and it is whole in %v, want %d and %v", hits, s.GetLimitRemaining(), reset, left, whole)
			}
		}
		told(0, 5, 0)
		told(2, 3, 2000*time.Second)
		told(0, 3, 2000*time.Second)
	})
}
