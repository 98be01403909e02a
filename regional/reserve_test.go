package regional

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
)

// TestReserveThenSettle: what was estimated is taken everywhere at once, what was not used
// comes back, and neither happens twice.
func TestReserveThenSettle(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		d, _ := startLive(t, c)
		first := reserveFor(t, d, estimate("call-1"))
		if !first.GetDecision().GetAllowed() || !strings.HasPrefix(first.GetId(), "call-1.") || len(first.GetDecision().GetLimits()) != 6 {
			t.Fatalf("%v", first)
		}
		if ends := time.UnixMilli(first.GetExpiresUnixMs()); time.Until(ends) > time.Minute || time.Until(ends) < 50*time.Second {
			t.Errorf("ends at %v", ends)
		}
		reserved := map[string]int64{"r0": 99, "r1": 700, "r2": 1500, "r3": 2, "r4": 4700}
		wantLeft(t, d, "reserved", reserved)
		if again := reserveFor(t, d, estimate("call-1")); !proto.Equal(again, first) {
			t.Errorf("answered %v, at first %v", again, first)
		}
		wantLeft(t, d, "reserved again", reserved)
		other := estimate("call-1")
		other.Costs["tokens_in"]++
		if code := storeCode(t, func() error {
			out, err := limiterClient(d).Reserve(t.Context(), other)
			if out.GetDecision().GetMode() == modes.FailClosed {
				return connect.NewError(connect.CodeUnavailable, nil) // it missed a deadline
			}
			return err
		}); code != "invalid_argument" {
			t.Errorf("another request of the same id: %s", code)
		}
		end := &aliquotv1.SettleRequest{Id: first.GetId(), Costs: map[string]int64{"tokens_in": 250, "tokens_out": 700}}
		out := settleFirst(t, d, end)
		want := []*aliquotv1.SettledLimit{
			{RuleId: "r0", Unit: "requests", Reserved: 1, Used: 1},
			{RuleId: "r1", Unit: "tokens_in", Reserved: 300, Used: 250, Refunded: 50},
			{RuleId: "r2", Unit: "tokens_out", Reserved: 500, Used: 700, Charged: 200},
			{RuleId: "r3", Unit: "concurrency", Reserved: 1, Used: 1, Refunded: 1},
			{RuleId: "r4", Unit: "tokens_in", Reserved: 300, Used: 250, Refunded: 50},
		}
		if out.GetState() != engine.StateSettled || !slices.EqualFunc(out.GetLimits(), want, func(a, b *aliquotv1.SettledLimit) bool { return proto.Equal(a, b) }) {
			t.Errorf("%v", out)
		}
		settled := map[string]int64{"r0": 99, "r1": 750, "r2": 1300, "r3": 3, "r4": 4750}
		wantLeft(t, d, "settled", settled)
		end.Costs["tokens_in"] = 0
		twice, _ := settleOf(t, d, end)
		out.State = engine.StateAlready
		if !proto.Equal(twice, out) {
			t.Errorf("settled twice: %v, at first %v", twice, out)
		}
		wantLeft(t, d, "settled twice", settled)
		if late := reserveFor(t, d, estimate("call-1")); !proto.Equal(late, first) {
			t.Errorf("reserved once more: %v", late)
		}
		wantLeft(t, d, "reserved once more", settled)
	})
}

// TestReservationIsOfTheRegion: any daemon settles it, also one that started since.
func TestReservationIsOfTheRegion(t *testing.T) {
	l := newLeader(t, llm)
	c := testConfig(l.address())
	c.Redis = startRedis(t).url()
	d, stop := startLive(t, c)
	id := reserveFor(t, d, estimate("call-1")).GetId()
	stop()
	next, _ := startLive(t, c)
	wantLeft(t, next, "after the restart", map[string]int64{"r1": 700, "r3": 2})
	if out := settleFirst(t, next, &aliquotv1.SettleRequest{Id: id, Costs: map[string]int64{"tokens_in": 0}}); out.GetState() != engine.StateSettled {
		t.Fatalf("%v", out)
	}
	wantLeft(t, next, "settled by the next daemon", map[string]int64{"r1": 1000, "r2": 1500, "r3": 3, "r4": 5000})
}

// TestDeniedReservationTakesNothing, is not remembered, and may be tried again.
func TestDeniedReservationTakesNothing(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		d, _ := startLive(t, c)
		in := estimate("call-1")
		in.Costs["tokens_out"] = 1600
		first := reserveFor(t, d, in).GetId()
		in = estimate("call-2")
		out := reserveFor(t, d, in)
		if out.GetDecision().GetAllowed() || out.GetId() != "" || out.GetExpiresUnixMs() != 0 || out.GetDecision().GetDecisionId() == "" {
			t.Fatalf("%v", out)
		}
		wantLeft(t, d, "denied", map[string]int64{"r0": 99, "r1": 700, "r2": 400, "r3": 2})
		if code := storeCode(t, func() error {
			_, err := limiterClient(d).Settle(t.Context(), &aliquotv1.SettleRequest{Id: boundIn(t, d, in)})
			return err
		}); code != "not_found" {
			t.Errorf("settled what was denied: %s", code)
		}
		in.Costs["tokens_out"] = 5000
		if out := reserveFor(t, d, in); out.GetDecision().GetAllowed() || !out.GetDecision().GetNever() || out.GetId() != "" {
			t.Errorf("%v", out)
		}
		settleFirst(t, d, &aliquotv1.SettleRequest{Id: first, Costs: map[string]int64{"tokens_out": 100}})
		if out := reserveFor(t, d, estimate("call-2")); !out.GetDecision().GetAllowed() || out.GetId() == "" {
			t.Errorf("%v", out)
		}
	})
}

// TestReserveOffTheRules: who is on a list, or has no rule, reserves and settles too.
func TestReserveOffTheRules(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, `
whitelist: [vip]
blacklist: [bad]
rules:
  - id: r0
    match: {api_key_pattern: limited}
    params: {capacity: 10, refill_rate: 0.001}
`)
		d, _ := startLive(t, testConfig(l.address()))
		for key, mode := range map[string]string{"vip": modes.AllowList, "free": modes.NoRule} {
			in := &aliquotv1.ReserveRequest{Attributes: map[string]string{"api_key": key}, Id: key}
			out := reserveFor(t, d, in)
			if !out.GetDecision().GetAllowed() || out.GetDecision().GetMode() != mode || out.GetId() == "" {
				t.Errorf("%s: %v", key, out)
			}
			if again := reserveFor(t, d, in); !proto.Equal(again, out) {
				t.Errorf("%s again: %v", key, again)
			}
			if out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: out.GetId()}); out.GetState() != engine.StateSettled || len(out.GetLimits()) != 0 {
				t.Errorf("%s: %v", key, out)
			}
		}
		if out := reserveFor(t, d, &aliquotv1.ReserveRequest{Attributes: map[string]string{"api_key": "bad"}}); out.GetDecision().GetAllowed() || out.GetId() != "" {
			t.Errorf("%v", out)
		}
	})
}

// TestReserveWithoutTheStore decides by the fallback, and a settlement is to be tried again. The limit is independent, because a lease may end on a busy machine, and a bucket
// that is smaller then has no room for what comes back.
func TestReserveWithoutTheStore(t *testing.T) {
	l := newLeader(t, `
rules:
  - id: r0
    enforcement: independent
    on_redis_failure: open
    params: {capacity: 10, refill_rate: 0.001}
`)
	redis := startRedis(t)
	c := testConfig(l.address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	in := &aliquotv1.ReserveRequest{Attributes: client7}
	var before string
	eventually(t, "the store remembers the request", func() bool {
		out := reserveFor(t, d, in)
		before = out.GetId()
		return out.GetDecision().GetMode() == modes.Store
	})
	redis.signal(syscall.SIGSTOP)
	in.Id = "without"
	out := reserveFor(t, d, in)
	if !out.GetDecision().GetAllowed() || out.GetDecision().GetMode() != modes.FailOpen || out.GetId() == "" {
		t.Errorf("%v", out)
	}
	end := &aliquotv1.SettleRequest{Id: before, Cost: proto.Int64(0)}
	if _, err := limiterClient(d).Settle(t.Context(), end); rpcCode(err) != "unavailable" {
		t.Errorf("%v", err)
	}
	redis.signal(syscall.SIGCONT)
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("the last answer was %s", last)
		}
	}()
	eventually(t, "the store is back", func() bool {
		out, err := limiterClient(d).Settle(t.Context(), end)
		last = fmt.Sprint(out, err)
		return err == nil && (out.GetState() == engine.StateSettled || out.GetState() == engine.StateAlready) && out.GetLimits()[0].GetRefunded() == 1
	})
}

// TestHierarchy is the table of docs/reference/reserve.md: org > project > key, all or nothing.
func TestHierarchy(t *testing.T) {
	const rules = `
defaults: {enforcement: independent, on_redis_failure: closed, params: {refill_rate: 0.001}}
rules:
  - {id: r0, unit: tokens_out, key: [org], params: {capacity: 100000}}
  - {id: r1, unit: tokens_out, key: [org, project], params: {capacity: 30000}}
  - {id: r2, unit: tokens_out, key: [api_key], params: {capacity: 10000}}
`
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, rules).address()))
		ids := map[string]string{}
		reserve := func(key string) *aliquotv1.CheckResponse {
			out := reserveFor(t, d, &aliquotv1.ReserveRequest{
				Id: key, Attributes: map[string]string{"org": "acme", "project": "search", "api_key": key},
				Costs: map[string]int64{"tokens_out": 9000},
			})
			ids[key] = out.GetId()
			return out.GetDecision()
		}
		want := func(when string, got *aliquotv1.CheckResponse, allowed bool, left ...int64) {
			t.Helper()
			for i, l := range got.GetLimits() {
				if got.GetAllowed() != allowed || l.GetRemaining() != left[i] {
					t.Errorf("%s: allowed %v, %s has %d left, want %d", when, got.GetAllowed(), l.GetRuleId(), l.GetRemaining(), left[i])
				}
			}
		}
		want("a", reserve("a"), true, 91_000, 21_000, 1000)
		want("b", reserve("b"), true, 82_000, 12_000, 1000)
		want("c", reserve("c"), true, 73_000, 3000, 1000)
		denied := reserve("d")
		want("d", denied, false, 73_000, 3000, 10_000)
		if denied.GetRuleId() != "r1" {
			t.Errorf("%s denied it", denied.GetRuleId())
		}
		out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: ids["a"], Costs: map[string]int64{"tokens_out": 1000}})
		for _, l := range out.GetLimits() {
			if l.GetRefunded() != 8000 {
				t.Errorf("%v", l)
			}
		}
		want("d again", reserve("d"), true, 72_000, 2000, 1000)
	})
}

// TestReserveAndSettleAtOnce: whichever call is first, a reservation is charged once and settled
// once, and everybody hears the same of it.
func TestReserveAndSettleAtOnce(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		const callers = 16
		d, _ := startLive(t, c)
		var all sync.WaitGroup
		answers, ends := make([]*aliquotv1.ReserveResponse, callers), make([]*aliquotv1.SettleResponse, callers)
		for i := range callers {
			all.Go(func() { answers[i] = reserveFor(t, d, estimate("call-1")) })
		}
		all.Wait()
		for _, a := range answers {
			if !proto.Equal(a, answers[0]) {
				t.Errorf("%v\nand %v", a, answers[0])
			}
		}
		wantLeft(t, d, "reserved", map[string]int64{"r0": 99, "r1": 700, "r2": 1500, "r3": 2, "r4": 4700})
		var settled, again atomic.Int64
		for i := range callers {
			all.Go(func() {
				var missed bool
				ends[i], missed = settleOf(t, d, &aliquotv1.SettleRequest{Id: answers[0].GetId(), Costs: map[string]int64{"tokens_in": int64(10 * i)}})
				if missed {
					again.Add(1)
				}
				if ends[i].GetState() == engine.StateSettled {
					settled.Add(1)
				}
			})
		}
		all.Wait()
		if n := settled.Load(); n > 1 || n == 0 && again.Load() == 0 || t.Failed() {
			t.Fatalf("%d callers settled it: %v", n, ends)
		}
		first := ends[0].GetLimits()[1].GetUsed()
		for _, e := range ends {
			if e.GetLimits()[1].GetUsed() != first {
				t.Errorf("%v; the first said %d", e, first)
			}
		}
		wantLeft(t, d, "settled", map[string]int64{"r1": 1000 - first, "r3": 3, "r4": 5000 - first})
	})
}
