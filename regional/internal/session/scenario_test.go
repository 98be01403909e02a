package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/cockroachdb/datadriven"

	"aliquot/budget"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/store/memory"
)

// TestScenarios plays what testdata/scenarios tells: the session of region us with a leader that is the real state
// machine, behind the messages of LeaseService, in a bubble of virtual time. `go test ./regional/internal/session -run
// Scenarios -rewrite` writes the outputs. The commands:
//
//	start             a daemon whose store answers, and a coordinator that leads regions us and eu, with rules version 1
//	run 3s            lets time pass, and shows the session and what was logged
//	gone | back       the coordinator does not answer | a new leader begins
//	rules 2           another version of the rules is in force
//	another           another daemon of the region says Hello once
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			var p *played
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "start" {
					p = startPlayed(t)
					return "ok\n"
				}
				return p.play(t, d)
			})
			p.end()
		})
	})
}

// played is a session and its coordinator.
type played struct {
	*Session
	leads *leading
	logs  lines
	end   func()
}

func startPlayed(t *testing.T) *played {
	began := time.Now()
	now := func() budget.Instant { return 1000*second + budget.Instant(time.Since(began)) }
	kept, err := memory.New(memory.Config{Clock: func() int64 { return int64(now()) / 1000 }})
	if err != nil {
		t.Fatal(err)
	}
	p := &played{leads: newLeading(now)}
	p.Session = newSession(p.leads, kept, now, &p.logs)
	p.live = func() {}
	if err := p.store.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	running.Go(func() { p.leads.run(ctx) })
	p.end = func() { cancel(); running.Wait() }
	<-time.After(tickEvery / 3) // so that no command comes at an instant at which the session does something
	return p
}

func (p *played) play(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "run":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		<-time.After(span)
		synctest.Wait()
		return p.show()
	case "gone":
		p.leads.set(func() { p.leads.leader = nil })
	case "back":
		p.leads.set(p.leads.elect)
	case "rules":
		p.leads.set(func() { fmt.Sscan(d.CmdArgs[0].Key, &p.leads.version) })
	case "another":
		out, err := p.leads.Hello(t.Context(), leasewire.HelloRequest("us", budget.Hello{Incarnation: 99, RedisEpoch: "another", Nonce: 1 << 32}))
		switch {
		case err != nil:
			return err.Error() + "\n"
		case out.GetBusy():
			return "busy\n"
		}
		return "it has the session\n"
	default:
		d.Fatalf(t, "no such command")
	}
	return "ok\n"
}

// show describes the session: what the region's state machine says, the version of the rules in force, and what was
// logged since the last time.
func (p *played) show() string {
	info := p.auth.Info()
	return fmt.Sprintf("%v, session open: %v, epoch %d, rules version %d\n%s", info.Phase, info.SessionOpen, info.Epoch,
		p.policies.Load().Text.Version, p.logs.take())
}

// lines keeps the messages that were logged, each once: what happens at one instant has no order. It leaves out those
// of calls: whether one is under way when a coordinator goes depends on that order.
type lines struct {
	mu  sync.Mutex
	got map[string]bool
}

// Write implements io.Writer.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, text, _ := strings.Cut(string(line), " level=")
	level, text, _ := strings.Cut(text, " msg=")
	if msg, quoted := strings.CutPrefix(text, `"`); quoted {
		text, _, _ = strings.Cut(msg, `"`)
	} else {
		text, _, _ = strings.Cut(text, " ")
	}
	if strings.Contains(text, "coordinators") {
		return len(line), nil
	}
	if l.got == nil {
		l.got = map[string]bool{}
	}
	l.got[level+" "+text+"\n"] = true
	return len(line), nil
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := strings.Join(slices.Sorted(maps.Keys(l.got)), "")
	clear(l.got)
	return out
}

// leading is a coordinator that leads by itself: the state machine, and LeaseService before it. Commits and proofs
// succeed at once.
type leading struct {
	aliquotv1connect.LeaseServiceClient
	now func() budget.Instant

	mu      sync.Mutex
	ledger  *budget.Ledger
	leader  *budget.Leader // nil: it does not lead
	version uint64         // of the rules in force
	hellos  map[uint64]chan *aliquotv1.HelloResponse
	reports map[uint64]chan *aliquotv1.ReportResponse
}

func newLeading(now func() budget.Instant) *leading {
	l := &leading{now: now, version: 1, ledger: &budget.Ledger{Config: budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)}}
	l.elect()
	return l
}

// elect begins a new epoch. The caller holds mu, or is alone.
func (l *leading) elect() {
	l.ledger.MintEpoch()
	l.leader = budget.NewLeader(l.ledger.Clone(), l.now())
	l.hellos, l.reports = map[uint64]chan *aliquotv1.HelloResponse{}, map[uint64]chan *aliquotv1.ReportResponse{}
}

// set changes the coordinator. Calls under way get no answer.
func (l *leading) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// run lets the leader's time pass.
func (l *leading) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		l.set(func() {
			if l.leader != nil {
				l.carry(l.leader.Step(budget.Tick{}, l.now()))
			}
		})
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// carry carries out what the leader wants. The caller holds mu.
func (l *leading) carry(effects []budget.LeaderEffect) {
	for _, e := range effects {
		switch e := e.(type) {
		case budget.Commit:
			if err := l.ledger.Apply(e.Plan); err != nil {
				panic(err)
			}
			l.carry(l.leader.Step(budget.Committed{}, l.now()))
		case budget.Verify:
			l.carry(l.leader.Step(budget.Verified{}, l.now()))
		case budget.Welcome:
			out := leasewire.HelloResponse(e.OK)
			l.complete(out)
			l.hellos[e.OK.Nonce] <- out
		case budget.Answer:
			out := leasewire.ReportResponse(e.Directive)
			l.reports[e.Directive.Seq] <- out
		case budget.Refuse:
			if answer := l.hellos[e.Nonce]; e.Nonce != 0 && answer != nil {
				out := &aliquotv1.HelloResponse{Busy: errors.Is(e.Err, budget.ErrRegionBusy)}
				l.complete(out)
				answer <- out
			} else if answer := l.reports[e.Seq]; answer != nil {
				close(answer)
			}
		}
	}
}

// complete adds what the service adds to the answer to a Hello. The caller holds mu.
func (l *leading) complete(out *aliquotv1.HelloResponse) {
	c := &l.ledger.Config
	out.Config = &aliquotv1.RegionConfig{
		ClusterId: "test", ConfigVersion: c.Version, LeaseMicros: c.Lease.Microseconds(), RhoPpm: c.RhoPPM,
		HashSecret: []byte("0123456789abcdef0123456789abcdef"),
	}
	for i := range c.Regions {
		r := &c.Regions[i]
		out.Config.Regions = append(out.Config.Regions, &aliquotv1.DeclaredRegion{Name: r.Name, Floor: leasewire.ShareTo(r.Told), Low: leasewire.ShareTo(r.Low), FloorVersion: r.FloorVersion})
	}
}

// rules returns the rules in force for a daemon that has another version; nil for one that has them. The caller holds
// mu.
func (l *leading) rules(has uint64) *aliquotv1.Rules {
	if has == l.version {
		return nil
	}
	return &aliquotv1.Rules{Version: l.version, Yaml: oneRule, Numbers: map[string]uint32{"r0": 1}}
}

var errGone = connect.NewError(connect.CodeUnavailable, errors.New("no leader"))

// Hello implements LeaseServiceClient.
func (l *leading) Hello(ctx context.Context, in *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	answer := make(chan *aliquotv1.HelloResponse, 1)
	if !l.hear(func() error {
		h, err := leasewire.HelloFrom(0, in)
		l.hellos[h.Nonce] = answer
		l.carry(l.leader.Step(budget.HelloReceived{Hello: h}, l.now()))
		return err
	}) {
		return nil, errGone
	}
	out, err := awaited(ctx, answer)
	if err == nil {
		l.set(func() { out.Rules = l.rules(in.GetRulesVersion()) })
	}
	return out, err
}

// Report implements LeaseServiceClient.
func (l *leading) Report(ctx context.Context, in *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	answer := make(chan *aliquotv1.ReportResponse, 1)
	if !l.hear(func() error {
		r, err := leasewire.ReportFrom(0, in)
		l.reports[r.Seq] = answer
		l.carry(l.leader.Step(budget.ReportReceived{Report: r}, l.now()))
		return err
	}) {
		return nil, errGone
	}
	out, err := awaited(ctx, answer)
	if err == nil {
		l.set(func() { out.Rules = l.rules(in.GetRulesVersion()) })
	}
	return out, err
}

// awaited returns the answer to a call. A channel that is closed is a refusal.
func awaited[T any](ctx context.Context, answer <-chan *T) (*T, error) {
	select {
	case out, ok := <-answer:
		if !ok {
			return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("this session is not open"))
		}
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hear gives the leader a message, and reports whether there is a leader that can read it.
func (l *leading) hear(message func() error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader != nil && message() == nil
}
