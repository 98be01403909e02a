package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// startDev runs `aliquot dev` with more flags as a process and waits for "ready".
func startDev(t *testing.T, flags ...string) *Process {
	t.Helper()
	return startDevReading(t, nil, func(int) {}, flags...)
}

// startDevWatched is startDev, and calls watch with the port offset again and again meanwhile.
func startDevWatched(t *testing.T, watch func(offset int), flags ...string) *Process {
	t.Helper()
	return startDevReading(t, nil, watch, flags...)
}

// startDevReading is startDevWatched with a standard input.
func startDevReading(t *testing.T, in *os.File, watch func(offset int), flags ...string) *Process {
	t.Helper()
	for range 5 {
		offset := portOffset()
		command := append([]string{filepath.Join(bin, "aliquot"), "dev", "--port-offset", strconv.Itoa(offset)}, flags...)
		p := NewProcess(t.TempDir(), "dev", command...)
		p.In = in
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Kill9() })
		err := Until(t.Context(), ReadyWithin, "ready", func() error {
			watch(offset)
			if p.Running() && !strings.Contains(p.Tail(), "\nready\n") {
				return errors.New("no line says ready")
			}
			return nil
		})
		if err == nil && p.Running() {
			return p
		}
		if !strings.Contains(p.Tail(), "--port-offset") {
			t.Fatalf("not ready: %v\n%s", err, p.Tail())
		}
	}
	t.Fatal("no free ports were found")
	return nil
}

const (
	// installationPorts is how many ports `aliquot dev` and `make up` have, from 7400 on. lowestInstallation is
	// above the ports of FreePorts; the last installation is below the ports of outgoing connections.
	installationPorts, lowestInstallation, mostInstallations = 300, 20_000, 42
)

// firstInstallation is where this process begins, so that test processes seldom meet.
var firstInstallation = rand.IntN(mostInstallations)

// installations is how many port offsets this process has given away.
var installations atomic.Int64

// portOffset returns the port offset of an installation, whose ports no other installation of this process has.
func portOffset() int {
	n := (firstInstallation + int(installations.Add(1))) % mostInstallations
	return lowestInstallation + n*installationPorts - 7400
}

// TestDevLetsNothingPassBeforeItsRules: at an ordinary start each request is denied, until the rules
// are known that decide it.
func TestDevLetsNothingPassBeforeItsRules(t *testing.T) {
	asked, free, denied, limited := 0, 0, 0, 0
	ask := func(offset int) {
		for range 50 {
			answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/aliquot.v1.LimiterService/Check", 7500+offset), "application/json",
				strings.NewReader(`{"attributes":{"api_key":"early"}}`))
			if err != nil {
				return // it does not listen yet
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			asked++
			switch text := string(body); {
			case err != nil:
				t.Error(err)
			case strings.Contains(text, `"ruleId":"per-key"`):
				limited++
			case strings.Contains(text, `"allowed":true`):
				free++
			case strings.Contains(text, `"mode":"no_rules_yet"`):
				denied++
			default:
				t.Errorf("an answer by something else: %s", text)
			}
		}
	}
	var latest int
	startDevWatched(t, func(offset int) { latest = offset; ask(offset) })
	ask(latest)
	t.Logf("%d asked: %d free, %d denied before the rules, %d decided by the rule", asked, free, denied, limited)
	// That it denies before the rules is TestProxiesWhereNothingIsKnown's: here the rules may come between two questions.
	if free > 0 || limited == 0 {
		t.Errorf("%d of %d passed without a rule, %d were decided by the rules", free, asked, limited)
	}
}

// curl takes the printed example apart: URL, header, body.
var curl = regexp.MustCompile(`curl -s (\S+) -H '([^:]+): ([^']+)' -d '([^']+)'`)

func TestDevAnswersItsExampleAndEndsOnSIGTERM(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p := startDev(t)
	example := curl.FindStringSubmatch(p.Tail())
	if example == nil {
		t.Fatalf("no example in\n%s", p.Tail())
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, example[1], strings.NewReader(example[4]))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(example[2], example[3])
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(body), `"allowed":true,"ruleId":"per-key","limit":"300"`) {
		t.Errorf("%v: %s", err, body)
	}
	if err := p.Terminate(); err != nil || strings.Contains(p.Tail(), "did not stop in time") {
		t.Errorf("%v\n%s", err, p.Tail())
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "aliquot-dev-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
