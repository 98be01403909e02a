package regional

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/leasewire"
	"aliquot/internal/place"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// leader is a LeaseService that follows the test's script: it opens every session,
// renews every lease, and hands out the actions it is given.
type leader struct {
	t testing.TB
	// where is its address, handler what it serves.
	where   string
	handler http.Handler

	mu      sync.Mutex
	cluster string
	lease   time.Duration
	wait    time.Duration // for leases, while they are changed
	rules   *aliquotv1.Rules
	silent  bool   // of rules that there are none
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
	knows     []uint64    // the daemons that the holder has said it knows of
	place     place.Place // that is kept
	heard     time.Time
	// floor is whose the floor is, for a daemon without a store while none is heard.
	floor aliquotv1.FloorHolder
	// hold keeps reports without an answer until it is closed; holding counts those.
	hold    chan struct{}
	holding int
	// onReport is called with each report, in the order they come.
	onReport func(*aliquotv1.ReportRequest)
	actions  []*aliquotv1.Action // for the next answer
	plan     *aliquotv1.PlanTask // likewise
	session  uint64
	counter  uint64
	// clock is what it says that its clock shows, microseconds.
	clock func() int64
	// opens are the shares that a session begins with; the answer to a Hello has those that
	// the region does not hold.
	opens   []*aliquotv1.Action
	from    int64 // the window that growths count from
	hellos  []*aliquotv1.HelloRequest
	seconds []*aliquotv1.HelloRequest // that were told "busy"
	reports []*aliquotv1.ReportRequest
}

const secret = "0123456789abcdef0123456789abcdef"

// newLeader returns a leader of the rules. In a bubble it is in the test's network.
func newLeader(t testing.TB, yaml string) *leader {
	l := &leader{t: t, cluster: "c1", lease: 10 * time.Second, epoch: 1, version: 1}
	l.us = &aliquotv1.DeclaredRegion{Name: "us", Floor: oneOf(2)}
	l.clock = func() int64 { return int64(boottime.Now()) / 1000 }
	l.setRules(1, yaml)
	mux := http.NewServeMux()
	mux.Handle(aliquotv1connect.NewLeaseServiceHandler(l))
	l.handler = mux
	if n := networkOf(t); n != nil {
		n.serve(l)
		return l
	}
	server := httptest.NewServer(l)
	l.where = strings.TrimPrefix(server.URL, "http://")
	t.Cleanup(server.Close)
	return l
}

// ServeHTTP serves LeaseService, and aborts every call while the leader is down.
func (l *leader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.isDown() {
		panic(http.ErrAbortHandler)
	}
	l.handler.ServeHTTP(w, r)
}

func (l *leader) address() string { return l.where }

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

// SetRules numbers the rules r0, r1, ... 1, 2, ...; others from 100 on.
func (l *leader) setRules(version uint64, yaml string) {
	numbers := map[string]uint32{}
	for i := range 20 {
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
	l.place = l.place.AfterHello(in.GetPlace(), in.GetIncarnation())
	second := l.exclusive && in.GetIncarnation() != l.holder && time.Since(l.heard) < busyAfter
	if second || in.GetRedisEpoch() == "" {
		l.seconds = append(l.seconds, in)
		return &aliquotv1.HelloResponse{
			Nonce: in.GetNonce(), Busy: true, Rules: l.rulesFor(in.GetRulesVersion()), NoRules: l.noRules(), Config: l.config(), FloorHolder: l.floorFor(second),
			Wait: in.GetRedisEpoch() != "" && !slices.Contains(l.knows, in.GetDaemon()),
		}, nil
	}
	l.holder, l.heard, l.knows = in.GetIncarnation(), time.Now(), in.GetOthers()
	l.hellos = append(l.hellos, in)
	if l.initial == "" && !l.later {
		l.initial = in.GetRedisEpoch()
	}
	l.session++
	return &aliquotv1.HelloResponse{
		Epoch: l.epoch, Session: l.session, Nonce: in.GetNonce(), Rules: l.rulesFor(in.GetRulesVersion()), NoRules: l.noRules(),
		Config: l.config(), LeaderClockMicros: l.clock(), Actions: l.opening(in.GetHeld()), PlaceKept: l.place.HeldBy(in.GetPlace(), in.GetIncarnation()),
	}, nil
}

// opening is what the answer to a Hello is to say to a region that holds some keys. The
// caller holds mu.
func (l *leader) opening(held []*aliquotv1.HeldKey) (out []*aliquotv1.Action) {
	known := map[string]uint64{}
	for _, h := range held {
		known[string(h.GetKey().GetHash())] = h.GetGen().GetCounter()
	}
	for _, a := range l.opens {
		if known[string(a.GetKey().GetHash())] != a.GetGen().GetCounter() {
			out = append(out, a)
		}
	}
	return out
}

// floorFor is whose the floor is. The caller holds mu.
func (l *leader) floorFor(second bool) aliquotv1.FloorHolder {
	if second {
		return aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER
	}
	return l.floor
}

func (l *leader) config() *aliquotv1.RegionConfig {
	return &aliquotv1.RegionConfig{
		ClusterId: l.cluster, ConfigVersion: l.version, LeaseMicros: l.lease.Microseconds(), RhoPpm: 20_000, LeaseWaitMicros: l.wait.Microseconds(),
		Regions:    []*aliquotv1.DeclaredRegion{l.us, {Name: "eu", Floor: oneOf(2)}},
		HashSecret: []byte(secret), InitialRedisEpoch: l.initial,
	}
}

func (l *leader) Report(ctx context.Context, in *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hold := l.hold; hold != nil && !in.GetLeaving() {
		l.holding++
		l.mu.Unlock()
		var gone error
		select {
		case <-hold:
		case <-ctx.Done():
			gone = ctx.Err() // it was heard when it came, which may be before the daemon has left
		}
		if l.mu.Lock(); gone != nil {
			return nil, gone
		}
	}
	if in.GetSession() != l.session {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("not the session"))
	}
	if in.GetLeaving() {
		l.heard, l.place = time.Time{}, place.Place{Token: in.GetPlace()}
		return &aliquotv1.ReportResponse{}, nil
	}
	l.heard, l.knows = time.Now(), in.GetOthers()
	l.reports = append(l.reports, in)
	if l.onReport != nil {
		l.onReport(in)
	}
	out := &aliquotv1.ReportResponse{
		Epoch: l.epoch, Session: in.GetSession(), Seq: in.GetSeq(), TSend: in.GetTSend(), Renew: !l.mean,
		Actions: l.actions, Rules: l.rulesFor(in.GetRulesVersion()), Plan: l.plan,
		LeaderClockMicros: l.clock(),
	}
	l.actions, l.plan = nil, nil
	return out, nil
}

// noRules is whether a Hello's answer says that there are none. The caller holds mu.
func (l *leader) noRules() bool { return l.rules == nil && !l.silent }

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
func planOf(d *Daemon, apiKey string) *charge.Decision {
	var out charge.Decision
	out.Plan(d.policies.Load(), &charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": apiKey}), Cost: limit.Token}, 0, nil)
	return &out
}

// keyOf is the key of rule r0 and a client. The rule must not be independent.
func keyOf(d *Daemon, apiKey string) *aliquotv1.KeyId {
	return leasewire.KeyTo(planOf(d, apiKey).Groups[0].Charges[0].Key)
}

// rightOf is what the machine lets the region spend of a key.
func rightOf(d *Daemon, key *aliquotv1.KeyId) budget.Right {
	k, err := leasewire.KeyFrom(key)
	if err != nil {
		panic(err)
	}
	return d.auth.Right(k, budget.KeyLimit{Capacity: int64(limit.Token)})
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
const busyAfter = 30 * time.Second

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

// watchSilence watches the reports from now on. It returns what tells the longest time so far without one.
func (l *leader) watchSilence() (longest func() time.Duration) {
	last, most := time.Now(), time.Duration(0) // guarded by mu
	look := func() {
		now := time.Now()
		most, last = max(most, now.Sub(last)), now
	}
	l.set(func() { l.onReport = func(*aliquotv1.ReportRequest) { look() } })
	return func() (out time.Duration) {
		l.set(func() { look(); out = most })
		return out
	}
}
