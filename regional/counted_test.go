package regional

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
)

// askFor sends one check and returns the whole answer.
func askFor(t *testing.T, d *Daemon, in *aliquotv1.CheckRequest) *aliquotv1.CheckResponse {
	t.Helper()
	out, err := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr()).Check(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestUnits: each rule counts what it names, a request that has none of it is not
// limited by it, and a slot is one where nothing is said.
func TestUnits(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, `
defaults: {enforcement: independent}
rules:
  - id: r0
    params: {capacity: 100, refill_rate: 0.001}
  - id: r1
    unit: tokens_in
    params: {capacity: 1000, refill_rate: 0.001}
  - id: r2
    algorithm: concurrency
    match: {attributes: {model: large}}
    params: {limit: 3, window: 3600}
`).address())
		d, _ := startLive(t, c)
		for _, step := range []struct {
			model   string
			cost    int64
			costs   map[string]int64
			allowed bool
			left    []int64 // by rule
			never   bool
		}{
			{"", 1, nil, true, []int64{99}, false},
			{"", 2, map[string]int64{"tokens_in": 400}, true, []int64{97, 600}, false},
			{"", 1, map[string]int64{"tokens_in": 601}, false, []int64{97, 600}, false},
			{"", 1, map[string]int64{"tokens_in": 1001}, false, []int64{0}, true},
			{"", 1, map[string]int64{"tokens_out": 1}, true, []int64{96}, false},
			{"large", 1, map[string]int64{"tokens_in": 100}, true, []int64{95, 500, 2}, false},
			{"large", 5, map[string]int64{"concurrency": 2}, true, []int64{90, 0}, false},
			{"large", 5, nil, false, []int64{90, 0}, false},
		} {
			in := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}, Cost: &step.cost, Costs: step.costs}
			if step.model != "" {
				in.Attributes["model"] = step.model
			}
			a := askFor(t, d, in)
			var left []int64
			for _, l := range a.GetLimits() {
				left = append(left, l.GetRemaining())
			}
			if a.GetAllowed() != step.allowed || a.GetNever() != step.never || !slices.Equal(left, step.left) {
				t.Fatalf("%+v: %v", step, a)
			}
		}
	})
}

// TestInvalidCosts: errors name the field and the bound, and nothing is charged.
func TestInvalidCosts(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, oneRule).address()))
		var many []string
		for i := range 16 + 1 {
			many = append(many, fmt.Sprintf(`"u%d":1`, i))
		}
		for costs, want := range map[string]string{
			`{"tokens_in":0}`:                       "at least 1",
			`{"tokens_in":-1}`:                      "at least 1",
			`{"tokens_in":1000000000001}`:           "at most",
			`{"tokens_in":9223372036854775808}`:     "",
			`{"tokens_in":1.5}`:                     "",
			`{"requests":1}`:                        "say it as cost",
			`{"":1}`:                                "1 to 64 bytes",
			`{"` + strings.Repeat("u", 65) + `":1}`: "1 to 64 bytes",
			`{` + strings.Join(many, ",") + `}`:     "more than 16",
		} {
			a := post(t, d, `{"attributes":{"api_key":"k"},"costs":`+costs+`}`)
			if a.Code != "invalid_argument" || !strings.Contains(a.Message, want) || len(a.Message) > 300 {
				t.Errorf("%.40s: %+v", costs, a)
			}
		}
		if a := check(t, d, "k"); a.Remaining != 49 {
			t.Errorf("%d left of half of 100", a.Remaining)
		}
	})
}

// TestQueue: a leaky bucket in mode queue tells when to proceed, one that is a meter
// does not, and the longest of several queues is the request's.
func TestQueue(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, `
defaults: {algorithm: leaky_bucket, enforcement: independent}
rules:
  - id: r0
    params: {capacity: 10, refill_rate: 0.002}
    mode: queue
  - id: r1
    match: {attributes: {slow: "yes"}}
    params: {capacity: 10, refill_rate: 0.0005}
    mode: queue
  - id: r2
    params: {capacity: 100, refill_rate: 0.01}
`).address()))
		between := func(what string, got time.Duration, least, most time.Duration) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s: %v, want %v to %v", what, got, least, most)
			}
		}
		slow := &aliquotv1.CheckRequest{Attributes: map[string]string{"slow": "yes"}}
		if a := askFor(t, d, slow); !a.GetAllowed() || a.GetDelay().AsDuration() != 0 {
			t.Errorf("the first waits: %v", a)
		}
		a := askFor(t, d, &aliquotv1.CheckRequest{})
		between("the second", a.GetDelay().AsDuration(), 400*time.Second, 500*time.Second)
		a = askFor(t, d, slow)
		between("the slower queue", a.GetDelay().AsDuration(), 1900*time.Second, 2000*time.Second)
		if last := a.GetLimits()[2]; last.GetDelay().AsDuration() != 0 || last.GetAlgorithm() != "leaky_bucket" {
			t.Errorf("a meter: %v", last)
		}
		ten := int64(10)
		if a := askFor(t, d, &aliquotv1.CheckRequest{Cost: &ten}); a.GetAllowed() || a.GetDelay().AsDuration() != 0 {
			t.Errorf("one that is denied waits: %v", a)
		}
	})
}

// TestCountedWithoutTheStore: of a limit that counts memory admits what the store said was left; of one that it
// knows nothing of nothing, and then a bucket beside it is not charged.
func TestCountedWithoutTheStore(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, `
rules:
  - id: r0
    params: {capacity: 10, refill_rate: 2}
  - id: r1
    algorithm: fixed_window
    params: {limit: 10, window: 3600}
`).address()))
		unknown := planOf(d, "unknown").Groups
		d.limiter.FallBack(unknown)
		if g := unknown[0]; g.Allowed || g.Out[1].Mode != modes.Emergency || g.Out[1].Decision.RetryAfter != storeguard.Deadline || !g.Out[1].Unknown {
			t.Errorf("a key of which nothing is known, a moment after the start: %+v", g.Out)
		}
		if d.emergency.Owes() {
			t.Error("a key owes what was denied")
		}
		store := 0
		for check(t, d, "k").Allowed {
			if store++; store == 2 {
				break
			}
		}
		memory := 0
		for {
			groups := planOf(d, "k").Groups
			if d.limiter.FallBack(groups); !groups[0].Allowed {
				break
			}
			memory++
		}
		if store != 2 || memory == 0 || store+memory > 5 {
			t.Errorf("the store admitted %d and memory %d of the region's 5", store, memory)
		}
	})
}

// TestSlotNames: none comes twice, and none is 0 or beyond what a store counts exactly.
func TestSlotNames(t *testing.T) {
	for _, start := range []uint64{1, 1 << 40, limit.MaxExact - 5, 1<<64 - 5} {
		n, seen := charge.NewSlotNames(start), map[uint64]bool{}
		for range 10 {
			name := n.Next()
			if name == 0 || name > limit.MaxExact || seen[name] {
				t.Errorf("from %d: %d", start, name)
			}
			seen[name] = true
		}
	}
}
