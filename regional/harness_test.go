package regional

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rules"
)

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

// leader is a LeaseService that follows the test's script: it opens every session,
// renews every lease, and hands out the actions it is given.
type leader struct {
	t      testing.TB
	server *httptest.Server

	mu      sync.Mutex
	cluster string
	lease   time.Duration
	wait    time.Duration // for leases, while they are changed
	rules   *aliquotv1.Rules
	initial string // "": the first redis epoch said
	later   bool   // the region was added later: no store of it started full
	down    bool
	mean    bool // no lease is renewed
	refuse  error
	// us is the region's floor: one half, until a test changes it.
	us      *aliquotv1.DeclaredRegion
	version uint64 // of the configuration
	epoch   uint64
	// exclusive: another daemon than the one last heard of is told "busy" while that
	// one is heard, as by a real leader.
	exclusive bool
	holder    uint64
	heard     time.Time
	// onReport is called with each report, in the order they come.
	onReport func(*aliquotv1.ReportRequest)
	actions  []*aliquotv1.Action // for the next answer
	plan     *aliquotv1.PlanTask // likewise
	session  uint64
	counter  uint64
	from     int64 // the window that growths count from
	hellos   []*aliquotv1.HelloRequest
	reports  []*aliquotv1.ReportRequest
}

const secret = "0123456789abcdef0123456789abcdef"

func newLeader(t testing.TB, yaml string) *leader {
	l := &leader{t: t, cluster: "c1", lease: 10 * time.Second, epoch: 1, version: 1}
	l.us = &aliquotv1.DeclaredRegion{Name: "us", Floor: oneOf(2)}
	l.setRules(1, yaml)
	mux := http.NewServeMux()
	mux.Handle(aliquotv1connect.NewLeaseServiceHandler(l))
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.isDown() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(l.server.Close)
	return l
}

func (l *leader) address() string { return strings.TrimPrefix(l.server.URL, "http://") }

func (l *leader) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

func (l *leader) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// setRules numbers the rules r0, r1, ... 1, 2, ...; others from 100 on.
func (l *leader) setRules(version uint64, yaml string) {
	numbers := map[string]uint32{}
	for i := range 10 {
		numbers[fmt.Sprintf("r%d", i)] = uint32(i + 1)
	}
	l.set(func() { l.rules = &aliquotv1.Rules{Version: version, Yaml: yaml, Numbers: numbers} })
}

func (l *leader) Hello(_ context.Context, in *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	if l.exclusive && in.GetIncarnation() != l.holder && time.Since(l.heard) < busyAfter {
		return &aliquotv1.HelloResponse{
			Nonce: in.GetNonce(), Busy: true, Rules: l.rulesFor(in.GetRulesVersion()), Config: l.config(),
		}, nil
	}
	l.holder, l.heard = in.GetIncarnation(), time.Now()
	l.hellos = append(l.hellos, in)
	if l.initial == "" && !l.later {
		l.initial = in.GetRedisEpoch()
	}
	l.session++
	return &aliquotv1.HelloResponse{
		Epoch: l.epoch, Session: l.session, Nonce: in.GetNonce(), Rules: l.rulesFor(in.GetRulesVersion()),
		Config: l.config(),
	}, nil
}

func (l *leader) config() *aliquotv1.RegionConfig {
	return &aliquotv1.RegionConfig{
		ClusterId: l.cluster, ConfigVersion: l.version, LeaseMicros: l.lease.Microseconds(), RhoPpm: 20_000, LeaseWaitMicros: l.wait.Microseconds(),
		Regions:    []*aliquotv1.DeclaredRegion{l.us, {Name: "eu", Floor: oneOf(2)}},
		HashSecret: []byte(secret), InitialRedisEpoch: l.initial,
	}
}

func (l *leader) Report(_ context.Context, in *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.GetSession() != l.session {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("not the session"))
	}
	l.heard = time.Now()
	l.reports = append(l.reports, in)
	if l.onReport != nil {
		l.onReport(in)
	}
	out := &aliquotv1.ReportResponse{
		Epoch: l.epoch, Session: in.GetSession(), Seq: in.GetSeq(), TSend: in.GetTSend(), Renew: !l.mean,
		Actions: l.actions, Rules: l.rulesFor(in.GetRulesVersion()), Plan: l.plan,
	}
	l.actions, l.plan = nil, nil
	return out, nil
}

func (l *leader) rulesFor(version uint64) *aliquotv1.Rules {
	if version == l.rules.GetVersion() {
		return nil
	}
	return l.rules
}

// give sends a share of a key with the next answer.
func (l *leader) give(key *aliquotv1.KeyId, rate, burst int32) { l.act(key, rate, burst, false) }

func (l *leader) act(key *aliquotv1.KeyId, rate, burst int32, cold bool) {
	l.set(func() {
		l.counter++
		l.actions = append(l.actions, &aliquotv1.Action{
			Key: key, Gen: &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter},
			Share: &aliquotv1.Share{Rate: rate, Burst: burst}, Cold: cold, From: l.from,
		})
	})
}

// lend gives the region parts of 2^-20 of a key, and waits until its store enforces
// that.
func (l *leader) lend(key *aliquotv1.KeyId, share int32) {
	l.t.Helper()
	l.enforce(key, share, false)
}

// cool returns a key to cold, and waits until its store knows.
func (l *leader) cool(key *aliquotv1.KeyId) {
	l.t.Helper()
	l.enforce(key, budget.Unit/2, true)
}

// enforce gives a share until it is acknowledged: on a busy machine the store may
// miss a deadline, and a share is lost with its session.
func (l *leader) enforce(key *aliquotv1.KeyId, share int32, cold bool) {
	l.t.Helper()
	var session uint64
	var since int
	eventually(l.t, "the share is acknowledged", func() bool {
		l.mu.Lock()
		now, reports := l.session, l.reports
		latest := &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter}
		l.mu.Unlock()
		if session != now {
			session, since = now, len(reports)
			l.act(key, share, share, cold)
			return false
		}
		return slices.ContainsFunc(reports[since:], func(r *aliquotv1.ReportRequest) bool {
			return slices.ContainsFunc(r.GetKeys(), func(k *aliquotv1.KeyReport) bool { return proto.Equal(k.GetGen(), latest) })
		})
	})
}

// planOf is what a check of one client asks of the store.
func planOf(d *Daemon, apiKey string) *decision {
	var out decision
	out.plan(d.policies.load(), &request{attributes: rules.AttributesOf(map[string]string{"api_key": apiKey}), cost: limit.Token}, 0, nil)
	return &out
}

// keyOf is the key of rule r0 and a client. The rule must not be independent.
func keyOf(d *Daemon, apiKey string) *aliquotv1.KeyId {
	return keyOut(planOf(d, apiKey).groups[0].asks[0].key)
}

// rightOf is what the machine lets the region spend of a key.
func (a *authority) rightOf(key *aliquotv1.KeyId) budget.Right {
	k, err := keyIn(key)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.region.Right(k, budget.KeyLimit{Capacity: int64(limit.Token)}, a.now())
}

// sessions is how many Hellos were accepted.
func (l *leader) sessions() (n int) {
	l.set(func() { n = len(l.hellos) })
	return n
}

// oneOf is one part in so many of a limit, in rate and burst; 0: none of it.
func oneOf(parts int32) *aliquotv1.Share {
	if parts == 0 {
		return &aliquotv1.Share{}
	}
	return &aliquotv1.Share{Rate: budget.Unit / parts, Burst: budget.Unit / parts}
}

// setFloor tells the region another floor, and the smallest it has had, in a new
// epoch, as each change of the configuration is.
func (l *leader) setFloor(floor, low *aliquotv1.Share, version uint64) {
	l.set(func() {
		l.us = &aliquotv1.DeclaredRegion{Name: "us", Floor: floor, Low: low, FloorVersion: version}
		l.epoch++
		l.version++
		l.counter = 0
		l.session++
	})
}

// busyAfter is the silence after which a leader lets another daemon of a region in.
const busyAfter = 3 * time.Second

// asked is the key that the region wants to become hot, once it does.
func (l *leader) asked() (key *aliquotv1.KeyId) {
	eventually(l.t, "a report asks for a key to become hot", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, r := range l.reports {
			for _, k := range r.GetKeys() {
				key = k.GetKey()
			}
		}
		return key != nil
	})
	return key
}

func testConfig(coordinators ...string) Config {
	c := DefaultConfig()
	c.Region = "us"
	c.Listen, c.GRPCListen, c.OpsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Coordinators = coordinators
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

// start runs a daemon until the test ends, or until stop is called.
func start(t testing.TB, c Config) (d *Daemon, stop func()) {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
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
func startLive(t testing.TB, c Config) (*Daemon, func()) {
	t.Helper()
	d, stop := start(t, c)
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
	Limits     []struct {
		RuleID  string `json:"ruleId"`
		Allowed bool   `json:"allowed"`
		Mode    string `json:"mode"`
	} `json:"limits"`
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
			return a.Mode != modeEmergency
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

func missedDeadlines(t *testing.T) func(*Daemon) bool {
	return func(d *Daemon) bool {
		text := scrape(t, d)
		return strings.Contains(text, "aliquot_store_errors_total") || !strings.Contains(text, "\naliquot_chunks_lost_total 0\n")
	}
}

// undisturbed: no session ended but by a store that missed a deadline.
func undisturbed(t *testing.T, d *Daemon, l *leader) {
	t.Helper()
	if n := l.sessions(); n != 1 && !missedDeadlines(t)(d) {
		t.Errorf("%d sessions; nothing should have ended the first", n)
	}
}

// phase waits for the daemon to be in a phase.
func phase(t testing.TB, d *Daemon, want budget.Phase) {
	t.Helper()
	eventually(t, "phase "+want.String(), func() bool { return d.auth.info().Phase == want })
}

// redisServer is a real redis-server of the test's own.
type redisServer struct {
	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
}

// startRedis runs one, with more arguments if wanted.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not in PATH; `make test` installs it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &redisServer{t: t, dir: t.TempDir(), args: args, port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *redisServer) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.port) }

func (s *redisServer) start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", append([]string{"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log")}, s.args...)...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "redis-server answers", func() bool { return s.say("PING") == "+PONG" })
}

// say sends one inline command and returns the first line of the reply.
func (s *redisServer) say(command string) string {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.port), time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "%s\r\n", command)
	reply := make([]byte, 512)
	n, _ := conn.Read(reply)
	line, _, _ := bytes.Cut(reply[:n], []byte("\r\n"))
	return string(line)
}

func (s *redisServer) signal(sig os.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(err)
	}
}

func (s *redisServer) kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGCONT)
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
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
func byTheLimit(mode string) bool { return mode == modeStore || mode == modeLocal }
