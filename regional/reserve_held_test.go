package regional

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"

	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
)

// heldRules are limits of every kind.
const heldRules = `
defaults: {enforcement: independent, key: [api_key]}
rules:
  - {id: r0, unit: tokens_out, params: {capacity: 1000, refill_rate: 0.001}}
  - {id: r1, unit: tokens_out, algorithm: leaky_bucket, params: {capacity: 1000, refill_rate: 0.001}}
  - {id: r2, unit: tokens_out, algorithm: fixed_window, params: {limit: 1000, window: 31536000}}
  - {id: r3, unit: tokens_out, algorithm: sliding_window_counter, params: {limit: 1000, window: 31536000}}
  - {id: r4, unit: tokens_out, algorithm: sliding_window_log, params: {limit: 1000, window: 31536000}}
  - {id: r5, unit: requests, params: {capacity: 100, refill_rate: 0.001}}
  - {id: r6, algorithm: concurrency, params: {limit: 10, window: 3600}}
`

// hundredTokens is a request for 100 tokens out.
func hundredTokens(id string) *aliquotv1.ReserveRequest {
	return &aliquotv1.ReserveRequest{
		Id: id, Attributes: client7, Costs: map[string]int64{"tokens_out": 100}, Ttl: durationpb.New(time.Hour),
	}
}

// startKnowing starts a daemon whose store has answered about client7. On a busy machine the first calls of the store are
// late, and each takes 100 tokens and a slot: there is room for nine.
func startKnowing(t *testing.T, c Config) (d *Daemon, stop func()) {
	t.Helper()
	d, stop = startLive(t, c)
	eventually(t, "the store answers", func() bool {
		return reserveFor(t, d, hundredTokens("")).GetDecision().GetMode() == modes.Store
	})
	return d, stop
}

// TestReservedWithoutTheStore: a request that is admitted without the store has a reservation. The same request is
// answered alike. After the fault it is settled once. Buckets get back what was not used, also in other contents of the
// store. Counting limits get it back where it is known which window was charged.
func TestReservedWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin, end func(*redisServer)
		refunded   map[string]int64
	}{
		"stopped": {
			func(r *redisServer) { r.signal(syscall.SIGSTOP) }, func(r *redisServer) { r.signal(syscall.SIGCONT) },
			map[string]int64{"r0": 70, "r1": 70, "r2": 70, "r3": 70},
		},
		"killed": {(*redisServer).kill, (*redisServer).start, map[string]int64{"r0": 70, "r1": 70, "r2": 0, "r3": 0, "r4": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t)
			c := testConfig(newLeader(t, heldRules).address())
			c.Redis = redis.url()
			d, _ := startKnowing(t, c)
			fault.begin(redis)
			in := hundredTokens("during")
			out := reserveFor(t, d, in)
			if !out.GetDecision().GetAllowed() || out.GetId() == "" {
				t.Fatalf("reserved without the store: %v", out)
			}
			again := reserveFor(t, d, in)
			if again.GetId() != out.GetId() || again.GetExpiresUnixMs() != out.GetExpiresUnixMs() || again.GetDecision().GetMode() != modes.Emergency {
				t.Errorf("the same request is answered %v, and was %v", again, out)
			}
			other := hundredTokens("during")
			other.Costs["tokens_out"]++
			if _, err := limiterClient(d).Reserve(t.Context(), other); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("another request with the same id: %v", err)
			}
			end := &aliquotv1.SettleRequest{Id: out.GetId(), Costs: map[string]int64{"tokens_out": 30}}
			if settled, err := limiterClient(d).Settle(t.Context(), end); connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("settled without the store: %v, %v", settled, err)
			}
			fault.end(redis)
			settled := settleFirst(t, d, end)
			for _, l := range settled.GetLimits() {
				if l.GetRuleId() == "r6" && l.GetRefunded() > 1 { // 0: it was given back before the store knew of it
					t.Errorf("settled: %v, want one slot back at most", l)
				}
				want, known := fault.refunded[l.GetRuleId()]
				if known && (l.GetUsed() != 30 || l.GetReserved() != 100 || l.GetRefunded() != want) {
					t.Errorf("settled: %v, want %d back", l, want)
				}
			}
			if twice, _ := settleOf(t, d, end); twice.GetState() != engine.StateAlready {
				t.Errorf("settled twice: %v", twice)
			}
			for rule, n := range left(t, d) {
				if n > 1000-100-30 {
					t.Errorf("%d left of %s, 130 of 1000 were used", n, rule)
				}
			}
		})
	}
}

// TestHeldReservationsReachTheStore: what a daemon reserved without its store is in the store soon after the fault, so
// that the daemon's successor settles it.
func TestHeldReservationsReachTheStore(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	c := testConfig(newLeader(t, heldRules).address())
	c.Redis = redis.url()
	d, stop := startKnowing(t, c)
	redis.kill()
	out := reserveFor(t, d, hundredTokens("during"))
	if !out.GetDecision().GetAllowed() {
		t.Fatalf("reserved without the store: %v", out)
	}
	redis.start()
	eventually(t, "the store remembers the reservation", func() bool { return strings.Contains(redis.reply("KEYS *:r"), ":r") })
	stop()
	d, _ = startLive(t, c)
	if settled := settleFirst(t, d, &aliquotv1.SettleRequest{Id: out.GetId()}); settled.GetState() != engine.StateSettled {
		t.Errorf("settled by the next daemon: %v", settled)
	}
}
