package regional

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/regional/internal/engine"
	"aliquot/rules"
)

// TestReserveTakesWhatIsBorrowedAlong: of clients that are busy all there is can be reserved,
// also what is on its way here just then, unless it leaves once more before the second try;
// and again is answered as at first.
func TestReserveTakesWhatIsBorrowedAlong(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, strictRule(2000, slow, "")).address()))
		const clients = 20
		reserved := 0
		for i := range clients {
			attributes := map[string]string{"api_key": fmt.Sprint("k", i)}
			key := planOf(d, attributes["api_key"]).Groups[0].Charges[0].Key
			passed := int64(0)
			eventually(t, "a chunk", func() bool {
				for range 10 {
					out, err := d.service.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: attributes})
					if err != nil || !out.GetAllowed() {
						t.Fatalf("%v, %v", out, err)
					}
					passed++
				}
				return d.auth.Local.Left(key) > 0
			})
			in := &aliquotv1.ReserveRequest{Attributes: attributes, Id: attributes["api_key"], Cost: proto.Int64(1000 - passed)}
			first := reserveFor(t, d, in)
			if first.GetId() == "" {
				continue
			}
			reserved++
			if again := reserveFor(t, d, in); !proto.Equal(again, first) {
				t.Errorf("answered %v, at first %v", again, first)
			}
		}
		if reserved != clients {
			t.Errorf("%d of %d reserved all there is", reserved, clients)
		}
	})
}

// TestShadowOfAReservationIsChargedOnce: where the limits that can deny are asked once more,
// because tokens were on their way here, a shadow is not; it is repeated and settled with the
// others all the same.
func TestShadowOfAReservationIsChargedOnce(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, `
defaults: {enforcement: independent, params: {refill_rate: 0.001}}
rules:
  - {id: r0, params: {capacity: 10}}
  - {id: r1, unit: tokens_out, shadow: true, params: {capacity: 1000}}
  - {id: r2, unit: tokens_in, shadow: true, algorithm: sliding_window_log, params: {limit: 1000, window: 3600}}
  - {id: r3, unit: tokens_in, shadow: true, params: {capacity: 40}}
`).address())
		d, _ := startLive(t, c)
		in := &aliquotv1.ReserveRequest{
			Attributes: map[string]string{"api_key": "k"}, Id: "b", Cost: proto.Int64(5), Costs: map[string]int64{"tokens_out": 400, "tokens_in": 30},
		}
		p := d.policies.Load()
		r := engine.Reserving{ID: boundIn(t, d, in), TTL: time.Minute, Patience: time.Minute, Request: charge.Request{
			Attributes: rules.AttributesOf(in.GetAttributes()), Cost: 5 * limit.Token, Costs: rules.CostsOf(in.GetCosts()),
		}}
		want := func(when string, want ...limit.Tokens) {
			t.Helper()
			var got []limit.Tokens
			seen, err := d.limiter.Peek(t.Context(), p, &r.Request)
			for _, g := range seen.Groups {
				got = append(got, g.Out[0].Found.Tokens/limit.Token)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s %v are left, want %v: %v", when, got, want, err)
			}
		}
		eight := reserveFor(t, d, &aliquotv1.ReserveRequest{Attributes: in.GetAttributes(), Id: "a", Cost: proto.Int64(8)}).GetId()
		first := &planOf(d, "k").Groups[0].Charges[0]
		var e *charge.Entry
		for range charge.AdmitAfter {
			e = d.auth.Local.Admit(charge.AppendName(nil, first.Key.Rule, first.Rule, &r.Request), first.Key, d.auth.Now())
		}
		e.WhileLocked(func() { e.Rule, e.Limit = first.Rule, first.Limit })
		chargetest.Use(e, d.auth.Now())
		chargetest.Use(e, d.auth.Now())
		call := chargetest.Asks(d.auth.Local, e, d.auth.Now())
		var out engine.ReserveResult
		done := make(chan error, 1)
		go func() {
			var err error
			out, err = d.limiter.Reserve(t.Context(), &r)
			done <- err
		}()
		synctest.Wait() // for what is on its way
		want("asked once", 2, 600, 970, 10)
		settleFirst(t, d, &aliquotv1.SettleRequest{Id: eight, Cost: proto.Int64(0)})
		charge.NotExecuted([]*charge.Transaction{call})
		if err := <-done; err != nil || !out.Made {
			t.Errorf("%v, made: %v", err, out.Made)
		}
		want("asked twice", 5, 600, 970, 10)
		again := reserveFor(t, d, in)
		if n := len(again.GetDecision().GetLimits()); n != 4 {
			t.Errorf("asked again, %d limits are told of: %v", n, again)
		}
		for i, l := range again.GetDecision().GetLimits() {
			if want := []int64{5, 600, 970, 10}[i]; l.GetRemaining() != want {
				t.Errorf("asked again: %v, want %d left", l, want)
			}
		}
		settleFirst(t, d, &aliquotv1.SettleRequest{Id: again.GetId(), Costs: map[string]int64{"tokens_out": 100, "tokens_in": 10}})
		want("settled", 5, 900, 990, 30)
	})
}
