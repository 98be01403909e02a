package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"aliquot/internal/bench/load"
	"aliquot/internal/e2e"
	"aliquot/internal/testaddr"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(e2e.RunTests(m, "../../..", &bin)) }

var long = flag.Bool("long", false, "attack at full length")

// aboveIdle is how much memory a daemon may take under attack beside what it takes idle.
const aboveIdle = 256 << 20

// scaled is how many times something is tried: in the short form, and in the long one.
func scaled(short, full int) int {
	if *long {
		return full
	}
	return short
}

// attacks are tried one after the other, and then those that take memory all at once.
var attacks = []struct {
	name string
	run  func(l *cluster, t *testing.T) (outcome string)
}{
	{"gzip bodies of 32 MiB to health and reflection", (*cluster).smallServices},
	{"gzip Hello and Report of 32 MiB of empty keys", (*cluster).leaseBombs},
	{"PlanRules of 4 MiB of signs, and of 30,000 rules", (*cluster).planBombs},
	{"Reserve and Explain of 4 MiB, 60 at once", (*cluster).reserveBombs},
	{"streams that nobody reads", (*cluster).unread},
	{"snapshots of empty entries", (*cluster).restoreBombs},
	{"calls over gRPC that are compressed, or not whole", (*cluster).halves},
	{"bodies that are announced and do not come", (*cluster).announcedBodies},
	{"rules that nobody reads", (*cluster).unreadRules},
}

// TestAttacks: under each attack, and under all at once, both daemons go on, keep their lease, serve a good
// client, and take no more memory than is allowed.
func TestAttacks(t *testing.T) {
	l := start(t)
	for _, a := range attacks {
		l.under(t, a.name, func() string { return a.run(l, t) })
	}
	l.crowded = true
	l.under(t, "all of these at once", func() string {
		var all sync.WaitGroup
		for _, a := range attacks {
			all.Go(func() { a.run(l, t) })
		}
		all.Wait()
		return ""
	})
}

// TestOverload: asked twice and four times what it can answer, a daemon keeps its lease, answers what it
// refuses as it should, and is back to normal when the load is over. What it answered is logged.
func TestOverload(t *testing.T) {
	l := start(t)
	c := load.DefaultConfig()
	c.Protocol, c.Address, c.Connections, c.Workers = load.GRPC, l.grpc, 32, 256
	c.Duration, c.Warmup = time.Duration(scaled(2, 10))*time.Second, time.Second
	c.Server.PID = l.regional.Process.Pid
	whole := l.load(t, c)
	c.Workers = 8192
	for _, times := range []float64{1, 2, 4} {
		l.under(t, fmt.Sprintf("%g times what it can answer", times), func() string {
			c.Rate = max(1000, times*whole.ChecksPerSecond)
			r := l.load(t, c)
			for kind := range r.Errors {
				if kind != "grpc status 14" && kind != "timeout" {
					t.Errorf("an answer that is not defined: %s, %s", kind, r.Examples[kind])
				}
			}
			return fmt.Sprintf("%.0f/s answered of %.0f/s (alone %.0f/s), p99 %v, the generator %v late, %v, failed %v", r.ChecksPerSecond, c.Rate, whole.ChecksPerSecond, r.Latency.P99, r.Late.P99, r.Modes, r.Errors)
		})
	}
}

// TestMemoryUnreadAndOverloadAtOnce: under the attacks on memory, with responses that nobody reads, and asked twice what
// it can answer, a daemon keeps its lease and its memory, and answers a good client on a connection of its own as it
// should. How long that took is logged.
func TestMemoryUnreadAndOverloadAtOnce(t *testing.T) {
	l := start(t)
	l.crowded = true
	c := load.DefaultConfig()
	c.Protocol, c.Address, c.Connections, c.Workers = load.GRPC, l.grpc, 16, 128
	c.Duration, c.Warmup = time.Duration(scaled(2, 10))*time.Second, time.Second
	c.Server.PID = l.regional.Process.Pid
	whole := l.load(t, c)
	c.Workers, c.Rate, c.Duration = 1024, max(1000, 2*whole.ChecksPerSecond), time.Duration(scaled(5, 30))*time.Second
	l.under(t, "memory, unread and overload at once", func() string {
		ctx, stop := context.WithCancel(t.Context())
		var all, good sync.WaitGroup
		for _, a := range attacks {
			all.Go(func() { a.run(l, t) })
		}
		var waits []time.Duration
		answers, goroutines := map[int]int{}, 0.
		good.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				began := time.Now()
				answers[l.good(t)]++
				waits = append(waits, time.Since(began))
				goroutines = max(goroutines, l.metric("go_goroutines"))
			}
		})
		r := l.load(t, c)
		all.Wait()
		stop()
		good.Wait()
		for status := range answers {
			if status != http.StatusOK && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
				t.Errorf("a good client is answered %d", status)
			}
		}
		slices.Sort(waits)
		return fmt.Sprintf("%.0f/s answered of %.0f/s (alone %.0f/s); a good client: %v, p50 %v, p99 %v; at most %.0f goroutines",
			r.ChecksPerSecond, c.Rate, whole.ChecksPerSecond, answers, waits[len(waits)/2], waits[len(waits)*99/100], goroutines)
	})
}

// good is the status with which a good client's check is answered; 0 without an answer.
func (l *cluster) good(t *testing.T) int {
	out, err := http.Post("http://"+l.at+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(l.goodCheck))
	if err != nil {
		t.Logf("a good client is not answered: %v", err)
		return 0
	}
	defer out.Body.Close()
	_, _ = io.Copy(io.Discard, out.Body)
	return out.StatusCode
}

func (l *cluster) load(t *testing.T, c load.Config) *load.Report {
	t.Helper()
	r, err := load.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cluster is one coordinator and one regional daemon with its Redis.
type cluster struct {
	coordinator, regional     *exec.Cmd
	coordinatorAt, at         string // their addresses
	grpc, coordinatorOps, ops string
	raft, dir                 string
	goodCheck                 string      // what a good client sends
	watched                   []*exec.Cmd // further coordinators
	crowded                   bool        // all attacks run at once
	nonce                     int         // of the latest Hello
	t                         *testing.T  // which ends the daemons
}

const rules = "rules:\n  - {id: big, key: [api_key], params: {capacity: 1000000, refill_rate: 1000000}, local_cache: false}\n"

func start(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	at := testaddr.Ports(t, 8)
	host, redis, _ := net.SplitHostPort(at[0])
	l := &cluster{coordinatorAt: at[1], coordinatorOps: at[4], at: at[5], grpc: at[6], ops: at[7], raft: at[2], dir: dir, t: t,
		goodCheck: `{"attributes":{"api_key":"good"}}`}
	run(t, dir, "redis-server", "--port", redis, "--bind", host, "--save", "", "--dir", dir)
	l.coordinator = run(t, dir, filepath.Join(bin, "coordinator"), "--node-id", "c1", "--bootstrap-expect", "1", "--regions", "us,eu", "--rules", file,
		"--data-dir", filepath.Join(dir, "c1"), "--listen", at[1], "--raft-listen", at[2], "--gossip-listen", at[3], "--ops-listen", at[4])
	l.regional = run(t, dir, filepath.Join(bin, "regional"), "--region", "us", "--coordinators", at[1], "--redis", "redis://"+at[0],
		"--state-file", "none", "--listen", at[5], "--grpc-listen", at[6], "--ops-listen", at[7])
	l.until(t, "the region holds a lease", func() bool { return l.metric("aliquot_lease_remaining_seconds") > 0 })
	return l
}

// run runs a program until the test ends, and shows the end of its log if the test has failed.
func run(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.CreateTemp(dir, filepath.Base(name)+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-3000):])
		}
	})
	return cmd
}

// until polls for a condition.
func (l *cluster) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	over := time.After(5 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("not within five minutes: %s", what)
		}
	}
}

// metric is the sum of a metric's series of the regional daemon; -1 if it does not answer.
func (l *cluster) metric(name string, labels ...string) (sum float64) {
	return metricOf(l.ops, name, labels...)
}

// metricOf is that of the daemon with these ops pages, of the series that have all the labels.
func metricOf(ops, name string, labels ...string) (sum float64) {
	out, err := http.Get("http://" + ops + "/metrics")
	if err != nil {
		return -1
	}
	defer out.Body.Close()
	text, _ := io.ReadAll(out.Body)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') && !slices.ContainsFunc(labels, func(of string) bool { return !strings.Contains(rest, of) }) {
			var v float64
			fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v)
			sum += v
		}
	}
	return sum
}

// resident is the memory of a process, in bytes; 0 if it has ended.
func resident(cmd *exec.Cmd) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(rest, &bytes)
		}
	}
	return bytes << 10
}

// under runs an attack, watches the daemons meanwhile, and says what it was like.
func (l *cluster) under(t *testing.T, name string, attack func() string) {
	t.Helper()
	daemons := append([]*exec.Cmd{l.coordinator, l.regional}, l.watched...)
	idle := make([]int64, len(daemons))
	for i, cmd := range daemons {
		idle[i] = resident(cmd)
	}
	peak, sessions := slices.Clone(idle), l.metric("aliquot_lease_remaining_seconds")
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			for i, cmd := range daemons {
				peak[i] = max(peak[i], resident(cmd))
			}
		}
	})
	outcome := attack()
	stop()
	watch.Wait()
	for i, cmd := range append([]*exec.Cmd{l.coordinator, l.regional}, l.watched...) { // an attack may restart coordinators
		if resident(cmd) == 0 {
			t.Fatalf("%s: %s has ended", name, filepath.Base(cmd.Path))
		}
		if above := peak[i] - idle[i]; above > aboveIdle {
			t.Errorf("%s: %s took %d MiB above idle", name, filepath.Base(cmd.Path), above>>20)
		}
	}
	if lease := l.metric("aliquot_lease_remaining_seconds"); lease <= 0 {
		t.Errorf("%s: the lease is lost: %v left, %v before", name, lease, sessions)
	}
	l.until(t, "a good client is served after "+name, func() bool {
		out, err := http.Post("http://"+l.at+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(l.goodCheck))
		if err != nil {
			return false
		}
		defer out.Body.Close()
		text, _ := io.ReadAll(out.Body)
		return out.StatusCode == http.StatusOK && bytes.Contains(text, []byte(`"mode":"store"`))
	})
	t.Logf("%s: coordinator %d MiB (idle %d), regional %d MiB (idle %d), lease %.1f s %s", name,
		peak[0]>>20, idle[0]>>20, peak[1]>>20, idle[1]>>20, l.metric("aliquot_lease_remaining_seconds"), outcome)
}

// post sends a body to some paths, so many times and at once, and counts the answers by their status.
func post(t *testing.T, at, kind, encoding string, body []byte, times int, paths ...string) string {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() {
			r, err := http.NewRequest(http.MethodPost, "http://"+at+paths[i%len(paths)], bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", kind)
			if encoding != "" {
				r.Header.Set("Content-Encoding", encoding)
				r.Header.Set("Grpc-Encoding", encoding)
			}
			answer := "refused while it was sent"
			if out, err := client.Do(r); err == nil {
				answer = out.Status
				_, _ = io.Copy(io.Discard, out.Body)
				out.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	all.Wait()
	return fmt.Sprint(answers)
}

// packed is a prefix and so many bytes of a pattern, compressed.
func packed(prefix, pattern string, total int) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, prefix)
	chunk := []byte(strings.Repeat(pattern, 1<<16/len(pattern)))
	for ; total > 0; total -= len(chunk) {
		_, _ = z.Write(chunk)
	}
	_ = z.Close()
	return out.Bytes()
}

func (l *cluster) smallServices(t *testing.T) string {
	return post(t, l.at, "application/proto", "gzip", packed("", "\x00", 32<<20), scaled(8, 64),
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
}

func (l *cluster) leaseBombs(t *testing.T) string {
	hello := packed("\x0a\x02us\x20\x01", "\x32\x00", 32<<20)
	plain := append([]byte("\x0a\x02us\x20\x01"), bytes.Repeat([]byte("\x32\x00"), 4<<20)...)
	return post(t, l.coordinatorAt, "application/proto", "gzip", hello, scaled(6, 60), "/aliquot.v1.LeaseService/Hello", "/aliquot.v1.LeaseService/Report") +
		post(t, l.coordinatorAt, "application/proto", "", plain, scaled(6, 30), "/aliquot.v1.LeaseService/Hello", "/aliquot.v1.LeaseService/Report")
}

func (l *cluster) planBombs(t *testing.T) string {
	signs, _ := json.Marshal(map[string]string{"yaml": strings.Repeat("- ", 2<<20)})
	many, _ := json.Marshal(map[string]string{"yaml": "rules:\n" + strings.Repeat("- {id: a}\n", 30_000)})
	return post(t, l.coordinatorAt, "application/json", "", signs, scaled(6, 30), "/aliquot.v1.RuleService/PlanRules") +
		post(t, l.coordinatorAt, "application/json", "", many, scaled(3, 15), "/aliquot.v1.RuleService/PlanRules")
}

func (l *cluster) reserveBombs(t *testing.T) string {
	var body strings.Builder
	body.WriteString(`{"attributes":{"a":"b"`)
	for i := 0; body.Len() < 4<<20-64; i++ {
		fmt.Fprintf(&body, `,"%x":""`, i)
	}
	body.WriteString("}}")
	return post(t, l.at, "application/json", "", []byte(body.String()), 60*scaled(1, 5), "/aliquot.v1.LimiterService/Reserve", "/aliquot.v1.LimiterService/Explain")
}

// unread opens calls whose answers have no room to be sent, on connections that answer nothing else.
func (l *cluster) unread(t *testing.T) string {
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/check?cost=2000000"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	sent := 0
	for range scaled(20, 100) {
		c, err := net.Dial("tcp", l.at)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer c.Close()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = io.WriteString(c, http2.ClientPreface)
		frames := http2.NewFramer(c, nil)
		_ = frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for i := range 900 {
			if frames.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true}) != nil {
				break
			}
			sent++
		}
	}
	l.until(t, "an overloaded daemon serves another client", func() bool {
		out, err := http.Get("http://" + l.at + "/check?cost=1")
		if err != nil {
			return false
		}
		out.Body.Close()
		return out.StatusCode == http.StatusOK
	})
	return fmt.Sprintf("%d streams sent, %.0f goroutines", sent, l.metric("go_goroutines"))
}
