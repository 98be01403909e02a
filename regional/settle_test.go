package regional

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
)

// TestDebtDenies until it is paid, and is bounded by the capacity.
func TestDebtDenies(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		d, _ := startLive(t, c)
		id := reserveFor(t, d, estimate("call-1")).GetId()
		out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: id, Costs: map[string]int64{"tokens_in": maxCost, "tokens_out": 500}})
		if got := out.GetLimits()[1]; got.GetCharged() != 1700 || got.GetUsed() != maxCost {
			t.Errorf("%v; 700 were left, and 1000 may be owed", got)
		}
		in := &aliquotv1.CheckRequest{Attributes: client7, Costs: map[string]int64{"tokens_in": 1}}
		var answer *aliquotv1.CheckResponse
		eventually(t, "the store decides", func() bool {
			answer = askFor(t, d, in)
			return answer.GetMode() != modes.FailClosed
		})
		if answer.GetAllowed() || answer.GetRuleId() != "r1" || answer.GetRemaining() != 0 || answer.GetRetryAfter().AsDuration() < 1000*time.Second*999 {
			t.Errorf("%v; 1001 tokens at 0.001 a second are to be waited for", answer)
		}
	})
}

// TestExpiredReservationStands at its estimate; its slot is free.
func TestExpiredReservationStands(t *testing.T) {
	withReservations(t, func(t *testing.T, c Config, _ *leader) {
		d, _ := startLive(t, c)
		in := estimate("call-1")
		in.Ttl = durationpb.New(2 * time.Second)
		reserved := reserveFor(t, d, in)
		ends := time.UnixMilli(reserved.GetExpiresUnixMs())
		if n := left(t, d)["r3"]; n != 2 && time.Now().Before(ends) {
			t.Errorf("%d slots left of a reservation that ends at %v", n, ends)
		}
		eventually(t, "the slot is free", func() bool { return left(t, d)["r3"] == 3 })
		out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: reserved.GetId(), Costs: map[string]int64{"tokens_in": 0}})
		if l := out.GetLimits()[1]; out.GetState() != engine.StateExpired || l.GetUsed() != 300 || l.GetRefunded() != 0 {
			t.Errorf("%v", out)
		}
		wantLeft(t, d, "expired", map[string]int64{"r1": 700, "r2": 1500, "r4": 4700})
	})
}

// TestSettleAfterTheRulesChanged: a limit that is gone is left out, one that is larger now
// takes back by the new one, and the rest is settled.
func TestSettleAfterTheRulesChanged(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, llm)
		d, _ := startLive(t, testConfig(l.address()))
		id := reserveFor(t, d, estimate("call-1")).GetId()
		changed := strings.Replace(llm, "  - id: r2", "  - id: r6", 1)
		l.setRules(2, strings.Replace(changed, "capacity: 1000}", "capacity: 3000}", 1))
		eventually(t, "the rules are in force", func() bool { return d.policies.Load().Text.Version == 2 })
		out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: id, Costs: map[string]int64{"tokens_in": 100, "tokens_out": 100}})
		if out.GetState() != engine.StateSettled || out.GetLimits()[1].GetRefunded() != 200 || out.GetLimits()[2].GetRefunded() != 0 || out.GetLimits()[3].GetRefunded() != 1 {
			t.Fatalf("%v", out)
		}
		if got := left(t, d); got["r1"] != 900 || got["r6"] != 2000 || got["r3"] != 3 {
			t.Errorf("left %v", got)
		}
	})
}

// TestReservationOfLostContents: a store that lost its contents knows none.
func TestReservationOfLostContents(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, llm).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	id := reserveFor(t, d, estimate("call-1")).GetId()
	redis.say("FLUSHALL")
	if code := storeCode(t, func() error {
		_, err := limiterClient(d).Settle(t.Context(), &aliquotv1.SettleRequest{Id: id})
		return err
	}); code != "not_found" {
		t.Error(code)
	}
}

// TestSpareTokensGoToThePool: what a refund finds no room for, in the bucket of a share
// that has shrunk meanwhile, is reported as released.
func TestSpareTokensGoToThePool(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, `
rules:
  - id: r0
    enforcement: strict
    key: [api_key]
    params: {capacity: 100, refill_rate: 0.001}
`)
		d, _ := startLive(t, testConfig(l.address()))
		key := keyOf(d, "k7")
		l.lend(key, budget.Unit)
		id := reserveFor(t, d, &aliquotv1.ReserveRequest{Attributes: client7, Id: "call-1", Cost: proto.Int64(40)}).GetId()
		l.lend(key, budget.Unit/10)
		if out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: id, Cost: proto.Int64(0)}); out.GetLimits()[0].GetRefunded() >= 40 {
			t.Fatalf("%v; a tenth of 100 has no room for it", out)
		}
		eventually(t, "the spare tokens are reported", func() (told bool) {
			l.set(func() {
				for _, r := range l.reports {
					for _, k := range r.GetKeys() {
						told = told || k.GetRefundedMicro() == 40_000_000 && k.GetReleasedMicro() > 35_000_000
					}
				}
			})
			return told
		})
	})
}
