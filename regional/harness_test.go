package regional

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/modes"
)

const second = budget.Instant(time.Second)

// pollFor bounds the wait for a condition that should come about in a few seconds. A machine may be a hundred times
// as busy.
const pollFor = 3 * time.Minute

// eventually polls until done holds.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !polled(done) {
		t.Fatalf("not within %v: %s", pollFor, what)
	}
}

// polled is eventually for any goroutine: it reports whether done came to hold.
func polled(done func() bool) bool {
	deadline := time.After(pollFor)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func testConfig(coordinators ...string) Config {
	c := DefaultConfig()
	c.Region = "us"
	c.Listen, c.GRPCListen, c.OpsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Coordinators = coordinators
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

// start runs a daemon, changed before it runs, until the test ends, or until stop is called. In a bubble the daemon
// is in the test's network.
func start(t testing.TB, c Config, change ...func(*Daemon)) (d *Daemon, stop func()) {
	t.Helper()
	if n := networkOf(t); n != nil {
		n.enter(&c)
		change = append(change, n.join)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.drainWithin = 100 * time.Millisecond // the connections of tests are idle
	for _, f := range change {
		f(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return d, stop
}

// startLive is start, and waits for the first lease.
func startLive(t testing.TB, c Config, change ...func(*Daemon)) (*Daemon, func()) {
	t.Helper()
	d, stop := start(t, c, change...)
	select {
	case <-d.Ready():
	case <-time.After(pollFor):
		t.Fatalf("no lease within %v", pollFor)
	}
	return d, stop
}

// answerOf is a JSON answer.
type answerOf struct {
	Status     int
	Code       string `json:"code"`
	Message    string `json:"message"`
	Allowed    bool   `json:"allowed"`
	RuleID     string `json:"ruleId"`
	Limit      int64  `json:"limit,string"`
	Remaining  int64  `json:"remaining,string"`
	RetryAfter string `json:"retryAfter"`
	Mode       string `json:"mode"`
	Reason     string `json:"reason"`
	Never      bool   `json:"never"`
	Problem    string `json:"problem"`
	DecisionID string `json:"decisionId"`
	Limits     []struct {
		RuleID  string `json:"ruleId"`
		Allowed bool   `json:"allowed"`
		Mode    string `json:"mode"`
	} `json:"limits"`
}

// wait is how long a denial says to wait.
func (a *answerOf) wait(t *testing.T) time.Duration {
	t.Helper()
	wait, err := time.ParseDuration(a.RetryAfter)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

// post sends a raw body to Check.
func post(t *testing.T, d *Daemon, body string) answerOf {
	t.Helper()
	resp, err := clientOf(d).Post("http://"+d.Addr()+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answerOf{Status: resp.StatusCode}
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return a
}

func check(t *testing.T, d *Daemon, apiKey string) answerOf {
	t.Helper()
	return post(t, d, fmt.Sprintf(`{"attributes":{"api_key":%q}}`, apiKey))
}

// burst counts the checks that pass until the store denies one. On a busy machine a
// call may miss its deadline; what the emergency limit says then does not count.
func burst(t *testing.T, d *Daemon, apiKey string) (passed int) {
	t.Helper()
	for range 2000 {
		var a answerOf
		eventually(t, "no emergency limit decides", func() bool {
			a = check(t, d, apiKey)
			return a.Mode != modes.Emergency
		})
		switch {
		case a.Status != http.StatusOK:
			t.Fatalf("status %d: %s", a.Status, a.Message)
		case !a.Allowed:
			return passed
		}
		passed++
	}
	t.Fatal("nothing was denied")
	return 0
}

// exhaust has checks pass until the store denies one, as burst does. It sends many at once, so that no refill outpaces them,
// however busy the machine is.
func exhaust(t *testing.T, d *Daemon, apiKey string) {
	t.Helper()
	one := fmt.Sprintf(`{"attributes":{"api_key":%q}}`, apiKey)
	batch := `{"requests":[` + strings.Repeat(one+",", 63) + one + `]}`
	eventually(t, "the store denies", func() bool {
		resp, err := clientOf(d).Post("http://"+d.Addr()+"/aliquot.v1.LimiterService/CheckBatch", "application/json", strings.NewReader(batch))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out struct {
			Results []struct{ Response answerOf }
		}
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(out.Results, func(r struct{ Response answerOf }) bool {
			return !r.Response.Allowed && byTheLimit(r.Response.Mode)
		})
	})
}

// exactly is for what a store admitted: never more than is right, and less only if a
// daemon on a busy machine missed a deadline, which may cost a client something. In a bubble no machine is busy.
func exactly(t *testing.T, what string, got, want int, daemons ...*Daemon) {
	t.Helper()
	late := func() bool { return networkOf(t) == nil && slices.ContainsFunc(daemons, missedDeadlines(t)) }
	if got > want || got < want && !late() {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

// missedDeadlines reports whether a call of a daemon's store has failed, or a chunk was lost for that.
func missedDeadlines(t *testing.T) func(*Daemon) bool {
	return func(d *Daemon) bool {
		all, err := d.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.GetName() == "aliquot_store_errors_total" || f.GetName() == "aliquot_chunks_lost_total" && f.GetMetric()[0].GetCounter().GetValue() > 0 {
				return true
			}
		}
		return false
	}
}

// phase waits for the daemon to be in a phase. One that passes by itself is seen in a bubble only: another machine may
// be too busy to look at it in time.
func phase(t testing.TB, d *Daemon, want budget.Phase) {
	t.Helper()
	passes := want == budget.Limbo && networkOf(t) == nil
	eventually(t, "phase "+want.String(), func() bool {
		got := d.auth.Info().Phase
		return got == want || passes && got == budget.CutOff
	})
}

// stalls watches from now on for the machine standing still, and tells how long it did at the
// longest.
func stalls(t testing.TB) (longest func() time.Duration) {
	var mu sync.Mutex
	var most time.Duration
	last := time.Now()
	look := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		most, last = max(most, now.Sub(last)), now
		return most
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			look()
		}
	}()
	return look
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// byTheLimit: a limit decided, by the store or by what was borrowed from it, and not what
// takes its place while the store does not answer.
func byTheLimit(mode string) bool { return mode == modes.Store || mode == modes.Local }
