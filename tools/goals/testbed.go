package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"aliquot/internal/bench/load"
)

const (
	// peerModule is envoyproxy/ratelimit, built with the dependencies that it pins itself.
	peerModule = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"
	// readyWithin bounds the time until a server serves: a region needs a leader and a
	// lease.
	readyWithin = 30 * time.Second
	pollEvery   = 50 * time.Millisecond
	region      = "bench"
)

// testbed has the programs that are measured, and the servers that run now.
type testbed struct {
	root, dir string
	peer      string
	http      http.Client

	mu      sync.Mutex
	running []*server
}

// server is a process that serves.
type server struct {
	name    string
	address string // where checks go, or of a Redis
	connect string // of a regional daemon, its HTTP listener
	ops     string
	cmd     *exec.Cmd
	log     *bytes.Buffer
	ended   chan struct{}
}

// newTestbed builds the programs.
func newTestbed(ctx context.Context, root, peer string) (*testbed, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "aliquot-goals-")
	if err != nil {
		return nil, err
	}
	l := &testbed{root: root, dir: dir, peer: peer, http: http.Client{Timeout: time.Second}}
	if err := l.build(ctx); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

func (l *testbed) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", l.dir+string(filepath.Separator), "./cmd/...")
	cmd.Dir = l.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build Aliquot: %w\n%s", err, out)
	}
	if l.peer != "" {
		return nil
	}
	cmd = exec.CommandContext(ctx, "go", "install", peerModule)
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "GOBIN="+l.dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build envoyproxy/ratelimit: %w\n%s", err, out)
	}
	l.peer = filepath.Join(l.dir, "service_cmd")
	return nil
}

// stop ends all servers and removes the testbed's folder.
func (l *testbed) stop() {
	l.stopServers()
	os.RemoveAll(l.dir)
}

// stopServers ends all servers, the last ones first.
func (l *testbed) stopServers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.running) - 1; i >= 0; i-- {
		l.running[i].cmd.Process.Kill()
		<-l.running[i].ended
	}
	l.running = nil
}

// freeAddress returns an address that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// freeAddresses returns n such addresses.
func freeAddresses(n int) ([]string, error) {
	out := make([]string, n)
	for i := range out {
		var err error
		if out[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// start runs a program and waits until it is ready.
func (l *testbed) start(ctx context.Context, s *server, env []string, ready func() error, program string, args ...string) (*server, error) {
	s.log, s.ended = &bytes.Buffer{}, make(chan struct{})
	s.cmd = exec.Command(program, args...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = s.log, s.log, l.dir
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	go func() {
		s.cmd.Wait()
		close(s.ended)
	}()
	l.mu.Lock()
	l.running = append(l.running, s)
	l.mu.Unlock()
	if err := s.until(ctx, ready); err != nil {
		l.stopServers() // so that nothing writes to the log any more
		return nil, fmt.Errorf("%w\n%s", err, s.log)
	}
	return s, nil
}

// until waits until a program is ready, at most readyWithin.
func (s *server) until(ctx context.Context, ready func() error) error {
	deadline := time.Now().Add(readyWithin)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ended:
			return fmt.Errorf("%s ended: %w", s.name, err)
		case <-time.After(pollEvery):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready: %w", s.name, err)
		}
	}
}

// listens is ready when something accepts connections.
func listens(address string) func() error {
	return func() error {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}
}

func (l *testbed) startRedis(ctx context.Context) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	return l.start(ctx, &server{name: "redis-server", address: address}, nil, listens(address),
		"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--enable-debug-command", "local")
}

// url is that of a Redis.
func (s *server) url() string { return "redis://" + s.address }

// startRegion runs one coordinator and one regional daemon, each in its process.
func (l *testbed) startRegion(ctx context.Context, store, rules string) (*server, error) {
	at, err := freeAddresses(7)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "region-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	if _, err := l.start(ctx, &server{name: "coordinator", address: at[0]}, nil, listens(at[0]), filepath.Join(l.dir, "coordinator"),
		"--node-id", "c1", "--data-dir", filepath.Join(dir, "c1"), "--bootstrap-expect", "1", "--regions", region, "--rules", file,
		"--listen", at[0], "--raft-listen", at[1], "--gossip-listen", at[2], "--ops-listen", at[3]); err != nil {
		return nil, err
	}
	s := &server{name: "regional", address: at[4], connect: at[5], ops: at[6]}
	return l.start(ctx, s, nil, func() error { return l.leased(s.ops) }, filepath.Join(l.dir, "regional"),
		"--region", region, "--coordinators", at[0], "--redis", store, "--state-file", filepath.Join(dir, "state.json"),
		"--grpc-listen", at[4], "--listen", at[5], "--ops-listen", at[6])
}

// leased is ready when a region has rules, a lease, and a store that answers.
func (l *testbed) leased(ops string) error {
	answer, err := l.http.Get("http://" + ops + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var now struct {
		Lease float64 `json:"lease_remaining_seconds"`
		Rules uint64  `json:"rules_version"`
		Store bool    `json:"store_answers"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&now); err != nil {
		return err
	}
	if now.Lease <= 0 || now.Rules == 0 || !now.Store {
		return errors.New("no lease, no rules, or no store")
	}
	return nil
}

// startPeer runs envoyproxy/ratelimit with its defaults, but for what it needs to be told.
func (l *testbed) startPeer(ctx context.Context, redis *server) (*server, error) {
	at, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(l.dir, "peer", "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(peerRules), 0o600); err != nil {
		return nil, err
	}
	port := func(address string) string {
		_, p, _ := net.SplitHostPort(address)
		return p
	}
	env := []string{
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port(at[0]), "HOST=127.0.0.1", "PORT=" + port(at[1]), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port(at[2]),
		"USE_STATSD=false", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.address,
		"RUNTIME_ROOT=" + filepath.Join(l.dir, "peer"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}
	return l.start(ctx, &server{name: "envoyproxy/ratelimit", address: at[0]}, env, listens(at[0]), l.peer)
}

// startFloor runs a server that decides nothing.
func (l *testbed) startFloor(ctx context.Context, protocol load.Protocol) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return l.start(ctx, &server{name: "floor", address: address}, nil, listens(address), filepath.Join(l.dir, "aliquot"),
		"bench", "floor", "--protocol", string(protocol), "--listen", address)
}
