package regional

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aliquot/budget"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/session"
)

// keptState runs a daemon until it has written a state file, and the store has decided: of so
// many checks of k the last.
func keptState(t *testing.T, c Config, file string) (checks int64) {
	t.Helper()
	d, stop := startLive(t, c)
	eventually(t, "a state file with rules", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && bytes.Contains(data, []byte("refill_rate"))
	})
	_, checks = decided(t, d, "k")
	stop()
	return checks
}

// decided checks until the store decides, which was the last of so many checks.
func decided(t *testing.T, d *Daemon, apiKey string) (a answerOf, checks int64) {
	t.Helper()
	eventually(t, "the store decides", func() bool {
		a = check(t, d, apiKey)
		checks++
		return a.Mode == modes.Store
	})
	return a, checks
}

// decidedAtOnce returns the store's answer to the first check of a client, after before was called. A check that a
// busy machine decides without the store is followed by that of another client.
func decidedAtOnce(t *testing.T, d *Daemon, before func()) (a answerOf) {
	t.Helper()
	client := 0
	eventually(t, "the store decides the first check of a client", func() bool {
		if before != nil {
			before()
		}
		client++
		a = check(t, d, fmt.Sprint("new", client))
		return a.Mode == modes.Store
	})
	return a
}

func TestRestartWithoutCoordinators(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	file := filepath.Join(t.TempDir(), "state")
	l := newLeader(t, oneRule)
	c := testConfig(l.address())
	c.StateFile, c.Redis = file, redis.url()
	before := keptState(t, c, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v); it holds a secret", info.Mode(), err)
	}
	if s, err := readState(file, "us", c.Logger); err != nil || s.Epoch != 1 {
		t.Errorf("%v: the leader's epoch is not kept: %+v", err, s)
	}
	l.set(func() { l.down = true })
	d, _ := start(t, c)
	eventually(t, "the store is reached", func() bool { return d.auth.CurrentEpoch() != "" })
	// The last check of each daemon took one, and one that missed a deadline two at the most.
	if a, since := decided(t, d, "k"); !a.Allowed || a.Remaining > 49 || a.Remaining < 48-2*(before-1)-2*(since-1) {
		t.Errorf("%+v; the same bucket should go on", a)
	}
	if a := decidedAtOnce(t, d, nil); a.Remaining != 49 {
		t.Errorf("%+v; the first contents of the store began full", a)
	}
	if readyz(t, d) != 200 {
		t.Error("not ready with the rules of its state file")
	}
	l.set(func() { l.down = false })
	phase(t, d, budget.Live)
}

func TestDamagedStateFileIsPutAside(t *testing.T) {
	for name, content := range map[string]string{
		"garbage": "\x00garbage", "cut off": `{"format":1,"region":"us"`, "empty": "",
		"no format": `{"region":"us"}`, "incomplete": `{"format":1,"region":"us"}`, "null": "null",
		"an older format": `{"format":-1,"region":"us"}`,
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "state")
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, 0o604); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				c := testConfig(newLeader(t, oneRule).address())
				c.StateFile = file
				s, err := readState(file, "us", slog.New(slog.NewTextHandler(&log, nil)))
				if s != nil || err != nil {
					t.Fatalf("%v, %v", s, err)
				}
				if want := "chmod o-rwx " + file + ".bad"; strings.Count(log.String(), "chmod") != 1 || !strings.Contains(log.String(), want) {
					t.Errorf("log: %s, want %s", log.String(), want)
				}
				if !strings.Contains(log.String(), "put aside") || !strings.Contains(log.String(), file) {
					t.Errorf("log: %s", log.String())
				}
				if kept, err := os.ReadFile(file + ".bad"); err != nil || string(kept) != content {
					t.Errorf("kept %q, %v", kept, err)
				}
				keptState(t, c, file)
				if left, err := os.ReadFile(file + ".bad"); err != nil || string(left) != content {
					t.Errorf("kept %q, %v", left, err)
				}
			})
		})
	}
}

func TestStateFileOfAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	c := testConfig(newLeader(t, oneRule).address())
	c.StateFile = file
	keptState(t, c, file)

	t.Run("region", func(t *testing.T) {
		inNetwork(t, func(t *testing.T) {
			c := c
			c.Region = "eu"
			_, err := New(c)
			if err == nil || !strings.Contains(err.Error(), `"us"`) || !strings.Contains(err.Error(), `"eu"`) {
				t.Errorf("error %v does not name both regions", err)
			}
		})
	})
	t.Run("cluster", func(t *testing.T) {
		l := newLeader(t, oneRule)
		l.cluster = "c2"
		c := c
		c.Coordinators = []string{l.address()}
		err := Run(context.Background(), c)
		if err == nil || !strings.Contains(err.Error(), "c1") || !strings.Contains(err.Error(), "c2") {
			t.Errorf("error %v does not name both clusters", err)
		}
	})
}

func TestConfigErrors(t *testing.T) {
	empty, secret := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(empty, []byte("\n"), 0o600), os.WriteFile(secret, []byte("hunter2\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"--region":                func(c *Config) { c.Region = "../x" },
		"--coordinators is empty": func(c *Config) { c.Coordinators = nil },
		"--coordinators nonsense": func(c *Config) { c.Coordinators = []string{"nonsense"} },
		"not name the primary":    func(c *Config) { c.Redis = "redis+sentinel://u:hunter2@h" },
		"one database, 0":         func(c *Config) { c.Redis = "redis+cluster://u:hunter2@h:1/3" },
		"--redis: give memory":    func(c *Config) { c.Redis = "http://u:hunter2@h" },
		"--redis is memory":       func(c *Config) { c.RedisPasswordFile = secret },
		"no such file":            func(c *Config) { c.Redis, c.RedisPasswordFile = "redis://h", empty+"x" },
		"the file is empty":       func(c *Config) { c.Redis, c.RedisPasswordFile = "redis://h", empty },
		"has a password already":  func(c *Config) { c.Redis, c.RedisPasswordFile = "redis://u:hunter3@h", secret },
		"pass --insecure":         func(c *Config) { c.GRPCListen = "0.0.0.0:7501" },
		"each its own port":       func(c *Config) { c.Listen, c.OpsListen = "127.0.0.1:7", "127.0.0.1:7" },
		"give host:port":          func(c *Config) { c.Listen = "7500" },
	} {
		c := testConfig("127.0.0.1:1")
		change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	c := testConfig("127.0.0.1:1")
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestPortInUseNamesTheFlag(t *testing.T) {
	d, _ := start(t, testConfig("127.0.0.1:1"))
	c := testConfig("127.0.0.1:1")
	c.GRPCListen = d.OpsAddr()
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "--grpc-listen "+d.OpsAddr()) {
		t.Errorf("%v", err)
	}
}

// TestStateFileDirectory: a missing directory is made, for the owner alone; one that
// cannot be made or written to ends the start with the reason. A start removes what a crash has left.
func TestStateFileDirectory(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "var", "lib", "state")
		c := testConfig(newLeader(t, oneRule).address())
		c.StateFile = file
		keptState(t, c, file)
		if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if left, err := filepath.Glob(file + ".*"); err != nil || !slices.Equal(left, []string{file + recordsSuffix}) {
			t.Errorf("left behind: %v, %v", left, err)
		}
		cutOff := []string{file + ".1.tmp", file + recordsSuffix + ".2.tmp"} // by a crash
		for _, name := range cutOff {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		start(t, c)
		for _, name := range cutOff {
			if _, err := os.Stat(name); !os.IsNotExist(err) {
				t.Errorf("after a start %s: %v", name, err)
			}
		}
		c.StateFile = filepath.Join(file, "state") // below a file
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "--state-file "+c.StateFile) || !strings.Contains(err.Error(), "cannot be made") {
			t.Errorf("%v", err)
		}
	})
}

// TestDaemonsWithoutAStateFile: both listen on all addresses of their hosts, and advertise no name, so they have one address.
// Each is one daemon over its restarts, if its host has a name.
func TestDaemonsWithoutAStateFile(t *testing.T) {
	t.Parallel()
	on := func(name string, err error) budget.DaemonID {
		return session.DaemonID(stateID("", nil, func() (string, error) { return name, err }), "[::]:7400")
	}
	first := on("a", nil)
	if first == on("b", nil) {
		t.Error("two hosts have one daemon")
	}
	if again := on("a", nil); again != first {
		t.Error("restarted, it is another daemon")
	}
	nameless := on("", nil)
	if nameless == on("", nil) || on("a", os.ErrPermission) == first {
		t.Error("hosts without a name have one daemon")
	}
}
