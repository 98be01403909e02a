package regional

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/place"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/modes"
)

// recordRules are rules of 100 in this region, of which nothing is earned in a test's time.
var recordRules = map[string]string{
	"bucket":  `{id: r0, enforcement: strict, params: {capacity: 200, refill_rate: 0.01}, local_cache: false}`,
	"elastic": `{id: r0, params: {capacity: 100, refill_rate: 0.01}, local_cache: false}`,
	"fixed":   `{id: r0, algorithm: fixed_window, params: {limit: 200, window: 31536000}}`,
	"counter": `{id: r0, algorithm: sliding_window_counter, params: {limit: 200, window: 31536000}}`,
	"log":     `{id: r0, algorithm: sliding_window_log, params: {limit: 200, window: 31536000}}`,
}

// admittedUntilDenied is how many checks of a client pass until the store denies one.
func admittedUntilDenied(t *testing.T, d *Daemon, apiKey string) (passed int) {
	t.Helper()
	eventually(t, "the store denies", func() bool {
		a := check(t, d, apiKey)
		if a.Allowed {
			passed++
		}
		return !a.Allowed && a.Mode == modes.Store
	})
	return passed
}

// TestRestartOfDaemonAndStore: a daemon stops in order, its store loses its contents before that, before it comes back or
// after. A client that has used 40 of 100 gets exactly 60 more.
func TestRestartOfDaemonAndStore(t *testing.T) {
	t.Parallel()
	for name, rule := range recordRules {
		for how, again := range map[string]func(t *testing.T, d *Daemon, redis *redisServer, stop func(), next func() *Daemon) *Daemon{
			"the store first": func(t *testing.T, d *Daemon, redis *redisServer, stop func(), next func() *Daemon) *Daemon {
				before := d.auth.CurrentEpoch()
				say("FLUSHALL")(redis)
				eventually(t, "a session in which the loss is known", func() bool {
					return d.auth.CurrentEpoch() != before && d.auth.Session() != (budget.SessionID{})
				})
				stop()
				return next()
			},
			"together": func(t *testing.T, _ *Daemon, redis *redisServer, stop func(), next func() *Daemon) *Daemon {
				stop()
				redis.kill()
				redis.start()
				return next()
			},
			"the daemon first": func(t *testing.T, _ *Daemon, redis *redisServer, stop func(), next func() *Daemon) *Daemon {
				stop()
				d := next()
				say("FLUSHALL")(redis)
				return d
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				redis := startRedis(t)
				c := testConfig(newLeader(t, "rules: ["+rule+"]").address())
				c.Redis, c.StateFile = redis.url(), filepath.Join(t.TempDir(), "state.json")
				d, stop := startLive(t, c)
				for used := 0; used < 40; {
					a := check(t, d, "k")
					if a.Allowed {
						used++
					} else if a.Mode == modes.Store {
						t.Fatalf("%+v", a)
					}
				}
				failed := failedTakes(t, d)
				d = again(t, d, redis, stop, func() *Daemon {
					next, _ := startLive(t, c)
					return next
				})
				n := admittedUntilDenied(t, d, "k")
				if failed += failedTakes(t, d); n > 60 || n < 60-failed {
					t.Errorf("%d more passed of a client that has used 40 of 100; %d calls failed", n, failed)
				}
				if _, err := os.Stat(c.StateFile + recordsSuffix); !os.IsNotExist(err) {
					t.Errorf("the file of records is still there: %v", err)
				}
			})
		}
	}
}

// TestADaemonThatComesBackBeforeItsStore: until the store is back the coordinators take the daemon's last run for another
// daemon that was heard lately. The daemon has its place all the same.
func TestADaemonThatComesBackBeforeItsStore(t *testing.T) {
	t.Parallel()
	for _, floor := range []aliquotv1.FloorHolder{aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER, aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY} {
		t.Run(floor.String(), func(t *testing.T) {
			redis := startRedis(t)
			l := newLeader(t, "rules: ["+recordRules["bucket"]+"]")
			l.set(func() { l.floor = floor })
			c := testConfig(l.address())
			c.Redis, c.StateFile = redis.url(), filepath.Join(t.TempDir(), "state.json")
			d, stop := startLive(t, c)
			used := 0
			for used < 40 {
				if a := check(t, d, "k"); a.Allowed {
					used++
				} else if a.Mode == modes.Store {
					t.Fatalf("%+v", a)
				}
			}
			failed := failedTakes(t, d)
			stop()
			redis.kill()
			d, _ = start(t, c)
			eventually(t, "a coordinator has said whose the floor is", d.session.HolderKnown)
			redis.start()
			<-d.Ready()
			n := admittedUntilDenied(t, d, "k")
			if failed += failedTakes(t, d); n > 60 || n < 60-failed {
				t.Errorf("%d more passed of a client that has used 40 of 100; %d calls failed", n, failed)
			}
		})
	}
}

// lastRun runs a daemon with the memory store for a window of its rules and a second, and has client k ask so many times
// then. stop ends that run.
func lastRun(t *testing.T, rules string, window time.Duration, checks int) (l *leader, c Config, stop func()) {
	l = newLeader(t, rules)
	c = testConfig(l.address())
	c.StateFile = filepath.Join(t.TempDir(), "state.json")
	d, stop := startLive(t, c)
	<-time.After(window + time.Second) // a window has begun since the daemon did
	for range checks {
		check(t, d, "k")
	}
	return l, c, stop
}

// TestRestartWithTheMemoryStore: the memory store ends with its daemon. The next run goes on where the last one stopped,
// for clients that the last one knew and for those that it would have known. It does not if another daemon has come
// since, if the rules have changed, or if the daemon was killed: then nothing is known.
func TestRestartWithTheMemoryStore(t *testing.T) {
	nothing := func(*leader, string) {}
	for name, is := range map[string]struct {
		meanwhile func(l *leader, file string)
		known     bool
	}{
		"restart":        {meanwhile: nothing, known: true},
		"another daemon": {meanwhile: func(l *leader, _ string) { l.set(func() { l.place = place.Place{} }) }},
		"other rules": {meanwhile: func(l *leader, _ string) {
			l.setRules(2, "rules: [{id: r0, algorithm: fixed_window, params: {limit: 200, window: 60}}, {id: r1, enforcement: strict, params: {capacity: 200, refill_rate: 9}}]")
		}},
		"other floors":      {meanwhile: func(l *leader, _ string) { l.set(func() { l.version++ }) }},
		"killed":            {meanwhile: func(_ *leader, file string) { os.Remove(file) }},
		"damaged":           {meanwhile: func(_ *leader, file string) { damage(t, file) }},
		"of another region": {meanwhile: func(_ *leader, file string) { ofRegion(t, file, "eu") }},
	} {
		inNetwork(t, func(t *testing.T) {
			oneCase(t, name, func(t *testing.T) {
				l, c, stop := lastRun(t, "rules: [{id: r0, algorithm: fixed_window, params: {limit: 200, window: 60}}, {id: r1, enforcement: strict, params: {capacity: 200, refill_rate: 8}}]", time.Minute, 40)
				stop()
				is.meanwhile(l, c.StateFile+recordsSuffix)
				<-time.After(5 * time.Second)
				d, _ := startLive(t, c)
				for client, want := range map[string]int{"k": 60, "new": 100} {
					if !is.known {
						want = 0
					}
					if n := admittedUntilDenied(t, d, client); n != want {
						t.Errorf("%d more passed of client %s, want %d", n, client, want)
					}
				}
			})
		})
	}
}

// TestARestartAfterNoCheck: a daemon that nobody asked knows of every client that it has used nothing, and so does its
// next run.
func TestARestartAfterNoCheck(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		_, c, stop := lastRun(t, "rules: [{id: r0, algorithm: fixed_window, params: {limit: 200, window: 60}}]", time.Minute, 0)
		stop()
		<-time.After(5 * time.Second)
		d, _ := startLive(t, c)
		if n := admittedUntilDenied(t, d, "new"); n != 100 {
			t.Errorf("%d passed, want 100", n)
		}
	})
}

// TestAClientOfARestartWaits: a daemon that comes back to a store without contents spends nothing before its first session.
// Until then it accepts no client, for a second at most. It denies later requests. No client gets more than is left.
func TestAClientOfARestartWaits(t *testing.T) {
	for name, is := range map[string]struct {
		session, answer time.Duration // after the start
		allowed         bool
	}{
		"a session":               {session: 300 * time.Millisecond, answer: 300 * time.Millisecond, allowed: true},
		"no session for a minute": {session: time.Minute, answer: returnWithin},
	} {
		inNetwork(t, func(t *testing.T) {
			oneCase(t, name, func(t *testing.T) {
				l, c, stop := lastRun(t, "rules: [{id: r0, algorithm: fixed_window, params: {limit: 200, window: 600}}]", 10*time.Minute, 40)
				stop()
				hold := make(chan struct{})
				l.set(func() { l.hold = hold })
				time.AfterFunc(is.session, func() { close(hold) })
				began := time.Now()
				d, _ := start(t, c)
				a := check(t, d, "k")
				if took := time.Since(began); a.Allowed != is.allowed || took < is.answer || took > is.answer+100*time.Millisecond {
					t.Errorf("after %v: %+v; want allowed %t after %v", took, a, is.allowed, is.answer)
				}
				<-time.After(is.session)
				want := 60
				if is.allowed {
					want--
				}
				if n := admittedUntilDenied(t, d, "k"); n != want {
					t.Errorf("%d more passed, want %d", n, want)
				}
			})
		})
	}
}

// TestADaemonHasItsPlaceHoweverSlowTheDisk: the write of what it remembers does not use up the time for its last word.
func TestADaemonHasItsPlaceHoweverSlowTheDisk(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules: [{id: r0, algorithm: fixed_window, params: {limit: 200, window: 60}}]")
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state.json")
		_, stop := startLive(t, c, func(d *Daemon) {
			write := d.writeFile
			d.writeFile = func(path string, data []byte) error {
				<-time.After(time.Minute)
				return write(path, data)
			}
		})
		stop()
		l.set(func() {
			if l.place.Token == 0 {
				t.Error("no place was asked for")
			}
		})
	})
}

// damage changes the last byte of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ofRegion makes a file of records one of another region.
func ofRegion(t *testing.T, file, region string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := decodeRecords(data)
	if err != nil {
		t.Fatal(err)
	}
	r.Region = region
	if data, err = encodeRecords(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRestartOfAHotKey: the region has four fifths of a hot key when it stops. What is left of it comes back up to the
// floor, because that is what the region may have while it is away.
func TestRestartOfAHotKey(t *testing.T) {
	for used, want := range map[int]int{100: 60, 20: 100} {
		inNetwork(t, func(t *testing.T) {
			l := newLeader(t, "rules: [{id: r0, enforcement: strict, params: {capacity: 200, refill_rate: 0.01}, local_cache: false}]")
			c := testConfig(l.address())
			c.StateFile = filepath.Join(t.TempDir(), "state.json")
			d, stop := startLive(t, c)
			for range 40 {
				check(t, d, "k")
			}
			key, most := keyOf(d, "k"), int32(budget.Unit*4/5)
			l.set(func() {
				l.counter++
				l.opens = []*aliquotv1.Action{{
					Key: key, Gen: &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter}, Share: &aliquotv1.Share{Rate: most, Burst: most},
				}}
			})
			l.lend(key, most)
			l.set(func() {
				l.counter++
				l.opens[0].Gen = &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter}
				l.actions = []*aliquotv1.Action{{Key: key, Gen: l.opens[0].GetGen(), Share: l.opens[0].GetShare(), GrantedMicro: 60 * int64(limit.Token)}}
			})
			eventually(t, "the grant is in the store", func() bool { return check(t, d, "k").Remaining > 100 })
			for check(t, d, "k").Remaining > int64(160-used) {
			}
			stop()
			l.set(func() { l.counter++; l.opens[0].Gen = &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter} })
			d, _ = startLive(t, c)
			if n := admittedUntilDenied(t, d, "k"); n != want {
				t.Errorf("%d were left, and %d passed after the restart, want %d", 160-used, n, want)
			}
		})
	}
}

// TestARunThatNoCoordinatorHearsLeavesNothing: a run that found what the last one remembered, and stops without a session,
// may have spent. What it found is gone then, so that no later run goes by it.
func TestARunThatNoCoordinatorHearsLeavesNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules: [{id: r0, algorithm: fixed_window, params: {limit: 200, window: 60}}]")
		c := testConfig(l.address())
		c.StateFile = filepath.Join(t.TempDir(), "state.json")
		d, stop := startLive(t, c)
		check(t, d, "k")
		stop()
		if _, err := os.Stat(c.StateFile + recordsSuffix); err != nil {
			t.Fatal(err)
		}
		l.set(func() { l.down = true })
		_, stop = start(t, c)
		if _, err := os.Stat(c.StateFile + recordsSuffix); !os.IsNotExist(err) {
			t.Errorf("the file is there while a daemon may spend: %v", err)
		}
		stop()
		if _, err := os.Stat(c.StateFile + recordsSuffix); !os.IsNotExist(err) {
			t.Errorf("a daemon without a session has left something: %v", err)
		}
	})
}
