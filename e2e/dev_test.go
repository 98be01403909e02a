package e2e

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// startDev runs `aliquot dev` with more flags as a process and waits for "ready".
func startDev(t *testing.T, flags ...string) *Process {
	t.Helper()
	for range 5 {
		offset := 1000 + rand.IntN(30_000)
		command := append([]string{filepath.Join(bin, "aliquot"), "dev", "--port-offset", strconv.Itoa(offset)}, flags...)
		p := newProcess(t.TempDir(), "dev", command...)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Kill9() })
		inUse := errors.New("a port is in use")
		err := until(t.Context(), readyWithin, "ready", func() error {
			switch {
			case strings.Contains(p.Tail(), "\nready\n"):
				return nil
			case !p.Running():
				return inUse
			}
			return errors.New("no line says ready")
		})
		if err == nil {
			return p
		}
		if !strings.Contains(p.Tail(), "--port-offset") {
			t.Fatalf("%v\n%s", err, p.Tail())
		}
	}
	t.Fatal("no free ports were found")
	return nil
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
