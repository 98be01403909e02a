package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"aliquot/internal/e2e"
)

// rules let every check pass, for what is measured is the daemon. Every decision is the store's; without it
// each instance may admit less than is asked, so that what is decided without it counts as denied.
const rules = `defaults: {on_redis_failure: open, local_cache: false}
rules:
  - {id: checks, key: [api_key], params: {capacity: 1000000, refill_rate: 1000000}}
  - {id: envoy, match: {attributes: {domain: bench}}, key: [tenant], params: {capacity: 1000000, refill_rate: 1000000}}
`

// readyWithin bounds the time to the first lease.
const readyWithin = time.Minute

// cluster is a regional daemon on one core; its Redis and a coordinator are on the generator's.
type cluster struct {
	processes     []*exec.Cmd
	logs          []string
	at, grpc, ops string
	regional      *exec.Cmd
}

// startCluster starts the programs in bin with their state in dir. stop ends them, after an error too.
func startCluster(ctx context.Context, bin, dir string) (*cluster, error) {
	l := &cluster{}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return l, err
	}
	var at [8]string
	for i := range at {
		var err error
		if at[i], err = e2e.FreeAddress(); err != nil {
			return l, err
		}
	}
	_, port, _ := net.SplitHostPort(at[0])
	l.at, l.grpc, l.ops = at[5], at[6], at[7]
	if _, err := l.run(dir, otherCore, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir); err != nil {
		return l, err
	}
	if _, err := l.run(dir, otherCore, filepath.Join(bin, "coordinator"), "--node-id", "c1", "--bootstrap-expect", "1", "--regions", "us", "--rules", file,
		"--data-dir", filepath.Join(dir, "c1"), "--listen", at[1], "--raft-listen", at[2], "--gossip-listen", at[3], "--ops-listen", at[4]); err != nil {
		return l, err
	}
	var err error
	if l.regional, err = l.run(dir, daemonCore, filepath.Join(bin, "regional"), "--region", "us", "--coordinators", at[1], "--redis", "redis://"+at[0],
		"--state-file", "none", "--listen", l.at, "--grpc-listen", l.grpc, "--ops-listen", l.ops); err != nil {
		return l, err
	}
	over := time.After(readyWithin)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for l.lease() <= 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return l, context.Cause(ctx)
		case <-over:
			return l, fmt.Errorf("the region holds no lease within %v; the logs end with\n%s", readyWithin, l.tails())
		}
	}
	return l, nil
}

// run starts a program on one core, where taskset is installed.
func (l *cluster) run(dir string, core int, name string, args ...string) (*exec.Cmd, error) {
	command := append([]string{name}, args...)
	if path, err := exec.LookPath("taskset"); err == nil {
		command = append([]string{path, "-c", strconv.Itoa(core)}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	log, err := os.Create(filepath.Join(dir, filepath.Base(name)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l.processes, l.logs = append(l.processes, cmd), append(l.logs, log.Name())
	return cmd, nil
}

func (l *cluster) stop() {
	for _, p := range l.processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// tails are the ends of the logs.
func (l *cluster) tails() string {
	var out strings.Builder
	for _, name := range l.logs {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&out, "%s:\n%s\n", filepath.Base(name), text[max(0, len(text)-1500):])
	}
	return out.String()
}

// metrics are the daemon's, by their series; nil if it does not answer in time.
func (l *cluster) metrics() map[string]float64 {
	client := http.Client{Timeout: 5 * time.Second}
	in, err := client.Get("http://" + l.ops + "/metrics")
	if err != nil {
		return nil
	}
	defer in.Body.Close()
	text, err := io.ReadAll(in.Body)
	if err != nil {
		return nil
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			out[line[:i]], _ = strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		}
	}
	return out
}

// lease is what is left of the lease, in seconds; -1 if the daemon does not answer in time.
func (l *cluster) lease() float64 {
	if m := l.metrics(); m != nil {
		return m[`aliquot_lease_remaining_seconds{region="us"}`]
	}
	return -1
}
