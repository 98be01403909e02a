package regional

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aliquot/internal/httpanswer"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"

	"github.com/redis/go-redis/v9"
)

// user is a user of the test's Redis, by whose rights a daemon may be limited.
const user = "ACL SETUSER aliquot on >old ~* &* +@all"

// storeFault is one way in which a Redis fails.
type storeFault struct {
	// as the user named above, not as the default one.
	asUser     bool
	stop, cure func(*redisServer)
	// reason is how metrics call it.
	reason string
}

var storeFaults = map[string]storeFault{
	"stopped": {
		stop: func(s *redisServer) { s.signal(syscall.SIGSTOP) }, cure: func(s *redisServer) { s.signal(syscall.SIGCONT) },
		reason: "timeout",
	},
	"paused":          {stop: say("CLIENT PAUSE 600000 WRITE"), cure: say("CLIENT UNPAUSE"), reason: "timeout"},
	"killed":          {stop: (*redisServer).kill, cure: (*redisServer).start, reason: "connection"},
	"made a replica":  {stop: say("REPLICAOF 127.0.0.1 1"), cure: say("REPLICAOF NO ONE"), reason: "readonly"},
	"full":            {stop: say("CONFIG SET maxmemory 1"), cure: say("CONFIG SET maxmemory 0"), reason: "oom"},
	"no replicas":     {stop: say("CONFIG SET min-replicas-to-write 1"), cure: say("CONFIG SET min-replicas-to-write 0"), reason: "noreplicas"},
	"a script blocks": {stop: blockByScript, cure: say("SCRIPT KILL"), reason: "busy"},
	"loads":           {stop: loadSlowly, cure: say("CONFIG SET key-load-delay 0"), reason: "loading"},
	"cannot save":     {stop: failToSave, cure: say("CONFIG SET stop-writes-on-bgsave-error no"), reason: "misconf"},
	"wants a password": {
		stop:   func(s *redisServer) { s.setPassword("new", "") },
		cure:   func(s *redisServer) { s.setPassword("", "new") },
		reason: "noauth",
	},
	"another password": {
		asUser: true,
		stop: func(s *redisServer) {
			say("ACL SETUSER aliquot resetpass >new")(s)
			s.say("CLIENT KILL USER aliquot")
		},
		cure: say("ACL SETUSER aliquot >old"), reason: "wrongpass",
	},
	"fewer rights": {
		asUser: true,
		stop:   say("ACL SETUSER aliquot -evalsha -eval"), cure: say("ACL SETUSER aliquot +evalsha +eval"), reason: "noperm",
	},
}

// TestStoreFails: however a Redis fails, every check is answered by its rule's own choice
// and says so, metrics name the reason and the open circuit, and the store is back in
// charge once it answers.
func TestStoreFails(t *testing.T) {
	for name, fault := range storeFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t, "--enable-debug-command", "yes", "--busy-reply-threshold", "5", "--loading-process-events-interval-bytes", "1024")
			c := testConfig(newLeader(t, failRules).address())
			c.Redis = redis.url()
			if fault.asUser {
				say(user)(redis)
				c.Redis = strings.Replace(c.Redis, "//", "//aliquot:old@", 1)
			}
			d, _ := startLive(t, c)
			eventually(t, "the store decides", func() bool { return on(t, d, "local").Mode == modes.Store })
			fault.stop(redis)
			fault.isFelt(t, d)
			fault.cure(redis)
			for _, which := range []string{"local", "open", "closed"} {
				eventually(t, which+" is decided by the store again", func() bool { return on(t, d, which).Mode == modes.Store })
			}
			eventually(t, "the circuit is closed", func() bool {
				now := scrape(t, d)
				return strings.Contains(now, `aliquot_degraded{reason="store"} 0`) && strings.Contains(now, `aliquot_store_circuit_open{shard="store"} 0`)
			})
		})
	}
}

// isFelt: the rules' own choices decide, and the metrics tell.
func (f *storeFault) isFelt(t *testing.T, d *Daemon) {
	t.Helper()
	eventually(t, "the circuit opens for its reason", func() bool {
		on(t, d, "local")
		now := scrape(t, d)
		return strings.Contains(now, `aliquot_degraded{reason="store"} 1`) &&
			strings.Contains(now, `aliquot_store_circuit_open{shard="store"} 1`) &&
			strings.Contains(now, fmt.Sprintf("reason=%q} ", f.reason))
	})
	if a := on(t, d, "local"); a.Mode != modes.Emergency {
		t.Errorf("local: %+v", a)
	}
	if a := on(t, d, "open"); !a.Allowed || a.Mode != modes.FailOpen || !strings.Contains(a.Reason, "degraded") {
		t.Errorf("open: %+v", a)
	}
	if a := on(t, d, "closed"); a.Allowed || a.Mode != modes.FailClosed || a.Problem != httpanswer.ReducedCapacity || a.wait(t) <= 0 || a.wait(t) > storeguard.MaxOpen+storeguard.Deadline {
		t.Errorf("closed: %+v", a)
	}
	eventually(t, "the emergency limit admits something", func() bool {
		a := on(t, d, "local")
		return a.Allowed && a.Mode == modes.Emergency
	})
}

func blockByScript(s *redisServer) { s.background("eval", "while true do end", 0) }

// loadSlowly has the server save and load many keys, slowly, with a look at its clients often enough
// that a new connection is not refused by time.
func loadSlowly(s *redisServer) {
	say("DEBUG POPULATE 180000 filler 64")(s)
	say("CONFIG SET key-load-delay 200")(s) // microseconds each
	s.background("debug", "reload")
}

// failToSave has a snapshot fail: a folder stands where its file should.
func failToSave(s *redisServer) {
	if err := os.MkdirAll(filepath.Join(s.dir, "dump.rdb", "full"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	say("CONFIG SET save '3600 1'")(s)
	s.say("BGSAVE")
	eventually(s.t, "the snapshot fails", func() bool { return s.say("SET probe 1") != "+OK" })
}

// setPassword changes the password, and ends all connections that gave the one before.
func (s *redisServer) setPassword(password, before string) {
	client := redis.NewClient(&redis.Options{Addr: s.address(), MaxRetries: -1, Password: before, PoolSize: 1})
	defer client.Close()
	ctx := context.Background()
	if err := client.ConfigSet(ctx, "requirepass", password).Err(); err != nil {
		s.t.Error(err)
	}
	if err := client.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
		s.t.Error(err)
	}
}

// background begins a command that does not end by itself.
func (s *redisServer) background(words ...any) {
	client := redis.NewClient(&redis.Options{Addr: s.address(), MaxRetries: -1, ReadTimeout: time.Minute})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Do(context.Background(), words...)
	}()
	s.t.Cleanup(func() {
		client.Close()
		<-ended
	})
}

// TestScriptsForgotten: a Redis that forgets its scripts, again and again, costs no check.
func TestScriptsForgotten(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, strings.Replace(failRules, "enforcement: strict", "enforcement: strict, local_cache: false", 1)).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	eventually(t, "the store decides", func() bool { return on(t, d, "local").Mode == modes.Store })
	decided := 0
	eventually(t, "the store decides 20 checks without its scripts", func() bool {
		say("SCRIPT FLUSH")(redis)
		if on(t, d, "local").Mode == modes.Store {
			decided++
		}
		return decided == 20
	})
}
