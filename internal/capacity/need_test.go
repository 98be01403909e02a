package capacity

import (
	"math"
	"strings"
	"testing"
)

func TestBusyKeysAreThoseOfTheDistribution(t *testing.T) {
	for _, s := range []float64{0, .8, 1, 1.1, 2} {
		for _, least := range []float64{.001, 1, 20, 1e6} {
			const n, rate = 50_000, 100_000.
			all := 0.
			for i := 1.; i <= n; i++ {
				all += math.Pow(i, -s)
			}
			count, part := 0., 0.
			for i := 1.; i <= n; i++ {
				if w := math.Pow(i, -s) / all; rate*w >= least*(1-1e-9) {
					count, part = count+1, part+w
				}
			}
			gotCount, gotPart := busyKeys(n, s, rate, least)
			if math.Abs(gotCount-count) > 1+.001*count || math.Abs(gotPart-part) > .001 {
				t.Errorf("Zipf %v, from %v/s: %v keys with %.4f of the checks, want %v with %.4f", s, least, gotCount, gotPart, count, part)
			}
		}
	}
}

func TestMoreNeedsMore(t *testing.T) {
	base := Estimate(Specified(), Measured())
	for name, change := range map[string]func(*Load){
		"checks": func(l *Load) { l.Checks *= 2 },
		"limits": func(l *Load) { l.Limits = 3 },
		"keys":   func(l *Load) { l.Keys *= 100 },
		"single": func(l *Load) { l.PerCall = 1 },
	} {
		l := Specified()
		change(&l)
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		n := Estimate(l, Measured())
		if n.Regional.Cores <= base.Regional.Cores || n.Regional.Daemons < base.Regional.Daemons {
			t.Errorf("%s: %+v, before %+v", name, n.Regional, base.Regional)
		}
		keys := l.Keys != base.Load.Keys
		if (n.Coordinator != base.Coordinator) != keys {
			t.Errorf("%s: %+v, before %+v: the coordinators know keys, not checks", name, n.Coordinator, base.Coordinator)
		}
	}
	if busy := float64(base.Regional.Daemons*base.Load.Cores) * base.Load.Busy; base.Regional.Cores > busy {
		t.Errorf("%d daemons of %d cores are too few for %.1f", base.Regional.Daemons, base.Load.Cores, base.Regional.Cores)
	}
}

func TestTheWorkOfARegionIsOnItsOwnKeys(t *testing.T) {
	l := Specified()
	l.Zipf, l.Keys = 0, 1e9 // nobody asks for any key often
	n := Estimate(l, Measured())
	if n.Regional.InMemory != 0 || n.Redis.Calls != n.Regional.Checks/n.Costs.GroupsPerCall {
		t.Errorf("%+v %+v", n.Regional, n.Redis)
	}
	l.Keys = 1 // all ask for the same one
	if n := Estimate(l, Measured()); n.Regional.InMemory != 1 || n.Redis.CallsPerCheck > .001 {
		t.Errorf("%+v %+v", n.Regional, n.Redis)
	}
}

func TestCostsAreSetByName(t *testing.T) {
	c := Measured()
	if err := c.Set("redis_limit_us=9.5"); err != nil || c.RedisLimit != 9.5 {
		t.Errorf("%v, %v", c.RedisLimit, err)
	}
	for _, wrong := range []string{"", "redis_limit_us", "redis_limit_us=", "redis_limit_us=-1", "redis_limit_us=NaN", "nothing=1"} {
		if err := c.Set(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	c.Each(func(name string, value float64, meaning string) {
		if !(value > 0) || meaning == "" {
			t.Errorf("%s = %v: %q", name, value, meaning)
		}
	})
}

func TestALoadThatCannotBeIsRefused(t *testing.T) {
	for flag, change := range map[string]func(*Load){
		"--checks":          func(l *Load) { l.Checks = math.NaN() },
		"--limits":          func(l *Load) { l.Limits = 0 },
		"--batch":           func(l *Load) { l.PerCall = 2000 },
		"--regions":         func(l *Load) { l.Regions = 0 },
		"--gateways":        func(l *Load) { l.Gateways = 9 },
		"--shards":          func(l *Load) { l.Shards = 9 },
		"--keys":            func(l *Load) { l.Keys = math.Inf(1) },
		"--regions-per-key": func(l *Load) { l.Users = 11 },
		"--zipf":            func(l *Load) { l.Zipf = -1 },
		"--hot":             func(l *Load) { l.HotShare = 2 },
		"--cores":           func(l *Load) { l.Cores = 0 },
		"--busy":            func(l *Load) { l.Busy = 0 },
	} {
		l := Specified()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
