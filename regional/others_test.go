package regional

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/session"
)

// twins are two daemons of one region with one Redis, of which the first has a way of its own
// that can be cut. The first has the session.
type twins struct {
	leader        *leader
	way           *cutter
	first, second *Daemon
}

func newTwins(t *testing.T, secondAsks func(*leader) string) *twins {
	t.Helper()
	w := &twins{leader: newLeader(t, refilling)} // C = 800, r = 80; the region's floor is half of it
	w.leader.set(func() { w.leader.exclusive = true })
	r := startRedis(t)
	w.way = newCutter(t, r)
	c := testConfig(w.leader.address())
	c.Redis, c.StateFile = w.way.url(), filepath.Join(t.TempDir(), "state")
	w.first, _ = startKept(t, c)
	twin := copied(t, c, secondAsks(w.leader))
	twin.Redis = r.url()
	w.second, _ = start(t, twin)
	eventually(t, "the second spends by the store", func() bool { return check(t, w.second, "other").Mode == modes.Store })
	return w
}

// fromBoth counts what passes at both daemons for a time, which is not much longer than asked for.
func (w *twins) fromBoth(t *testing.T, apiKey string, length time.Duration) (passed int, took time.Duration) {
	t.Helper()
	var by [2]int
	began := time.Now()
	var all sync.WaitGroup
	for i, d := range []*Daemon{w.first, w.second} {
		all.Go(func() {
			polled(func() bool {
				if check(t, d, apiKey).Allowed {
					by[i]++
				}
				return time.Since(began) >= length
			})
		})
	}
	all.Wait()
	return by[0] + by[1], time.Since(began)
}

func leaderOf(l *leader) string { return l.address() }
func nobody(*leader) string     { return "127.0.0.1:1" }

// TestAStoreLostForOneOfTwo: the daemon with the session admits nothing by its emergency limit
// while the other one spends by the store: together they admit what the region may. It says
// that it has no store, and that it is not alone, and /readyz sends clients to the other one.
func TestAStoreLostForOneOfTwo(t *testing.T) {
	t.Parallel()
	w := newTwins(t, leaderOf)
	exhaust(t, w.first, "k")
	w.way.cut()
	eventually(t, "the first decides without the store", func() bool { return check(t, w.first, "k").Mode == modes.Emergency })
	exhaust(t, w.second, "k")
	passed, took := w.fromBoth(t, "k", 3*time.Second)
	if most := 40*took.Seconds()*1.02 + 8; float64(passed) > most {
		t.Errorf("%d passed in %v, the region's floor is %.0f", passed, took, most)
	}
	eventually(t, "the first is not ready", func() bool { return !w.first.readiness().Ready })
	if r := w.first.readiness(); !strings.Contains(r.Reason, "another daemon of this region is known") {
		t.Errorf("the first: %+v", r)
	}
	eventually(t, "its reports say so", func() bool { return w.saysSo() })
	w.way.heal()
	eventually(t, "the first has its store again", func() bool { return check(t, w.first, "k").Mode == modes.Store })
	eventually(t, "its reports say that it has a store", func() bool {
		last := w.lastReport()
		return last != nil && !last.GetStoreless()
	})
}

func (w *twins) lastReport() (last *aliquotv1.ReportRequest) {
	w.leader.set(func() {
		if n := len(w.leader.reports); n > 0 {
			last = w.leader.reports[n-1]
		}
	})
	return last
}

// saysSo: the first's latest report says that its store is lost, and names the second.
func (w *twins) saysSo() bool {
	last := w.lastReport()
	return last.GetStoreless() && !last.GetAlone() && slices.Contains(last.GetOthers(), uint64(w.second.others.Self()))
}

// TestAMarkThatIsNotTaken: a second daemon that hears no coordinator spends by the store, and
// takes the floor back when the mark of who was heard is old. So the reports of the first say
// from then on that its store does not take the mark: the leader counts the region as silent.
func TestAMarkThatIsNotTaken(t *testing.T) {
	w := newTwins(t, nobody)
	w.leader.lend(keyOf(w.first, "k"), budget.Unit/16)
	if got := enforced(t, w.second, "k"); got.Cap != 50*limit.Token {
		t.Errorf("the second enforces %d of 800 while the mark is new; lent is all but 50", got.Cap/limit.Token)
	}
	w.way.cut()
	eventually(t, "the reports of the first say that the mark is not taken", w.saysSo)
	if a := check(t, w.first, "k"); a.Allowed {
		t.Errorf("the first admits by %s", a.Mode)
	}
}

// TestASecondDaemonThatNobodyKnows: the first has lost its store before it could read of the
// second, and admits by its emergency limit. The second, which no coordinator answers, finds the
// first in the store's list, and spends nothing; it says so.
func TestASecondDaemonThatNobodyKnows(t *testing.T) {
	t.Parallel()
	l := newLeader(t, refilling)
	r := startRedis(t)
	way := newCutter(t, r)
	c := testConfig(l.address())
	c.Redis, c.StateFile = way.url(), filepath.Join(t.TempDir(), "state")
	first, _ := startKept(t, c)
	exhaust(t, first, "k")
	way.cut()
	eventually(t, "the first admits without its store", func() bool {
		a := check(t, first, "k")
		return a.Mode == modes.Emergency && a.Allowed
	})
	twin := copied(t, c, "127.0.0.1:1")
	twin.Redis = r.url()
	second, _ := start(t, twin)
	began := time.Now()
	eventually(t, "some seconds pass", func() bool {
		if a := check(t, second, "k"); a.Allowed || a.Mode != modes.Emergency {
			t.Fatalf("the second: allowed %v by %s", a.Allowed, a.Mode)
		}
		return time.Since(began) > 2*time.Second
	})
	if r := second.readiness(); r.Ready || !strings.Contains(r.Reason, "may be admitting without the store") {
		t.Errorf("the second: %+v", r)
	}
	eventually(t, "the metrics say so", func() bool { return strings.Contains(scrape(t, second), `aliquot_degraded{reason="waits"} 1`) })
	way.heal()
	eventually(t, "the first has read of it, and it spends", func() bool { return check(t, second, "k").Mode == modes.Store })
	if first.others.Alone() {
		t.Error("the first does not know of the second")
	}
}

// TestTheSameDaemonWithoutCoordinators: a daemon that is killed and comes back on its address
// with its state file is the one it was: it waits for nobody, though no coordinator answers.
func TestTheSameDaemonWithoutCoordinators(t *testing.T) {
	l := newLeader(t, refilling)
	c := withRedis(t, l)
	first, _ := startKept(t, c)
	id := first.others.Self()
	if again := session.DaemonID(fileID(t, c), first.Addr()); again != id {
		t.Errorf("restarted it would be daemon %x, it is %x", again, id)
	}
	if copy := session.DaemonID(fileID(t, c), "127.0.0.1:1"); copy == id {
		t.Error("another daemon with a copy of its file would be the same one")
	}
}

// fileID is the id in a daemon's state file.
func fileID(t *testing.T, c Config) string {
	t.Helper()
	s, err := readState(c.StateFile, c.Region, c.Logger)
	if err != nil {
		t.Fatal(err)
	}
	return s.Daemon
}

// TestADaemonThatKnewOfAnother: it comes back without its store, and admits nothing beside the
// other one, which may have it.
func TestADaemonThatKnewOfAnother(t *testing.T) {
	w := newTwins(t, leaderOf)
	eventually(t, "the first's state file names the second", func() bool {
		s, err := readState(w.first.cfg.StateFile, "us", w.first.log)
		return err == nil && slices.Contains(s.others(), w.second.others.Self())
	})
	again, _ := start(t, copied(t, w.first.cfg, "127.0.0.1:1"))
	if again.others.Alone() {
		t.Error("it comes back, and does not know of the second any more")
	}
}
