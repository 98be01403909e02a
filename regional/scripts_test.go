package regional

import (
	"errors"
	"strings"
	"testing"

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
	if got := storeguard.Reason(err); got != "scripts" || !strings.Contains(remedy(got), "Redis 6.2 or later") {
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
