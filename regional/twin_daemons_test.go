package regional

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/regional/internal/modes"
	"aliquot/rules"
)

// copied is a daemon's configuration, for a second daemon of the region that knows
// what the first one knew.
func copied(t *testing.T, c Config, coordinators ...string) Config {
	t.Helper()
	data, err := os.ReadFile(c.StateFile)
	if err != nil {
		t.Fatal(err)
	}
	twin := testConfig(coordinators...)
	twin.Redis, twin.StateFile = c.Redis, filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(twin.StateFile, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return twin
}

// startKept is startLive, and waits until a second daemon could start from the state
// file with the rules.
func startKept(t *testing.T, c Config) (*Daemon, func()) {
	t.Helper()
	d, stop := startLive(t, c)
	eventually(t, "a state file with rules", func() bool {
		s, err := readState(c.StateFile, c.Region, c.Logger)
		return err == nil && s != nil && s.Rules.Version > 0
	})
	return d, stop
}

// withRedis is a daemon on a Redis and a state file of the test's own.
func withRedis(t *testing.T, l *leader) Config {
	t.Helper()
	c := testConfig(l.address())
	c.Redis, c.StateFile = startRedis(t).url(), filepath.Join(t.TempDir(), "state")
	return c
}

// alternate checks by turns at all daemons until each has been denied by its store,
// and returns what passed there. It fails if a daemon served nothing while there was
// something.
func alternate(t *testing.T, apiKey string, daemons ...*Daemon) (passed int) {
	t.Helper()
	by, denied := make([]int, len(daemons)), make([]bool, len(daemons))
	// All in one round, and in some more while what one has borrowed, which the others do not
	// see, comes back to the store.
	const mostLives, leastRounds = 3, 20
	last, rounds := time.Now(), 0
	for (rounds < leastRounds || time.Since(last) < mostLives*prefetch.Life) && passed < 2000 {
		if clear(denied); rounds == 0 {
			last = time.Now()
		}
		for i, d := range daemons {
			switch a := check(t, d, apiKey); {
			case a.Mode == modes.Emergency:
			case !byTheLimit(a.Mode):
				t.Fatalf("daemon %d: decided by %s", i, a.Mode)
			case a.Allowed:
				by[i]++
				passed++
			default:
				denied[i] = true
			}
		}
		if rounds++; slices.Contains(denied, false) {
			rounds = 0
		}
	}
	if passed >= len(daemons) && slices.Min(by) == 0 {
		t.Errorf("of %d passed, by daemon: %v", passed, by)
	}
	return passed
}

// answers is how many of a daemon's Hellos and reports had a result.
func answers(t *testing.T, d *Daemon, result string) int {
	t.Helper()
	return counter(t, d, `aliquot_reports_total{region="us",result="`+result+`"`)
}

// counter is the sum of a daemon's counters whose lines begin with a prefix.
func counter(t *testing.T, d *Daemon, prefix string) (sum int) {
	t.Helper()
	for line := range strings.Lines(scrape(t, d)) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		_, value, _ := strings.Cut(line, "} ")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestSecondDaemon: it gets no session while the first is heard, serves all the same, and
// both together admit no more than one; it takes over when the first is gone, and
// the first is the second when it comes back.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	l := newLeader(t, ruled(rules.Strict))
	l.set(func() { l.exclusive = true })
	c := withRedis(t, l)
	first, stop := startKept(t, c)
	first.leaveFor = time.Minute // a busy machine may hold it up
	burst(t, first, "lent")
	l.lend(keyOf(first, "lent"), budget.Unit/8)
	l.lend(keyOf(first, "had"), budget.Unit/8) // gave up three quarters of a full floor

	second, _ := start(t, copied(t, c, l.address()))
	eventually(t, "the second is told that the region is busy, and that the first knows of it", func() bool {
		return answers(t, second, "busy") > 2 && second.others.Spends()
	})
	exactly(t, "cold, the floor of both", alternate(t, "cold", first, second), 200, first, second)
	exactly(t, "lent and used up", alternate(t, "lent", first, second), 0, first, second)
	exactly(t, "lent, the share of both", alternate(t, "had", first, second), 50, first, second)
	if got := second.auth.Info().Phase; got != budget.Limbo {
		t.Errorf("the second is in phase %v while the first is heard", got)
	}

	hold := make(chan struct{})
	l.set(func() { l.hold = hold })
	eventually(t, "a report is under way", func() (held bool) {
		l.set(func() { held = l.holding > 0 })
		return held
	})
	stop()
	l.set(func() {
		l.hold = nil
		if time.Since(l.heard) < busyAfter {
			t.Error("the first has stopped, and did not say so")
		}
	})
	phase(t, second, budget.Live)
	again, _ := start(t, c)
	eventually(t, "the first is told so now", func() bool { return answers(t, again, "busy") > 2 && again.others.Spends() })
	exactly(t, "cold after the change, the floor of both", alternate(t, "cold2", again, second), 200, again, second)
	if second.auth.Info().Phase != budget.Live || again.auth.Info().Phase != budget.Limbo {
		t.Errorf("phases %v and %v", again.auth.Info().Phase, second.auth.Info().Phase)
	}
}

// TestSecondDaemonKnowsNothing: without a state file it serves from the region's floor
// by the rules that come with the refusal, and keeps them for its own restart.
func TestSecondDaemonKnowsNothing(t *testing.T) {
	t.Parallel()
	l := newLeader(t, ruled(rules.Strict))
	l.set(func() { l.exclusive, l.lease = true, 3*time.Second })
	c := withRedis(t, l)
	first, _ := startKept(t, c)
	twin := testConfig(l.address())
	twin.Redis, twin.StateFile = c.Redis, filepath.Join(t.TempDir(), "state")
	began := time.Now()
	second, stop := start(t, twin)
	eventually(t, "the rules have come", func() bool { return readyz(t, second) == 200 })
	l.lend(keyOf(first, "lent"), budget.Unit/8)
	exactly(t, "the floor of both", alternate(t, "k", first, second), 200, first, second)
	exactly(t, "the share that is left of the floor is 50", burst(t, second, "lent"), 50, first, second)
	eventually(t, "more than 2T(1+rho)^3 without a session", func() bool {
		if got := second.auth.Info().Phase; got != budget.Limbo {
			t.Fatalf("phase %v after %v; the first may have lent the floor", got, time.Since(began))
		}
		return time.Since(began) > 7*time.Second
	})
	l.setFloor(oneOf(4), oneOf(4), 2)
	eventually(t, "a smaller floor is on the second's disk and in force", func() bool {
		s, err := readState(twin.StateFile, twin.Region, twin.Logger)
		return err == nil && s != nil && s.Cluster.Regions[0].FloorVersion == 2 &&
			rightOf(second, keyOf(second, "k")).Floor.Burst == budget.Unit/4
	})
	stop()
	l.set(func() { l.down = true })
	second, _ = start(t, twin)
	eventually(t, "the store is reached", func() bool { return second.auth.CurrentEpoch() != "" })
	exactly(t, "restarted: the floor is 100", burst(t, second, "new"), 100, second)
}

// TestFloorAfterAFlush: contents that are new since a daemon was heard do not say so;
// they count as if one had been heard when they began.
func TestFloorAfterAFlush(t *testing.T) {
	l := newLeader(t, refilling)
	l.set(func() { l.lease = 500 * time.Millisecond })
	redis := startRedis(t)
	c := testConfig(l.address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	l.set(func() { l.down = true })
	phase(t, d, budget.CutOff)
	eventually(t, "the floor", func() bool { return enforced(t, d, "k").Cap == 400*limit.Token })
	say("FLUSHALL")(redis)
	eventually(t, "the new contents are known", func() bool { return check(t, d, "k").Mode == modes.Store })
	var v limit.View
	eventually(t, "the clock of the new contents is known", func() bool {
		groups := planOf(d, "k").Groups
		head := d.auth.Grant(groups)
		v = head.View(&groups[0].Charges[0])
		return v.Birth != 0 && v.Birth < limit.MaxExact && v.Since < limit.MaxExact
	})
	// A birth is given as much later as tokens lent by the contents before may last.
	lent := prefetch.Life.Microseconds() + prefetch.Life.Microseconds()/50 + 1
	if want := v.Birth - lent + v.HeardWait; v.Phase != limit.Floor || v.Since < want {
		t.Errorf("%+v: the floor may count from %d on", v, want)
	}
}

// refilling is one rule whose refill shows within a second: 40/s at the floor, 5/s at
// a share of one sixteenth.
const refilling = "rules:\n  - id: r0\n    enforcement: strict\n    params: {capacity: 800, refill_rate: 80}\n"

// passedIn counts what passes at a daemon's store within a time, which is not much
// longer than asked for.
func passedIn(t *testing.T, d *Daemon, apiKey string, length time.Duration) (passed int, took time.Duration) {
	t.Helper()
	began := time.Now()
	eventually(t, "time goes by", func() bool {
		if a := check(t, d, apiKey); a.Allowed && byTheLimit(a.Mode) {
			passed++
		}
		return time.Since(began) >= length
	})
	return passed, time.Since(began)
}

// TestFence: a second daemon that is cut off from the coordinators does not take the
// floor back while the first is connected and has lent it, and does when the first
// is gone.
func TestFence(t *testing.T) {
	t.Parallel()
	l := newLeader(t, refilling)
	const lease = time.Second
	l.set(func() { l.lease = lease })
	c := withRedis(t, l)
	first, stop := startKept(t, c)
	exhaust(t, first, "k")
	l.lend(keyOf(first, "k"), budget.Unit/16)
	second, _ := start(t, copied(t, c, "127.0.0.1:1"))
	phase(t, second, budget.CutOff)
	l.lend(keyOf(first, "k"), budget.Unit/16)
	session, silence, lent := l.sessions(), l.watchSilence(), time.Now()
	eventually(t, "what was lent is not what shows that the first is heard", func() bool { return time.Since(lent) > 3*lease })
	// The mark of who was heard is renewed between two reports, and good for two leases.
	if got := enforced(t, second, "k"); got.Cap != 50*limit.Token && silence() < lease && l.sessions() == session {
		t.Errorf("the second enforces %d of 800 while the first is heard; lent is all but 50", got.Cap/limit.Token)
	}
	stop()
	eventually(t, "the floor is taken back", func() bool { return enforced(t, second, "k").Cap == 400*limit.Token })
}

// TestRestartOfALender: a daemon that comes back while every coordinator is dead
// enforces the smaller of share and floor of its hot keys, and the floor of cold
// ones; once everyone has made room, the floor.
func TestRestartOfALender(t *testing.T) {
	t.Parallel()
	l := newLeader(t, refilling)
	const lease = 2 * time.Second
	l.set(func() { l.lease = lease })
	c := withRedis(t, l)
	d, stop := startKept(t, c)
	eventually(t, "a sixteenth and nine tenths are enforced", func() bool { // both, for a session that ends takes them along
		l.lend(keyOf(d, "lent"), budget.Unit/16)
		l.lend(keyOf(d, "borrowed"), budget.Unit/10*9)
		return enforced(t, d, "borrowed").Cap >= 719*limit.Token && enforced(t, d, "lent").Cap <= 50*limit.Token
	})
	stop()
	l.set(func() { l.down = true })

	started := time.Now()
	d, _ = start(t, c)
	// limbo: everything before was seen in it; it lasts two leases at least.
	limbo := func() bool {
		t.Helper()
		got := d.auth.Info().Phase
		if got != budget.Limbo && time.Since(started) < 2*lease {
			t.Fatalf("phase %v", got)
		}
		return got == budget.Limbo
	}
	eventually(t, "the store is reached", func() bool { return d.auth.CurrentEpoch() != "" })
	for apiKey, want := range map[string]limit.Tokens{"lent": 50, "borrowed": 400, "cold": 400} {
		if got := enforced(t, d, apiKey); got.Cap != want*limit.Token && limbo() {
			t.Errorf("%s: enforced is %+v, want a capacity of %d", apiKey, got, want)
		}
	}
	if a := check(t, d, "cold"); !a.Allowed && !missedDeadlines(t)(d) {
		t.Errorf("cold: %+v", a)
	}
	burst(t, d, "lent")
	passed, took := passedIn(t, d, "lent", 300*time.Millisecond)
	if most := 5*took.Seconds()*1.02 + 2; limbo() && float64(passed) > most {
		t.Errorf("limbo: %d passed in %v, the share allows %.1f", passed, took, most)
	}
	phase(t, d, budget.CutOff)
	eventually(t, "the floor of what was lent", func() bool { return enforced(t, d, "lent").Cap == 400*limit.Token })
	l.set(func() { l.down = false })
	phase(t, d, budget.Live)
}

// TestStoreKnowsWhoIsHeard: every directive leaves its trace in the store, also those
// without a share or a lease in them.
func TestStoreKnowsWhoIsHeard(t *testing.T) {
	l := newLeader(t, refilling)
	redis := startRedis(t)
	c := testConfig(l.address())
	c.Redis = redis.url()
	startLive(t, c)
	for _, mean := range []bool{false, true} {
		var said int
		l.set(func() { l.mean, said = mean, len(l.reports) })
		eventually(t, "what was said before has been applied", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.reports) > said+2
		})
		eventually(t, "the store knows", func() bool { return redis.say("EXISTS aq:heard") == ":1" })
		if got := redis.say("DEL aq:heard"); got != ":1" {
			t.Errorf("the store has no record: %s", got)
		}
		eventually(t, "the store knows again", func() bool { return redis.say("EXISTS aq:heard") == ":1" })
	}
}

// TestLeaseOutlivesItsStore: a store that does not answer costs no lease and no
// session; the region would only have to ask for all its shares again.
func TestLeaseOutlivesItsStore(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	l := newLeader(t, refilling)
	l.set(func() { l.lease = lease })
	redis := startRedis(t)
	c := testConfig(l.address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	phase(t, d, budget.Live)
	sessions, silence := l.sessions(), l.watchSilence()
	redis.signal(syscall.SIGSTOP)
	stopped := time.Now()
	kept := true
	eventually(t, "more than a lease's time without a store", func() bool {
		kept = d.auth.Info().Phase == budget.Live && l.sessions() == sessions
		return !kept || time.Since(stopped) > lease*3/2
	})
	// A report is sent after the answer to the one before, and its answer renews the lease from when it was sent.
	if longest := silence(); !kept && longest < lease/3 {
		t.Errorf("the store was silent, and after %v the lease or the session had ended; the leader heard a report every %v", time.Since(stopped), longest)
	}
	redis.signal(syscall.SIGCONT)
	eventually(t, "the store decides again", func() bool { return check(t, d, "k").Mode == modes.Store })
}
