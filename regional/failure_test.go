package regional

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"aliquot/regional/internal/modes"
)

const failRules = `
defaults: {enforcement: strict}
rules:
  - id: r0
    match: {attributes: {on: local}}
    key: [api_key]
    params: {capacity: 100, refill_rate: 100}
  - id: r1
    match: {attributes: {on: open}}
    key: [api_key]
    params: {capacity: 100, refill_rate: 100}
    on_redis_failure: open
  - id: r2
    match: {attributes: {on: closed}}
    key: [api_key]
    params: {capacity: 100, refill_rate: 100}
    on_redis_failure: closed
`

func on(t *testing.T, d *Daemon, failure string) answerOf {
	t.Helper()
	a := post(t, d, fmt.Sprintf(`{"attributes":{"api_key":"k","on":%q}}`, failure))
	if a.Status != 200 {
		t.Fatalf("a store's failure became status %d: %s", a.Status, a.Message)
	}
	return a
}

func say(command string) func(*redisServer) {
	return func(s *redisServer) {
		if got := s.say(command); !strings.HasPrefix(got, "+OK") {
			s.t.Errorf("%s: %s", command, got)
		}
	}
}

// TestLostContents: a flush, or a server that came back empty, gives nobody a free
// bucket, closes the session, and costs no check.
func TestLostContents(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redisServer){
		"flushed":   say("FLUSHALL"),
		"restarted": func(s *redisServer) { s.kill(); s.start() },
		"scripts":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			redis := startRedis(t)
			l := newLeader(t, "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    key: [api_key]\n    params: {capacity: 1000, refill_rate: 10}\n")
			c := testConfig(l.address())
			c.Redis = redis.url()
			began := time.Now()
			d, _ := startLive(t, c)
			burst(t, d, "k")
			if lose == nil {
				if a := decidedAtOnce(t, d, func() { say("SCRIPT FLUSH")(redis) }); a.Remaining != 499 {
					t.Errorf("after SCRIPT FLUSH: %+v", a)
				}
				return
			}
			before := d.auth.CurrentEpoch()
			lose(redis)
			eventually(t, "the store decides again", func() bool { return check(t, d, "k").Mode == modes.Store })
			// The daemon remembers that the client was not here since it began, so the client has what it earned since.
			if n, most := burst(t, d, "k2"), int(time.Since(began).Seconds()*5*1.02)+10; n > most {
				t.Errorf("%d passed at once of a bucket that can hold %d", n, most)
			}
			eventually(t, "a Hello with the new contents", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				last := l.hellos[len(l.hellos)-1].GetRedisEpoch()
				return last != before && last == d.auth.CurrentEpoch()
			})
		})
	}
}

// TestOutageIsDebited: what the emergency limit admitted comes off the store's
// bucket, so an outage gives nobody anything.
func TestOutageIsDebited(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	c := testConfig(newLeader(t, failRules).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	began := time.Now()
	passed := 0
	count := func() string {
		a := on(t, d, "local")
		if a.Allowed {
			passed++
		}
		return a.Mode
	}
	for range 20 {
		count()
	}
	redis.signal(syscall.SIGSTOP)
	outage := time.Now()
	eventually(t, "an outage of 2 s", func() bool { count(); return time.Since(outage) > 2*time.Second })
	redis.signal(syscall.SIGCONT)
	eventually(t, "the store decides again", func() bool { return count() == modes.Store })
	for denied := false; !denied; {
		before := passed
		count()
		denied = passed == before
	}
	if most := 50 + 50*time.Since(began).Seconds(); float64(passed) > most {
		t.Errorf("%d passed, the region's floor allows %.0f", passed, most)
	}
}

// TestStoppedStoreIsNoticedWithoutTraffic: the daemon's own calls find a store that stopped and
// one that went on, without a check; meanwhile a seldom client is served by the emergency limit.
func TestStoppedStoreIsNoticedWithoutTraffic(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, failRules).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	redis.signal(syscall.SIGSTOP)
	eventually(t, "the breaker is open", d.guard.Breaker.Open.Load)
	eventually(t, "a check is admitted by the emergency limit", func() bool {
		a := on(t, d, "local")
		return a.Allowed && a.Mode == modes.Emergency
	})
	redis.signal(syscall.SIGCONT)
	eventually(t, "the breaker is closed", func() bool { return !d.guard.Breaker.Open.Load() })
	eventually(t, "the store decides", func() bool { return on(t, d, "local").Mode == modes.Store })
}

// TestSeldomClientsOfAStoppedStore: one client, whose next check comes when the breaker has had the time
// to forget the last, is denied a handful of times and then admitted, not for as long as the store is stopped.
func TestSeldomClientsOfAStoppedStore(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	c := testConfig(newLeader(t, failRules).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	eventually(t, "the store admits", func() bool {
		a := on(t, d, "local")
		return a.Allowed && a.Mode == modes.Store
	})
	redis.signal(syscall.SIGSTOP)
	defer redis.signal(syscall.SIGCONT)
	denied := 0
	tick := time.NewTicker(700 * time.Millisecond)
	defer tick.Stop()
	for range 8 {
		if a := on(t, d, "local"); !a.Allowed {
			denied++
		}
		<-tick.C
	}
	if denied > 3 {
		t.Errorf("%d of 8 checks denied", denied)
	}
}
