package deploycheck

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// readyWithin bounds the way from nothing to leases, on a machine however slow it is.
	readyWithin = 5 * time.Minute
	// pollEvery is how often a condition is looked at.
	pollEvery = 50 * time.Millisecond
	// askWithin bounds one question, on a machine that may stop for a while.
	askWithin = 15 * time.Second
	// stopWithin is below the grace that every deployment here gives.
	stopWithin = 12 * time.Second
	// logTail is how much of a log is shown when something failed.
	logTail = 4 << 10
)

// fleet is a deployment that runs.
type fleet struct {
	net       *network
	processes []*process // in the order of their start
}

type process struct {
	*placed
	cmd  *exec.Cmd
	log  string
	done chan error
}

// launch starts containers in the order given. They are stopped at the end of the
// test at the latest; the logs of a test that failed are shown.
func launch(t *testing.T, n *network, containers []*container) *fleet {
	t.Helper()
	f := &fleet{net: n}
	for _, c := range containers {
		f.processes = append(f.processes, &process{placed: n.place(c)})
	}
	if err := n.release(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, p := range f.processes {
		p.start(t, filepath.Join(dir, p.name+".log"))
	}
	return f
}

func (p *process) start(t *testing.T, log string) {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.log, p.done = log, make(chan error, 1)
	p.cmd = exec.Command(p.program, p.args...)
	p.cmd.Env = append([]string{}, p.env...) // a container inherits nothing
	p.cmd.Dir = filepath.Dir(log)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("%s %q %q\n%s", p.name, p.args, p.env, tail(p.log))
		}
	})
}

func tail(file string) []byte {
	data, err := os.ReadFile(file)
	if err != nil {
		return []byte(err.Error())
	}
	return data[max(0, len(data)-logTail):]
}

// of are the processes of one kind.
func (f *fleet) of(kind string) (out []*process) {
	for _, p := range f.processes {
		if p.kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// at is the URL of a path on one of a process's ports.
func (f *fleet) at(p *process, port, path string) string {
	return "http://" + f.net.ports[p.host+":"+port] + path
}

// eventually waits for a condition; what it returns last is why it failed.
func (f *fleet) eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	deadline := time.After(readyWithin)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		if ended := f.ended(); ended != "" {
			t.Fatalf("%s: %s ended", what, ended)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %s: %v", what, readyWithin, err)
		}
	}
}

// ended names a process that is gone.
func (f *fleet) ended() string {
	for _, p := range f.processes {
		select {
		case err := <-p.done:
			p.done <- err
			return p.name
		default:
		}
	}
	return ""
}

// awaitLeases returns when every regional daemon holds a lease.
func (f *fleet) awaitLeases(t *testing.T) {
	t.Helper()
	for _, p := range f.of("regional") {
		f.eventually(t, "lease of "+p.name, func() error {
			seconds, err := metric(f.at(p, "7503", "/metrics"), "aliquot_lease_remaining_seconds")
			if err == nil && seconds <= 0 {
				return fmt.Errorf("%v seconds left", seconds)
			}
			return err
		})
	}
}

// metric is the value of the first series of a name.
func metric(url, name string) (float64, error) {
	body, err := ask(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if series == name || strings.HasPrefix(series, name+"{") {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", url, name)
}

func ask(method, url string, message []byte) ([]byte, error) {
	req, err := http.NewRequest(method, url, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Timeout: askWithin}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

// call asks one method and decodes its answer.
func call(url, message string, answer any) error {
	body, err := ask(http.MethodPost, url, []byte(message))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// healthy runs every health check as its orchestrator would.
func (f *fleet) healthy(t *testing.T) {
	t.Helper()
	for _, p := range f.processes {
		if len(p.health) == 0 {
			t.Errorf("%s has no health check", p.name)
		}
		for _, command := range p.health {
			f.eventually(t, fmt.Sprintf("%s: %v", p.name, command), func() error {
				out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
		}
	}
}

// stop ends everything in the reverse order, as an orchestrator does.
func (f *fleet) stop(t *testing.T) {
	t.Helper()
	for i := len(f.processes) - 1; i >= 0; i-- {
		p := f.processes[i]
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if ended, err := p.ended(stopWithin); !ended {
			t.Errorf("%s still runs %s after SIGTERM", p.name, stopWithin)
		} else if err != nil {
			t.Errorf("%s after SIGTERM: %v", p.name, err)
		}
	}
}

// ended waits for the end of a process, and reports how it ended. The time in which this machine did nothing does not
// count.
func (p *process) ended(within time.Duration) (ended bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for range within / pollEvery {
		select {
		case err := <-p.done:
			p.done <- err
			return true, err
		case <-tick.C:
		}
	}
	return false, nil
}
