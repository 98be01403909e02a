package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aliquot/coordinator"
	"aliquot/rules"
)

func valid() Config {
	c := DefaultConfig()
	c.Out, c.Logger = io.Discard, slog.New(slog.DiscardHandler)
	return c
}

func TestValidateNamesTheFlag(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Error(err)
	}
	for says, spoil := range map[string]func(*Config){
		"--coordinators 2":  func(c *Config) { c.Coordinators = 2 },
		"--coordinators 11": func(c *Config) { c.Coordinators = 11 },
		"--regions":         func(c *Config) { c.Regions = nil },
		"name of its own":   func(c *Config) { c.Regions = []string{"a", "b", "a"} },
		"has no name":       func(c *Config) { c.Regions = []string{"a", ""} },
		"2 URLs for 3":      func(c *Config) { c.Redis = []string{"memory", "memory"} },
		"share a store":     func(c *Config) { c.Redis = []string{"redis://h:1", "memory", "redis://h:1"} },
		"--rtt":             func(c *Config) { c.RTT = -1 },
		"--port-offset":     func(c *Config) { c.PortOffset = 60_000 },
		"needs Out":         func(c *Config) { c.Out = nil },
	} {
		c := valid()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

func TestTheExampleRulesAreValid(t *testing.T) {
	set, warnings, err := rules.Parse("rules.yaml", exampleRules)
	if err != nil || len(warnings) > 0 || len(set.Rules()) != 1 {
		t.Errorf("%v, %v", warnings, err)
	}
}

func TestTheLocalInstallationStartsWithTheSameRules(t *testing.T) {
	local, err := os.ReadFile("../../deploy/local/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	after := func(text string) string { _, rest, _ := strings.Cut(text, "\nrules:\n"); return rest }
	if after(string(local)) != after(string(exampleRules)) {
		t.Error("deploy/local/rules.yaml differs from dev/rules.yaml")
	}
}

func TestADaemonThatCannotStartEndsAll(t *testing.T) {
	c := valid()
	// Below the ports that the system gives away.
	c.PortOffset, c.Coordinators, c.Regions = 10_000+os.Getpid()%10_000, 1, []string{"only"}
	c.RulesFile = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(c.RulesFile, []byte("rulez: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "rules.yaml:1:1") {
		t.Errorf("error %v", err)
	}
}

func TestDelayTakesARoundTrip(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
	defer s.Close()
	client := &http.Client{Transport: delay{next: http.DefaultTransport, oneWay: 20 * time.Millisecond}}
	began := time.Now()
	answer, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if took := time.Since(began); took < 40*time.Millisecond {
		t.Errorf("the call took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader("body"))
	if _, err := client.Do(request); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestARegionIsCutAndHealedByALine(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
	defer s.Close()
	h := &house{config: valid(), cuts: map[string]*atomic.Bool{"eu-west": new(atomic.Bool)}}
	client := &http.Client{Transport: link{next: http.DefaultTransport, cut: h.cuts["eu-west"]}}
	for _, c := range []struct {
		line, says string
		reaches    bool
	}{
		{"cut", "type: cut REGION or heal REGION, with one of us-east, eu-west, ap-south", true},
		{"cut mars", "type: cut REGION", true},
		{"cut eu-west", "eu-west is cut off", false},
		{"stop eu-west", "type: cut REGION", false},
		{"heal eu-west", "eu-west reaches", true},
	} {
		if got := h.command(strings.Fields(c.line)); !strings.HasPrefix(got, c.says) {
			t.Errorf("%s: %q, want %q", c.line, got, c.says)
		}
		answer, err := client.Get(s.URL)
		if err == nil {
			answer.Body.Close()
		}
		if reaches := err == nil; reaches != c.reaches || err != nil && !errors.Is(err, errCut) {
			t.Errorf("after %q: %v", c.line, err)
		}
	}
}

// TestALineThatIsTooLong is no command, and later lines still are.
func TestALineThatIsTooLong(t *testing.T) {
	c := valid()
	var out strings.Builder
	c.In, c.Out = strings.NewReader(strings.Repeat("x", 100_000)+"\n\ncut eu-west"), &out
	h := &house{config: c, cuts: map[string]*atomic.Bool{"eu-west": new(atomic.Bool)}}
	h.obey()
	const want = "type: cut REGION or heal REGION, with one of us-east, eu-west, ap-south\neu-west is cut off from the coordinators\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestRulesThatAreNotThere end it before an address is printed.
func TestRulesThatAreNotThere(t *testing.T) {
	c := valid()
	c.RulesFile = filepath.Join(t.TempDir(), "none.yaml")
	if _, err := c.rulesFile(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "--rules: open ") {
		t.Error(err)
	}
}

// Everybody who tries `aliquot cluster remove` tries it on this.
func TestACoordinatorThatWasRemovedEndsAlone(t *testing.T) {
	for _, c := range []struct {
		of   error
		ends bool
	}{
		{fmt.Errorf("c3: %w", coordinator.ErrRemoved), false},
		{errors.New("disk full"), true},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		h := &house{config: valid(), fail: cancel}
		h.run("coordinator c3", func() error { return c.of })
		h.daemons.Wait()
		if ended := ctx.Err() != nil; ended != c.ends {
			t.Errorf("after %q the others have ended: %v", c.of, ended)
		}
		cancel(nil)
	}
}
