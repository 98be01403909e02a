package regional

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/modes"
)

const second = budget.Instant(time.Second)

// pollFor bounds the wait for a condition that should come about in a few seconds.
const pollFor = time.Minute

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

// start runs a daemon, changed before it runs, until the test ends, or until stop is called.
func start(t testing.TB, c Config, change ...func(*Daemon)) (d *Daemon, stop func()) {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
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
	resp, err := http.Post("http://"+d.Addr()+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(body))
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

// exactly is for what a store admitted: never more than is right, and less only if a
// daemon on a busy machine missed a deadline, which may cost a client something.
func exactly(t *testing.T, what string, got, want int, daemons ...*Daemon) {
	t.Helper()
	if got > want || got < want && !slices.ContainsFunc(daemons, missedDeadlines(t)) {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

// unlessLate runs what tells what is wrong, and once more, for others that ask, whom the number
// names, where the store of a busy machine has missed a deadline. What is wrong each time fails.
func unlessLate(t *testing.T, d *Daemon, test func(number string) (wrong string)) {
	t.Helper()
	for try := range mostTries {
		wrong := test(strconv.Itoa(try))
		if wrong == "" {
			return
		}
		if try == mostTries-1 || !missedDeadlines(t)(d) {
			t.Fatal(wrong)
		}
	}
}

// mostTries bounds what is tried again because a machine is busy: a fault fails each time.
const mostTries = 20

func missedDeadlines(t *testing.T) func(*Daemon) bool {
	return func(d *Daemon) bool {
		text := scrape(t, d)
		return strings.Contains(text, "aliquot_store_errors_total") || !strings.Contains(text, "\naliquot_chunks_lost_total 0\n")
	}
}

// undisturbed: no session ended but by a store or a leader that missed a deadline.
func undisturbed(t *testing.T, d *Daemon, l *leader) {
	t.Helper()
	if n := l.sessions(); n != 1 && !missedDeadlines(t)(d) && answers(t, d, "timeout") == 0 {
		t.Errorf("%d sessions; nothing should have ended the first", n)
	}
}

// phase waits for the daemon to be in a phase. One that passes by itself, a busy machine may
// not see; a test that looked all the time has to.
func phase(t testing.TB, d *Daemon, want budget.Phase) {
	t.Helper()
	stood := stalls(t)
	live := false
	eventually(t, "phase "+want.String(), func() bool {
		got := d.auth.Info().Phase
		if want == budget.Limbo && got == budget.CutOff {
			if live && stood() < aStall {
				t.Fatalf("phase %v without phase %v before", got, want)
			}
			return true
		}
		live = live || got == budget.Live
		return got == want
	})
}

// aStall is how long a machine must have stopped before a test of a time says nothing.
const aStall = 200 * time.Millisecond

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
