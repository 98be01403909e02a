package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aliquot/internal/config"
	"aliquot/internal/testlog"
)

func TestWordsBeforeServing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "regional.yaml")
	if err := os.WriteFile(file, []byte("region: us\nlissten: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		code    int
		want    string
	}{
		{"help", []string{"--help"}, nil, 0, "--state-file"},
		{"version", []string{"--version"}, nil, 0, "aliquot regional " + config.Release},
		{"nothing", nil, nil, exitUsage, "--region"},
		{"unknown flag", []string{"--nonsense"}, nil, exitUsage, "unknown flag: --nonsense\n"},
		{"misspelt flag", []string{"--regoin", "eu"}, nil, exitUsage, "unknown flag: --regoin; did you mean --region?"},
		{"argument", []string{"us"}, nil, exitUsage, `"us"`},
		{"config field", []string{"--config", file}, nil, exitUsage, file + ":2:1"},
		{"environment", nil, []string{"ALIQUOT_REGION=../x"}, exitUsage, `"../x"`},
		{"log level", []string{"--log-level", "loud"}, nil, exitUsage, "loud"},
		{"redis", []string{"--region", "us", "--coordinators", "h:1", "--redis", "redis+sentinel://h"}, nil, exitUsage, "/NAME"},
		{"headers", []string{"--region", "us", "--coordinators", "h:1"}, []string{"ALIQUOT_HEADERS=all"}, exitUsage, "use both, legacy, ietf or none"},
		{"proxies", []string{"--region", "us", "--coordinators", "h:1", "--trusted-proxies", "10.0.0.0/8,here"}, nil, exitUsage, `"here" is not a network`},
		{"throttle", []string{"--region", "us", "--coordinators", "h:1", "--throttle-after", "-1"}, nil, exitUsage, "--throttle-after -1: give"},
		{"hot keys", []string{"--region", "us", "--coordinators", "h:1"}, []string{"ALIQUOT_HOT_KEY_LOG=-5"}, exitUsage, "--hot-key-log -5: give"},
		{"without rules", []string{"--region", "us", "--coordinators", "h:1", "--without-rules", "perhaps"}, nil, exitUsage, "--without-rules \"perhaps\": give deny, or allow"},
		{"without rules in the environment", []string{"--region", "us", "--coordinators", "h:1"}, []string{"ALIQUOT_WITHOUT_RULES=no"}, exitUsage, "--without-rules \"no\""},
		{"help on without rules", []string{"--help"}, nil, 0, "--without-rules"},
		{"help on the state file", []string{"--help"}, nil, 0, "regional-REGION-PORT.json"},
		{"state file of nobody", []string{"--region", "us", "--coordinators", "h:1", "--state-file", file + "/state"}, nil, exitError, "--state-file " + file + "/state"},
		{"state file of nobody in the environment", []string{"--region", "us", "--coordinators", "h:1"}, []string{"ALIQUOT_STATE_FILE=" + file + "/state"}, exitError, "--state-file " + file + "/state"},
		{"open listener", []string{"--region", "us", "--coordinators", "h:1", "--listen", ":7500"}, nil, exitUsage, "--insecure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(c.args, c.environ, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit %d: %s", code, out.String())
			}
		})
	}
}

// TestSignals runs the program: SIGHUP leaves it alone, SIGTERM ends it in order.
func TestSignals(t *testing.T) {
	program := filepath.Join(t.TempDir(), "regional")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, "--region", "us", "--coordinators", "127.0.0.1:1", "--state-file", "none",
		"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0")
	var log testlog.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	opsAt := regexp.MustCompile(`\bops"?[=:]"?(127\.0\.0\.1:\d+)`)
	healthy := func() bool {
		ops := opsAt.FindStringSubmatch(log.String())
		if ops == nil {
			return false
		}
		resp, err := http.Get(fmt.Sprintf("http://%s/healthz", ops[1]))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	eventually(t, healthy)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(log.String(), "SIGHUP") })
	if !healthy() {
		t.Error("SIGHUP was not survived")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, log.String())
	}
}

// TestDefaultStateFile: only a daemon that is told nothing of a state file has the default one.
func TestDefaultStateFile(t *testing.T) {
	home := t.TempDir()
	settings := filepath.Join(t.TempDir(), "regional.yaml")
	if err := os.WriteFile(settings, []byte("state-file: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const byDefault = ".local/state/aliquot/regional-us-7500.json"
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		want    string // below home; empty: none
	}{
		{"told nothing", nil, nil, byDefault},
		{"port", []string{"--listen", "127.0.0.1:7510"}, nil, ".local/state/aliquot/regional-us-7510.json"},
		{"systemd", nil, []string{"STATE_DIRECTORY=" + home + "/systemd"}, "systemd/regional-us-7500.json"},
		{"none", []string{"--state-file", "none"}, nil, ""},
		{"nothing", []string{"--state-file", ""}, nil, ""},
		{"none in the environment", nil, []string{"ALIQUOT_STATE_FILE=none"}, ""},
		{"none in the file", []string{"--config", settings}, nil, ""},
		{"a port of each start", []string{"--listen", "127.0.0.1:0"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			got, code := configured(append([]string{"--region", "us", "--coordinators", "h:1"}, c.args...), append(c.environ, "HOME="+home), &out, &out)
			if got == nil {
				t.Fatalf("exit %d: %s", code, out.String())
			}
			file := got.StateFile
			if file == "none" {
				file = ""
			}
			if c.want == "" && (file != "" || got.StateFileIsDefault) || c.want != "" && (file != filepath.Join(home, c.want) || !got.StateFileIsDefault) {
				t.Errorf("%q, default %v; want %q", got.StateFile, got.StateFileIsDefault, c.want)
			}
		})
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within a minute")
		}
	}
}

// TestOtherNamesOfFlags: --join is --coordinators, and --gossip-listen changes nothing.
func TestOtherNamesOfFlags(t *testing.T) {
	var out bytes.Buffer
	c, code := configured([]string{"--region", "us", "--join", "h:1,h:2", "--gossip-listen", "127.0.0.1:7502"}, []string{"HOME=" + t.TempDir()}, &out, &out)
	if c == nil || !slices.Equal(c.Coordinators, []string{"h:1", "h:2"}) {
		t.Errorf("exit %d, %+v: %s", code, c, out.String())
	}
}
