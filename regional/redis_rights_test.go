package regional

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"aliquot/internal/testlog"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
)

// rightsThatSuffice are those that docs/reference/stores.md tells an operator to give, and no others.
const rightsThatSuffice = "ACL SETUSER aliquot on >secret ~aq:* resetchannels -@all +eval +evalsha +info +get +set +append +time +ping +hello +auth"

// TestRedisPasswordFile: the password comes from a file, whatever is in it, with and without a user.
func TestRedisPasswordFile(t *testing.T) {
	for name, user := range map[string]string{"with a user": "aliquot@", "without": ""} {
		t.Run(name, func(t *testing.T) {
			const password = "p@ss/w:rd?#%+,\u00e9"
			server := startRedis(t)
			if user != "" {
				say(strings.Replace(rightsThatSuffice, ">secret", ">"+password, 1))(server)
			} else {
				say("CONFIG SET requirepass " + password)(server)
			}
			file := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c := testConfig(newLeader(t, oneRule).address())
			c.Redis, c.RedisPasswordFile = strings.Replace(server.url(), "//", "//"+user, 1), file
			d, _ := startLive(t, c)
			eventually(t, "the store decides", func() bool { return check(t, d, "k").Mode == modes.Store })
		})
	}
}

// TestRightsThatSuffice: a user of Redis with the rights that the docs name can do all that a daemon asks
// of it, for limits of all algorithms, and Redis refused it nothing. That the Redis evicts is told too.
func TestRightsThatSuffice(t *testing.T) {
	for name, c := range map[string]struct{ database, rights string }{
		"the first database": {}, "another database": {"/3", " +select"},
	} {
		t.Run(name, func(t *testing.T) { testRightsThatSuffice(t, c.database, c.rights) })
	}
}

func testRightsThatSuffice(t *testing.T, database, rights string) {
	server := startRedis(t, "--maxmemory-policy", "allkeys-lru")
	say(rightsThatSuffice + rights)(server)
	rules := "defaults: {enforcement: strict}\nrules:\n"
	for id, of := range map[string]string{
		"r0": "algorithm: token_bucket, params: {capacity: 100, refill_rate: 10}", "r1": "algorithm: fixed_window, params: {limit: 100, window: 60s}",
		"r2": "algorithm: sliding_window_counter, params: {limit: 100, window: 60s}", "r3": "algorithm: sliding_window_log, params: {limit: 100, window: 60s}",
		"r4": "algorithm: concurrency, params: {limit: 10, window: 60s}",
	} {
		rules += "  - {id: " + id + ", key: [api_key], " + of + "}\n"
	}
	var log testlog.Buffer
	c := testConfig(newLeader(t, rules).address())
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.Redis = strings.Replace(server.url(), "//", "//aliquot:secret@", 1) + database
	d, _ := startLive(t, c)
	if a := decidedAtOnce(t, d, nil); a.Status != http.StatusOK || !a.Allowed || len(a.Limits) != 5 {
		t.Errorf("%+v", a)
	}
	var reserved *aliquotv1.ReserveResponse
	client := 0
	eventually(t, "the store reserves", func() bool { // for another client where it missed a deadline
		client++
		reserved = reserveFor(t, d, &aliquotv1.ReserveRequest{Attributes: map[string]string{"api_key": fmt.Sprint("reserves", client)}, Cost: new(int64(5))})
		return reserved.GetDecision().GetMode() == modes.Store
	})
	if reserved.GetId() == "" {
		t.Fatalf("%v", reserved)
	}
	if out := settleFirst(t, d, &aliquotv1.SettleRequest{Id: reserved.GetId(), Cost: new(int64(2))}); out.GetState() != engine.StateSettled {
		t.Errorf("%v", out)
	}
	eventually(t, "the log says that the Redis evicts", func() bool { return strings.Contains(log.String(), "maxmemory-policy=allkeys-lru") })
	admin := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(server.url(), "redis://")})
	defer admin.Close()
	if refused, err := admin.Do(context.Background(), "acl", "log").Slice(); err != nil || len(refused) > 0 {
		t.Errorf("Redis refused the user something: %v, %v", refused, err)
	}
}
