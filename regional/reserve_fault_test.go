package regional

import (
	"syscall"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"

	"aliquot/regional/internal/engine"
)

// TestReservationsAcrossAFault: the store of a region stops while a call of 400 tokens and one slot is under way. After
// that the call is settled once, and its slot is free once. What is reserved meanwhile is settled once after the fault,
// whether or not the store had still heard the request. A slot is given out and is free once, too.
func TestReservationsAcrossAFault(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	c := testConfig(newLeader(t, `
defaults: {enforcement: independent, key: [api_key], params: {refill_rate: 0.001}}
rules:
  - {id: r0, params: {capacity: 100}}
  - {id: r1, unit: tokens_out, params: {capacity: 1000}}
  - {id: r2, unit: calls, algorithm: concurrency, params: {limit: 10, window: 3600}}
`).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	of := func(id string, costs map[string]int64) *aliquotv1.ReserveRequest {
		return &aliquotv1.ReserveRequest{Id: id, Attributes: client7, Costs: costs}
	}
	// settledOnce settles what a request has reserved, twice, and returns what came back of its last limit.
	settledOnce := func(r *aliquotv1.ReserveResponse, costs map[string]int64) (refunded int64) {
		t.Helper()
		if r.GetId() == "" {
			t.Fatalf("not reserved: %v", r)
		}
		end := &aliquotv1.SettleRequest{Id: r.GetId(), Costs: costs}
		out := settleFirst(t, d, end)
		if out.GetState() != engine.StateSettled {
			t.Errorf("settled after the fault: %v", out)
		}
		if twice, _ := settleOf(t, d, end); twice.GetState() != engine.StateAlready {
			t.Errorf("settled twice: %v", twice)
		}
		return out.GetLimits()[len(out.GetLimits())-1].GetRefunded()
	}
	var before *aliquotv1.ReserveResponse
	eventually(t, "the store remembers the call", func() bool {
		before = reserveFor(t, d, of("before", map[string]int64{"tokens_out": 400, "calls": 1}))
		return before.GetId() != ""
	})
	redis.signal(syscall.SIGSTOP)
	during, slot := of("during", map[string]int64{"tokens_out": 100}), of("slot", map[string]int64{"calls": 1})
	held := reserveFor(t, d, during)
	if out := held; !out.GetDecision().GetAllowed() || out.GetId() == "" {
		t.Errorf("tokens during the fault: %v", out)
	}
	second := reserveFor(t, d, slot)
	if out := second; !out.GetDecision().GetAllowed() || out.GetId() == "" {
		t.Errorf("a slot during the fault: %v", out)
	}
	redis.signal(syscall.SIGCONT)
	if freed := settledOnce(before, map[string]int64{"tokens_out": 150}); freed != 1 {
		t.Errorf("%d slots of the call before the fault are free, want 1", freed)
	}
	if again := reserveFor(t, d, slot); again.GetId() != second.GetId() {
		t.Errorf("the same request after the fault has %v, and had %v", again, second)
	}
	if refunded := settledOnce(held, map[string]int64{"tokens_out": 0}); refunded != 100 {
		t.Errorf("%d came back of 100 that were not used", refunded)
	}
	if freed := settledOnce(second, nil); freed != 1 {
		t.Errorf("%d slots are free, want 1", freed)
	}
	// A call that came late on a busy machine may have taken a slot of its own until it ends.
	for range 3 {
		if out := reserveFor(t, d, of("", map[string]int64{"calls": 1})); !out.GetDecision().GetAllowed() {
			t.Errorf("a slot is not free after the fault: %v", out)
		}
	}
	// A call that the store had still heard may have been charged besides: the one before, or that during the fault.
	if got := left(t, d)["r1"]; got > 850 || got < 850-400-100 {
		t.Errorf("%d left of 1000, 150 were used", got)
	}
}
