package regional

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"

	"aliquot/regional/internal/engine"
)

// TestReserveRefusesNonsense names what is wrong, and never a value.
func TestReserveRefusesNonsense(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, llm).address()))
		for name, edit := range map[string]func(*aliquotv1.ReserveRequest){
			"cost is 0":     func(r *aliquotv1.ReserveRequest) { r.Cost = proto.Int64(0) },
			"tokens_in":     func(r *aliquotv1.ReserveRequest) { r.Costs["tokens_in"] = -1 },
			"an id of 129":  func(r *aliquotv1.ReserveRequest) { r.Id = strings.Repeat("x", 129) },
			"ttl is 999ms":  func(r *aliquotv1.ReserveRequest) { r.Ttl = durationpb.New(999 * time.Millisecond) },
			"ttl is 1h0m1s": func(r *aliquotv1.ReserveRequest) { r.Ttl = durationpb.New(time.Hour + time.Second) },
			"ttl is -1s":    func(r *aliquotv1.ReserveRequest) { r.Ttl = durationpb.New(-time.Second) },
			"namespace":     func(r *aliquotv1.ReserveRequest) { r.Namespace = strings.Repeat("x", 65) },
		} {
			in := estimate("call-1")
			edit(in)
			if _, err := limiterClient(d).Reserve(t.Context(), in); rpcCode(err) != "invalid_argument" || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, edit := range map[string]func(*aliquotv1.SettleRequest){
			"an id of 0":    func(r *aliquotv1.SettleRequest) { r.Id = "" },
			"an id of 152":  func(r *aliquotv1.SettleRequest) { r.Id = strings.Repeat("x", 152) },
			"cost is -1":    func(r *aliquotv1.SettleRequest) { r.Cost = proto.Int64(-1) },
			`"tokens_in"`:   func(r *aliquotv1.SettleRequest) { r.Costs = map[string]int64{"tokens_in": -1} },
			"unit requests": func(r *aliquotv1.SettleRequest) { r.Costs = map[string]int64{"requests": 1} },
			"namespace":     func(r *aliquotv1.SettleRequest) { r.Namespace = strings.Repeat("x", 65) },
			"17 units": func(r *aliquotv1.SettleRequest) {
				r.Costs = map[string]int64{}
				for i := range 17 {
					r.Costs[fmt.Sprint(i)] = 1
				}
			},
		} {
			in := &aliquotv1.SettleRequest{Id: "call-1"}
			edit(in)
			if _, err := limiterClient(d).Settle(t.Context(), in); rpcCode(err) != "invalid_argument" || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		in := estimate("")
		if a, b := reserveFor(t, d, in), reserveFor(t, d, in); a.GetId() == "" || a.GetId() == b.GetId() {
			t.Errorf("ids %q and %q were made", a.GetId(), b.GetId())
		}
		if _, err := limiterClient(d).Settle(t.Context(), &aliquotv1.SettleRequest{Id: "call-1", Namespace: "another"}); rpcCode(err) != "not_found" {
			t.Errorf("%v", err)
		}
	})
}

// TestReservationThatCannotBeRead does no harm.
func TestReservationThatCannotBeRead(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, llm).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	id := boundIn(t, d, estimate("call-1"))
	name := engine.ReservationKey(d.policies.Load().Hasher, "", id)
	for _, text := range []string{"nonsense", `"00000000 1\n{}"`, `"zz 1\n{}"`, `"00000000 x\n{}"`, `"00000000 1 1 2\nnull\n3\n[]"`} {
		redis.say("SET " + name + " " + text)
		if out, err := limiterClient(d).Reserve(t.Context(), estimate("call-1")); err == nil && out.GetId() != "" {
			t.Errorf("%s: reserved %v", text, out)
		}
		if out, err := limiterClient(d).Settle(t.Context(), &aliquotv1.SettleRequest{Id: id}); err == nil {
			t.Errorf("%s: settled %v", text, out)
		}
	}
	redis.say("DEL " + name)
	redis.say("LPUSH " + name + " x")
	if out := reserveFor(t, d, estimate("call-1")); out.GetId() != id {
		t.Errorf("a key of another type: %v", out)
	}
}
