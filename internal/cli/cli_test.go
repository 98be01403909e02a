package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aliquot/internal/testaddr"
	"aliquot/internal/testlog"
)

// result is how a command ended.
type result struct {
	code     int
	out, err string
}

// command runs one to its end. It is run again while nobody leads the coordinators, which
// refuses it with nothing changed, and while a new leader cannot ask the regions for a plan
// yet: a machine that stops for a moment has an election any time.
func command(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		var out, err testlog.Buffer
		code := Run(t.Context(), args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &err})
		got := result{code: code, out: out.String(), err: err.String()}
		if !got.leaderless() || time.Now().After(deadline) {
			return got
		}
	}
}

// leaderless tells what is refused in the gap between two leaders, or says that the new one
// has not heard a region yet.
func (r result) leaderless() bool {
	return strings.Contains(r.err, "no leader is known") || strings.Contains(r.err, "taking charge") || strings.Contains(r.err, "no coordinator leads") ||
		strings.Contains(r.out, "the region is not heard")
}

func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d\n%s%s", r.code, code, r.out, r.err)
	}
	for _, part := range parts {
		if !strings.Contains(r.out+r.err, part) {
			t.Errorf("%q is not in the output:\n%s%s", part, r.out, r.err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no such command":     {[]string{"chek"}, "aliquot: there is no command 'aliquot chek'; did you mean 'aliquot check'?"},
		"no such subcommand":  {[]string{"budget", "gte"}, "aliquot: there is no command 'aliquot budget gte'; did you mean 'aliquot budget get'?"},
		"missing subcommand":  {[]string{"rules"}, "abort, apply, diff, history, plan, promote, rollback, show, validate"},
		"unknown flag":        {[]string{"check", "--prise"}, "--prise"},
		"missing argument":    {[]string{"check"}, "check KEY=VALUE"},
		"not an attribute":    {[]string{"check", "api_key"}, "key=value"},
		"attribute twice":     {[]string{"check", "a=1", "a=2"}, `"a" is given twice`},
		"unknown output":      {[]string{"check", "a=1", "-o", "xml"}, "table, json or yaml"},
		"timeout":             {[]string{"check", "a=1", "--timeout", "0s"}, "--timeout"},
		"even coordinators":   {[]string{"dev", "--coordinators", "2"}, "--coordinators 2"},
		"log level":           {[]string{"dev", "--log-level", "loud"}, "--log-level"},
		"half a limit":        {[]string{"bench", "rotate", "--capacity", "3"}, "--refill"},
		"no such protocol":    {[]string{"bench", "floor", "--protocol", "smtp"}, "connect grpc rls http"},
		"endless zipf":        {[]string{"bench", "load", "--zipf", "Inf"}, "--zipf +Inf"},
		"bench target":        {[]string{"bench", "load", "--target", "nowhere"}, "host:port"},
		"bench clients":       {[]string{"bench", "rotate", "--clients", "0"}, "--clients"},
		"one key for clients": {[]string{"bench", "rotate", "--clients", "2", "--attr", "api_key=k"}, "{client}"},
	} {
		t.Run(name, func(t *testing.T) { command(t, "", c.args...).want(t, exitUsage, c.says, "--help") })
	}
}

func TestHelpAndVersionSucceed(t *testing.T) {
	command(t, "", "--help").want(t, exitOK, "budget", "3 denied")
	command(t, "", "--version").want(t, exitOK, "aliquot ")
	command(t, "", "dev", "--help").want(t, exitOK, "--rtt", "7500+10i")
}

// unused is an address that nothing listens on, and nothing will.
func unused(t *testing.T) string {
	l, err := net.Listen("tcp", testaddr.Free())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestErrorsSayWhereAndWhatToDo(t *testing.T) {
	nobody := unused(t)
	for _, args := range [][]string{
		{"check", "a=1"}, {"reserve", "a=1"}, {"settle", "x"}, {"budget", "get", "r"}, {"budget", "list"}, {"budget", "watch"},
		{"rules", "show"}, {"rules", "history"}, {"block", "k"}, {"override", "r", "k", "--limit", "1"}, {"cluster", "status"}, {"cluster", "members"}, {"cluster", "remove", "c1"},
	} {
		command(t, "", append(args, "--addr", nobody)...).want(t, exitError, nobody, "connection refused", "aliquot dev", "--addr")
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, args := range [][]string{{"cluster", "status"}, {"budget", "watch"}} {
		command(t, "", append(args, "--addr", silent.Addr().String(), "--timeout", "50ms")...).want(t, exitError, "no answer within 50ms")
	}
	command(t, "", "block", "k", "--addr", silent.Addr().String(), "--timeout", "50ms").want(t, exitError, "no answer within 50ms", "may have been made all the same", "aliquot rules history")
	planned := command(t, someRules, "rules", "plan", "-", "--addr", silent.Addr().String(), "--timeout", "50ms", "--wait", "30ms")
	planned.want(t, exitError, "no answer within 80ms")
	if strings.Contains(planned.err, "change") {
		t.Errorf("a plan changes nothing: %s", planned.err)
	}
	command(t, "", "bench", "rotate", "--regions", nobody).want(t, exitError, nobody, "is the region running?")
	command(t, "", "rules", "validate", filepath.Join(t.TempDir(), "none.yaml")).want(t, exitError, "none.yaml")
}

const someRules = `rules:
  - id: per-key
    params: {capacity: 300, refill_rate: 100}
`

func TestRulesValidate(t *testing.T) {
	command(t, someRules, "rules", "validate", "-").want(t, exitOK, "1 rules, valid")
	command(t, someRules, "rules", "validate", "-", "-o", "json").want(t, exitOK, `"valid":true`)
	command(t, strings.Replace(someRules, "capacity", "capcity", 1), "rules", "validate", "-").want(t, exitError, "<stdin>:3:", "capcity")
}

// running is an `aliquot dev` in this process.
type running struct {
	offset   int
	out, err testlog.Buffer
	stop     context.CancelFunc
	done     chan struct{} // closed when it has ended, with code
	code     int
}

func (r *running) at(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+r.offset))
}

// startDev runs `aliquot dev` on ports that are free and waits for "ready".
func startDev(t *testing.T, args ...string) *running {
	t.Helper()
	for range 5 {
		ctx, stop := context.WithCancel(context.Background())
		r := &running{offset: 1000 + rand.IntN(24_000), stop: stop, done: make(chan struct{})}
		args := append([]string{"dev", "--port-offset", strconv.Itoa(r.offset)}, args...)
		go func() {
			defer close(r.done)
			r.code = Run(ctx, args, Streams{Out: &r.out, Err: &r.err})
		}()
		t.Cleanup(func() {
			stop()
			<-r.done
		})
		if r.await(t) {
			return r
		}
	}
	t.Fatal("no free ports were found")
	return nil
}

// patience is how long a test waits for something that should come in a few seconds: a test
// fails when it hangs, however slow its machine is.
const patience = 5 * time.Minute

// await reports whether it got ready; false means that a port was in use.
func (r *running) await(t *testing.T) bool {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if strings.Contains(r.out.String(), "\nready\n") {
				return true
			}
		case <-r.done:
			if strings.Contains(r.err.String(), "--port-offset") {
				return false
			}
			t.Fatalf("dev ended with %d: %s", r.code, r.err.String())
		case <-deadline:
			t.Fatalf("dev did not get ready:\n%s%s", r.out.String(), r.err.String())
		}
	}
}

// TestAgainstARealCluster runs every command against the real daemons.
func TestAgainstARealCluster(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r := startDev(t, "--rtt", "4ms")
	coordinator, region := r.at(7410), r.at(7500)

	t.Run("dev prints every address, an example and ready once", func(t *testing.T) {
		out := r.out.String()
		for _, port := range []int{7400, 7401, 7402, 7403, 7420, 7423, 7500, 7501, 7503, 7520, 7523} {
			if !strings.Contains(out, r.at(port)) {
				t.Errorf("%s is missing in\n%s", r.at(port), out)
			}
		}
		if !strings.Contains(out, "curl -s http://"+region+"/aliquot.v1.LimiterService/Check") || strings.Count(out, "ready\n") != 1 {
			t.Errorf("output:\n%s", out)
		}
		for _, try := range []string{" check api_key=sk_1 --addr " + region, " budget list --addr ", " bench rotate --duration 10s --regions " + region + ","} {
			if !strings.Contains(out[strings.Index(out, "\nready\n"):], try) {
				t.Errorf("after ready there is no %q in\n%s", try, out)
			}
		}
	})
	t.Run("rules plan", func(t *testing.T) { planRules(t, coordinator, region, r.at(7510), r.at(7520)) })
	t.Run("completion", func(t *testing.T) { completions(t, coordinator) })
	t.Run("explain", func(t *testing.T) { explainChecks(t, region) })
	t.Run("a second one names the port", func(t *testing.T) {
		command(t, "", "dev", "--port-offset", strconv.Itoa(r.offset)).want(t, exitError,
			"port "+strconv.Itoa(7400+r.offset)+" is in use", "--port-offset")
	})
	t.Run("check", func(t *testing.T) {
		decided := byTheStore(t, func(client string) result { return command(t, "", "check", "api_key="+client, "--addr", region) })
		decided.want(t, exitOK, "allowed (store)", "per-key")
		command(t, "", "check", "api_key=k", "--cost", "301", "--addr", region).want(t, exitDenied, "denied", "never")
		command(t, "", "check", "api_key=sk_revoked_1", "--addr", region).want(t, exitDenied, "block_list")
		command(t, "", "check", "api_key=k", "--cost", "0", "--addr", region).want(t, exitError, "invalid_argument", region)
		command(t, "", "check", "api_key=k", "--addr", coordinator).want(t, exitError, "a regional daemon?")
	})
	t.Run("reserve and settle", func(t *testing.T) {
		var again []string
		made := byTheStore(t, func(client string) result {
			again = []string{"reserve", "api_key=" + client, "--cost", "40", "--id", "call-" + client, "--addr", region}
			return command(t, "", again...)
		})
		made.want(t, exitOK, "allowed (store)", "per-key", "reserved as call-", " until 20")
		_, id, _ := strings.Cut(made.out, "reserved as ")
		id, _, _ = strings.Cut(id, " ")
		await(t, "reserved as "+id+" until 20", func() string { return command(t, "", again...).out })
		command(t, "", "reserve", "api_key=r", "--cost", "301", "--addr", region).want(t, exitDenied, "denied", "never")
		command(t, "", "reserve", "api_key=r", "--ttl", "2h", "--addr", region).want(t, exitError, "ttl is 2h0m0s")
		var settled result
		await(t, "settled", func() string { // a store that misses a deadline is asked again
			settled = command(t, "", "settle", id, "--cost", "10", "--addr", region)
			return settled.out
		})
		settled.want(t, exitOK, "REFUNDED", "per-key  requests  40        10")
		command(t, "", "settle", id, "--addr", region, "-o", "json").want(t, exitOK, `"state":"already_settled"`)
		command(t, "", "settle", "call-1", "--addr", region).want(t, exitError, "not_found", "no such reservation")
	})
	t.Run("check prints zero values in JSON", func(t *testing.T) {
		got := command(t, "", "check", "api_key=k", "--cost", "301", "--addr", region, "-o", "json")
		var answer map[string]any
		if err := json.Unmarshal([]byte(got.out), &answer); err != nil || answer["allowed"] != false || answer["never"] != true {
			t.Errorf("%v: %s", err, got.out)
		}
		command(t, "", "check", "api_key=k", "--cost", "301", "--addr", region, "-o", "yaml").want(t, exitDenied, "allowed: false")
	})
	t.Run("cluster status", func(t *testing.T) {
		command(t, "", "cluster", "status", "--addr", coordinator).want(t, exitOK, "c1", "c2", "c3", "us-east", "live")
	})
	t.Run("bench rotate", func(t *testing.T) {
		regions := strings.Join([]string{region, r.at(7510), r.at(7520)}, ",")
		command(t, "", "bench", "rotate", "--duration", "1500ms", "--regions", regions, "--addr", coordinator, "--attr", "api_key=bench", "--timeout", "5m").
			want(t, exitOK, "C = 300", "r = 100/s", "gain", "worst interval", "utilisation")
		got := command(t, "", "bench", "rotate", "--duration", "100ms", "--regions", regions, "--capacity", "1e6", "--refill", "1", "--timeout", "5m", "--json")
		var report map[string]any
		if err := json.Unmarshal([]byte(got.out), &report); err != nil || report["failed"] != 0. || got.code != exitOK {
			t.Errorf("%d, %v: %s%s", got.code, err, got.out, got.err)
		}
	})
	t.Run("bench rotate that exceeds its bound exits with 3", func(t *testing.T) {
		// However long its first call of ten takes, that is more than one and a thousandth a second.
		command(t, "", "bench", "rotate", "--duration", "100ms", "--regions", region, "--batch", "10", "--capacity", "1", "--refill", "0.001", "--timeout", "5m").
			want(t, exitDenied, "EXCEEDED")
	})
	t.Run("budget", func(t *testing.T) {
		command(t, "", "budget", "get", "per-key", "api_key=cold", "--addr", coordinator).want(t, exitOK, "cold", "33.3%", "ap-south",
			"PROMISE", "admitted_burst", "lost_step", "cut_off_time", "21.22", "measured: ")
		command(t, "", "budget", "get", "nope", "api_key=k", "--addr", coordinator).want(t, exitError, "not_found")
		command(t, "", "budget", "get", "per-key", "api_key=bench", "--addr", coordinator, "-o", "json").want(t, exitOK, `"poolShare":`, `"promise":{"bounds":[{"name":"admitted_burst","kind":"excess"`)
		await(t, "per-key", func() string { // a busy key becomes hot in its own time
			command(t, "", "check", "api_key=busy", "--cost", "60", "--addr", region)
			return command(t, "", "budget", "list", "--addr", coordinator).out
		})
	})
	t.Run("budget watch", func(t *testing.T) { watchABudget(t, coordinator) })
	t.Run("rules", func(t *testing.T) { changeRules(t, coordinator, region) })
	t.Run("dev ends cleanly and leaves nothing", func(t *testing.T) {
		r.stop()
		select {
		case <-r.done:
			if r.code != exitOK {
				t.Errorf("exit %d: %s", r.code, r.err.String())
			}
		case <-time.After(patience):
			t.Errorf("not ended after %v", patience)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "aliquot-dev-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// watchABudget stops a watch once it has shown something.
func watchABudget(t *testing.T, coordinator string) {
	got := stopped(t, []string{"budget", "watch", "per-key", "api_key=cold", "--addr", coordinator}, "ap-south", func() {})
	got.want(t, exitOK, "eu-west")
}

// stopped runs a command, does something once its output has the part, and ends it as
// Ctrl-C would. One that ends before for want of a leader is begun again.
func stopped(t *testing.T, args []string, part string, then func()) result {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ctx, stop := context.WithCancel(within)
		var out, errs testlog.Buffer
		done := make(chan int, 1)
		go func() {
			done <- Run(ctx, slices.Clone(args), Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		}()
		shown := func() bool { return strings.Contains(out.String()+errs.String(), part) }
		for !shown() && len(done) == 0 && within.Err() == nil {
			<-tick.C
		}
		if shown() {
			then()
		}
		stop()
		got := result{code: <-done, out: out.String(), err: errs.String()}
		if shown() || !got.leaderless() || within.Err() != nil {
			if !shown() {
				t.Errorf("%q did not come", part)
			}
			return got
		}
	}
}

func changeRules(t *testing.T, coordinator, region string) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	shown := command(t, "", "rules", "show", "--addr", coordinator)
	shown.want(t, exitOK, "version 1", "per-key")
	if err := os.WriteFile(file, []byte(strings.Replace(shown.out, "capacity: 300", "capacity: 500", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "", "rules", "apply", file, "--expected-version", "7", "--addr", coordinator).want(t, exitError, "nothing changed")
	command(t, "rules: 5", "rules", "apply", "-", "--addr", coordinator).want(t, exitError, "nothing changed", "<stdin>:1:")
	command(t, "", "rules", "apply", file, "--expected-version", "1", "--author", "me", "--addr", coordinator).want(t, exitOK, "version 2 is in force")
	// The coordinator asked may follow the one that decided, by a moment.
	await(t, "version 2 by me", func() string {
		shown := command(t, "", "rules", "show", "--addr", coordinator)
		return shown.out + shown.err
	})
	await(t, "500", func() string { return command(t, "", "check", "api_key=other", "--addr", region).out })
	rulesHistory(t, coordinator, region, file)
}

// byTheStore runs a command about one client after the other until the store decides: on a busy machine it may miss a
// deadline, and the answer is then not the one that is tested.
func byTheStore(t *testing.T, of func(client string) result) (got result) {
	t.Helper()
	client := 0
	await(t, "(store)", func() string {
		client++
		got = of(fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), client))
		return got.out
	})
	return got
}

// await repeats a command until its output has the part.
func await(t *testing.T, part string, output func() string) {
	t.Helper()
	deadline := time.After(patience)
	for out := output(); !strings.Contains(out, part); out = output() {
		select {
		case <-deadline:
			t.Fatalf("%q did not come:\n%s", part, out)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
