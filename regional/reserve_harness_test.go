package regional

import (
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// llm is requests, tokens in and out by org, and slots, without anything earned. Nothing
// passes without the store.
const llm = `
defaults: {enforcement: independent, on_redis_failure: closed, params: {refill_rate: 0.001}}
rules:
  - id: r0
    key: [api_key]
    params: {capacity: 100}
  - id: r1
    unit: tokens_in
    key: [api_key]
    params: {capacity: 1000}
  - id: r2
    unit: tokens_out
    key: [org]
    params: {capacity: 2000}
  - id: r3
    algorithm: concurrency
    key: [api_key]
    params: {limit: 3, window: 3600}
  - id: r4
    unit: tokens_in
    algorithm: fixed_window
    key: [api_key]
    params: {limit: 5000, window: 86400}
  - id: r5
    unit: tokens_out
    shadow: true
    key: [api_key]
    params: {capacity: 400}
`

func limiterClient(d *Daemon) aliquotv1connect.LimiterServiceClient {
	return aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
}

// reserveFor reserves, once more by the same id if the store missed a deadline and the rules
// fail closed: that charges nothing twice.
func reserveFor(t *testing.T, d *Daemon, in *aliquotv1.ReserveRequest) (out *aliquotv1.ReserveResponse) {
	t.Helper()
	var err error
	if !polled(func() bool {
		out, err = limiterClient(d).Reserve(t.Context(), in)
		return err != nil || out.GetDecision().GetMode() != modes.FailClosed
	}) {
		t.Errorf("the store does not decide: %v", out)
	}
	if err != nil {
		t.Error(err)
	}
	return out
}

// boundIn is the id that Reserve would answer a request with.
func boundIn(t *testing.T, d *Daemon, in *aliquotv1.ReserveRequest) string {
	t.Helper()
	r := charge.Request{Attributes: rules.AttributesOf(in.GetAttributes()), Namespace: in.GetNamespace()}
	return engine.BoundID(d.policies.Load().Hasher, &r, in.GetId())
}

// settleOf settles, once more if the store missed a deadline; again says that it did, and
// maybe settled it all the same.
func settleOf(t *testing.T, d *Daemon, in *aliquotv1.SettleRequest) (out *aliquotv1.SettleResponse, again bool) {
	t.Helper()
	var err error
	polled(func() bool {
		out, err = limiterClient(d).Settle(t.Context(), in)
		again = again || err != nil
		return err == nil || rpcCode(err) != "unavailable"
	})
	if err != nil {
		t.Error(err)
	}
	return out, again
}

// settleFirst is settleOf for who is the first to settle a reservation.
func settleFirst(t *testing.T, d *Daemon, in *aliquotv1.SettleRequest) *aliquotv1.SettleResponse {
	t.Helper()
	out, again := settleOf(t, d, in)
	if again && out.GetState() == engine.StateAlready {
		out.State = engine.StateSettled
	}
	return out
}

// storeCode is how a call ends, made again where the store misses a deadline.
func storeCode(t *testing.T, call func() error) (code string) {
	t.Helper()
	eventually(t, "the store answers", func() bool {
		err := call()
		code = rpcCode(err)
		if err == nil {
			code = "ok"
		}
		return code != "unavailable"
	})
	return code
}

func rpcCode(err error) string { return connect.CodeOf(err).String() }

var client7 = map[string]string{"api_key": "k7", "org": "o1"}

// left is what each rule has for client7, by a request that is denied for ever.
func left(t *testing.T, d *Daemon) (out map[string]int64) {
	t.Helper()
	in := &aliquotv1.CheckRequest{Attributes: client7, Cost: proto.Int64(100), Costs: map[string]int64{"tokens_in": 1, "tokens_out": 1}}
	eventually(t, "the store says what is left", func() bool {
		out = map[string]int64{}
		for _, l := range askFor(t, d, in).GetLimits() {
			if l.GetMode() == modes.FailClosed {
				return false // it missed a deadline
			}
			out[l.GetRuleId()] = l.GetRemaining()
		}
		return true
	})
	return out
}

func wantLeft(t *testing.T, d *Daemon, when string, want map[string]int64) {
	t.Helper()
	got := left(t, d)
	for rule, n := range want {
		if got[rule] != n {
			t.Errorf("%s: rule %s has %d left, want %d (%v)", when, rule, got[rule], n, got)
		}
	}
}

// estimate reserves 300 tokens in and 500 out.
func estimate(id string) *aliquotv1.ReserveRequest {
	return &aliquotv1.ReserveRequest{
		Attributes: client7, Id: id, Costs: map[string]int64{"tokens_in": 300, "tokens_out": 500},
	}
}

// withReservations runs a test in a bubble, with a leader of the rules for reservations and a daemon's configuration.
func withReservations(t *testing.T, test func(t *testing.T, c Config, l *leader)) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, llm)
		test(t, testConfig(l.address()), l)
	})
}
