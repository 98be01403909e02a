package regional

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/storeclock"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/telemetry"
)

// silentStore is the address of a Redis that is down.
func silentStore(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "redis://" + l.Addr().String()
}

// A daemon that starts beside a store that is down, and remembers nothing, has rules as
// soon as a coordinator answers: nothing passes for want of them. A change of the rules,
// and of the floor, reaches it too.
func TestRulesComeWithoutAStore(t *testing.T) {
	t.Parallel()
	const perKey = "rules: [{id: r0, params: {capacity: 100, refill_rate: 10}}]\n"
	l := newLeader(t, perKey)
	l.set(func() { l.floor = aliquotv1.FloorHolder_FLOOR_HOLDER_YOU })
	c := testConfig(l.address())
	c.Redis, c.StateFile = silentStore(t), filepath.Join(t.TempDir(), "state")
	d, stop := start(t, c)
	defer stop()
	eventually(t, "rules in force", func() bool { return d.readiness().Ready })
	if a := check(t, d, "k"); a.Mode != modes.Emergency || a.Allowed {
		t.Errorf("in limbo, with a store that is down: allowed %v by %s", a.Allowed, a.Mode)
	}
	if n := l.sessions(); n != 0 {
		t.Errorf("%d sessions were opened without a store", n)
	}
	l.setRules(2, perKey+"blacklist: [\"bad\"]\n")
	eventually(t, "the second version in force", func() bool { return d.policies.Load().Text.Version == 2 })
	if a := check(t, d, "bad"); a.Mode != modes.BlockList {
		t.Errorf("a key that was blocked since: %s", a.Mode)
	}
	l.setFloor(oneOf(4), oneOf(4), 2)
	eventually(t, "the floor told", func() bool { return d.auth.Config().Regions[0].Told.Rate == oneOf(4).GetRate() })
}

// Contents that a new connection has told of end that, too: from then on the machine says
// Hello.
func TestNobodyIsIntroducedWhoseStoreIsKnown(t *testing.T) {
	now := func() budget.Instant { return second }
	r := &reporter{auth: authority.New(budget.NewRegion(0, budget.Config{}, 1, second), storeclock.New(), now)}
	r.storeless.Store(true)
	r.auth.StoreEpoch("e1")
	r.introduceIfDue(t.Context())
	if !r.introduced.IsZero() {
		t.Error("a Hello without a store, of a daemon that knows its store")
	}
	r.calls.Wait()
}

// Rules that this daemon cannot read are not sent again with each of them, every second.
func TestRefusedRulesAreNotAskedForAgain(t *testing.T) {
	now := func() budget.Instant { return second }
	log, m, leader := slog.New(slog.DiscardHandler), telemetry.New("us", "test", prometheus.NewRegistry()), &lastHello{}
	peers := newCoordinators([]string{"127.0.0.1:1"}, http.DefaultClient, log, m)
	peers.clients[0] = leader
	r := &reporter{
		region: "us", auth: authority.New(budget.NewRegion(0, budget.Config{}, 1, second), storeclock.New(), now),
		policies: policy.New("us", false, boottime.Now, log, m), peers: peers, log: log, metrics: m,
	}
	if err := r.policies.SetRules(policy.RuleText{Version: 7, YAML: "rules: of another time"}); err == nil {
		t.Fatal("these rules are not refused")
	}
	r.introduce(t.Context())
	if got := leader.heard.GetRulesVersion(); got != 7 {
		t.Errorf("it tells of rules of version %d; version 7 is refused already", got)
	}
}

// A daemon whose way to the store is cut, while that of the region's other daemon is not, and
// which is heard by the coordinators as that one is, admits nothing of a floor that the other
// may have lent: however long it waits, and also when it hears of the coordinators no more. It
// tells who sends it requests to ask the other. When it is told that the floor is its own it
// goes by that.
func TestASecondDaemonWithoutAStoreLeavesTheFloor(t *testing.T) {
	t.Parallel()
	l := newLeader(t, refilling)
	l.set(func() { l.exclusive, l.lease = true, 500*time.Millisecond })
	c := withRedis(t, l)
	first, stop := startKept(t, c)
	l.lend(keyOf(first, "k"), budget.Unit/16)
	twin := copied(t, c, l.address())
	twin.Redis = silentStore(t)
	second, _ := start(t, twin)
	none := func(of string, long time.Duration) {
		t.Helper()
		began := time.Now()
		eventually(t, of, func() bool {
			if a := check(t, second, "k"); a.Mode != modes.Emergency || a.Allowed {
				t.Fatalf("%s: allowed %v by %s", of, a.Allowed, a.Mode)
			}
			return time.Since(began) > long
		})
	}
	eventually(t, "the second knows of the first", second.reporter.second.Load)
	phase(t, second, budget.CutOff)
	none("the first is heard", time.Second)
	if r := second.readiness(); r.Ready || !strings.Contains(r.Reason, "another daemon") {
		t.Errorf("while the first is heard: %+v", r)
	}
	l.set(func() { l.floor = aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY })
	stop()
	eventually(t, "the second knows that the first is silent", func() bool { return second.readiness().Ready })
	none("the first is silent, and what it lent may not be back", time.Second)
	l.set(func() { l.floor = aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED })
	none("a new leader does not know", time.Second)
	l.set(func() { l.floor = aliquotv1.FloorHolder_FLOOR_HOLDER_YOU })
	eventually(t, "the floor is the second's", func() bool { return check(t, second, "k").Allowed })
}

// A daemon that has reached neither its store nor a coordinator is not asked before it may be
// the region's only one, and is then.
func TestReadyWithoutAStoreOrACoordinator(t *testing.T) {
	l := newLeader(t, refilling)
	l.set(func() { l.lease = 500 * time.Millisecond })
	c := withRedis(t, l)
	_, stop := startKept(t, c)
	stop()
	c.Redis, c.Coordinators = silentStore(t), []string{"127.0.0.1:1"}
	d, _ := start(t, c)
	eventually(t, "the store is known not to answer", d.reporter.storeless.Load)
	if r := d.readiness(); d.auth.Info().Phase != budget.CutOff && (r.Ready || !strings.Contains(r.Reason, "nor has a coordinator")) {
		t.Errorf("at the start: %+v", r)
	}
	phase(t, d, budget.CutOff)
	if r := d.readiness(); !r.Ready || r.StoreReached {
		t.Errorf("when everyone has made room for the floor: %+v", r)
	}
	eventually(t, "it goes by its floor", func() bool { return check(t, d, "k").Allowed })
}

// TestWordsThatSayNothingOfTheFloor: a leader that does not know whose the floor is, and one of
// another cluster, leave a daemon that has not reached its store as it was, which is not ready.
func TestWordsThatSayNothingOfTheFloor(t *testing.T) {
	now := func() budget.Instant { return second }
	log, m := slog.New(slog.DiscardHandler), telemetry.New("us", "test", prometheus.NewRegistry())
	l := newLeader(t, oneRule)
	of := func(cluster string, whose aliquotv1.FloorHolder) *aliquotv1.HelloResponse {
		config := l.config()
		config.ClusterId = cluster
		return &aliquotv1.HelloResponse{Epoch: 1, Nonce: 1, Busy: true, Config: config, FloorHolder: whose}
	}
	for _, c := range []struct {
		answer        *aliquotv1.HelloResponse
		heard, second bool
	}{
		{of("c1", aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED), false, false},
		{of("c2", aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER), false, false},
		{of("c1", aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER), true, true},
		{of("c1", aliquotv1.FloorHolder_FLOOR_HOLDER_YOU), true, false},
	} {
		peers := newCoordinators([]string{"127.0.0.1:1"}, http.DefaultClient, log, m)
		peers.clients[0] = &lastHello{answer: c.answer}
		r := &reporter{
			region: "us", auth: authority.New(budget.NewRegion(0, budget.Config{}, 1, second), storeclock.New(), now),
			policies: policy.New("us", false, boottime.Now, log, m), peers: peers, log: log, metrics: m, emergency: emergency.New(now, storeclock.New()), wrongCluster: func(error) {},
		}
		r.keeper = newKeeper("", "us", nil, r.policies, log)
		r.policies.SetCluster(clusterIn(l.config()))
		r.introduce(t.Context())
		if heard, second := r.heardWhose.Load(), r.second.Load(); heard != c.heard || second != c.second {
			t.Errorf("%s says %s: heard %v, the floor is another's %v", c.answer.GetConfig().GetClusterId(), c.answer.GetFloorHolder(), heard, second)
		}
	}
}

// A daemon whose region shares a store with another one logs that once, and again if it is another region then.
func TestASharedStoreIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &reporter{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, with := range []string{"", "us", "us", "", "us", "ap"} {
		r.sharesStore(with)
	}
	if n := strings.Count(log.String(), "give each region a Redis of its own"); n != 3 || !strings.Contains(log.String(), "with=ap") {
		t.Errorf("logged %d times, want 3:\n%s", n, log.String())
	}
}
