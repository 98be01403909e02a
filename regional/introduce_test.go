package regional

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/testaddr"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/modes"
)

// silentStore is the address of a Redis that is down. No other server comes to listen there.
func silentStore(t *testing.T) string {
	t.Helper()
	return "redis://" + testaddr.Ports(t, 1)[0]
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

// A daemon whose way to the store is cut, while that of the region's other daemon is not, and
// which is heard by the coordinators as that one is, admits nothing of a floor that the other
// may have lent: however long it waits, and also when it hears of the coordinators no more. It
// tells who sends it requests to ask the other. When it is told that the floor is its own it
// goes by that.
func TestASecondDaemonWithoutAStoreLeavesTheFloor(t *testing.T) {
	t.Parallel()
	l := newLeader(t, refilling)
	// A daemon that asks each second is told again in time while that is less than 2T(1+rho)^3.
	l.set(func() { l.exclusive, l.lease = true, 3*time.Second })
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
	eventually(t, "the second knows of the first", second.session.Second)
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
	eventually(t, "the store is known not to answer", func() bool { return strings.Contains(scrape(t, d), `aliquot_degraded{reason="store"} 1`) })
	if r := d.readiness(); d.auth.Info().Phase != budget.CutOff && (r.Ready || !strings.Contains(r.Reason, "nor has a coordinator")) {
		t.Errorf("at the start: %+v", r)
	}
	phase(t, d, budget.CutOff)
	if r := d.readiness(); !r.Ready || r.StoreReached {
		t.Errorf("when everyone has made room for the floor: %+v", r)
	}
	eventually(t, "it goes by its floor", func() bool { return check(t, d, "k").Allowed })
}
