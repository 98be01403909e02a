package regional

import (
	"errors"
	"strings"
	"testing"

	"aliquot/lua/redistest"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store"
)

// A store that cannot run the scripts is named as such, in the metric and with what to do.
func TestAStoreThatCannotRunTheScripts(t *testing.T) {
	server := startRedis(t, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
	s, err := store.NewRedis(store.DefaultRedisConfig(server.url()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Epoch(t.Context())
	if got := storeguard.Reason(err); got != "scripts" || !strings.Contains(remedy(got), "Redis 7.0 or later") {
		t.Errorf("%v: reason %q, remedy %q", err, got, remedy(got))
	}
	for _, text := range []string{
		"ERR Error running script (call to f_1): @user_script:12: ERR syntax error",
		"ERR user_script:3: Script attempted to access nonexistent global variable 'struct' script: f_1, on @user_script:3.",
	} {
		if got := storeguard.Reason(errors.New(text)); got != "scripts" {
			t.Errorf("%q: reason %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'. script: f_1, on @user_script:37.": "oom",
		"BUSY Redis is busy running a script.":                                                     "busy",
	} {
		if got := storeguard.Reason(errors.New(text)); got != want {
			t.Errorf("%q: reason %q, want %q", text, got, want)
		}
	}
}

// A --redis whose scheme is not that of the server is named as such. It had no advice, or that of a Redis which is
// too old.
func TestASchemeThatDoesNotFitTheServer(t *testing.T) {
	server := startRedis(t)
	address := strings.TrimPrefix(server.url(), "redis://")
	cluster, err := store.NewCluster(store.DefaultRedisConfig("redis+cluster://" + address))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	sentinel, err := store.NewRedis(store.DefaultRedisConfig("redis+sentinel://" + address + "/primary"))
	if err != nil {
		t.Fatal(err)
	}
	defer sentinel.Close()
	for scheme, s := range map[string]storeguard.Store{"redis+cluster": cluster, "redis+sentinel": sentinel} {
		_, err := s.Epoch(t.Context())
		if got := storeguard.Reason(err); got != "scheme" || !strings.Contains(remedy(got), "redis:// is for one Redis") {
			t.Errorf("%s: %v: reason %q, remedy %q", scheme, err, got, remedy(got))
		}
	}
	for _, text := range []string{"MOVED 3999 127.0.0.1:6381", "CROSSSLOT Keys in request don't hash to the same slot"} {
		if got := storeguard.Reason(errors.New(text)); got != "scheme" {
			t.Errorf("a node of a cluster asked as one Redis, %q: reason %q", text, got)
		}
	}
}

// TestASentinelThatIsAskedForAnotherStore: as the Redis itself, or for a primary of another name. It had the advice of a
// Redis which is too old, or none.
func TestASentinelThatIsAskedForAnotherStore(t *testing.T) {
	address := redistest.StartSentinel(t, redistest.Start(t).Port())
	for url, want := range map[string]string{"redis://" + address: "scheme", "redis+sentinel://" + address + "/another": "name"} {
		s, err := store.NewRedis(store.DefaultRedisConfig(url))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Epoch(t.Context())
		if got := storeguard.Reason(err); got != want || remedy(got) == "" {
			t.Errorf("%s: %v: reason %q, remedy %q", url, err, got, remedy(got))
		}
	}
	cluster, err := store.NewCluster(store.DefaultRedisConfig("redis+cluster://" + address))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	_, err = cluster.Epoch(t.Context())
	if got := storeguard.Reason(err); got != "scheme" {
		t.Errorf("redis+cluster: %v: reason %q", err, got)
	}
}
