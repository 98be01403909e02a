package envoydiff

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	ratelimitModule = "github.com/envoyproxy/ratelimit"
	grpcurlProgram  = "github.com/fullstorydev/grpcurl/cmd/grpcurl"
)

// command runs a program to its end and returns what it printed.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// peerProgram builds a program of envoyproxy/ratelimit, of the version that go.mod names,
// with the dependencies that it pins itself.
func peerProgram(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	version := strings.TrimSpace(command(t, nil, "go", "list", "-m", "-f", "{{.Version}}", ratelimitModule))
	command(t, []string{"GOBIN=" + dir, "GOFLAGS="}, "go", "install", ratelimitModule+"/src/"+name+"@"+version)
	return filepath.Join(dir, name)
}

// start runs a program until the test ends. It has ready to print a line that contains a
// word, if one is given.
func start(t *testing.T, ready string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	var output strings.Builder
	for lines := bufio.NewScanner(out); ready != ""; {
		if !lines.Scan() {
			t.Fatalf("%s ended before it was ready:\n%s", name, output.String())
		}
		fmt.Fprintln(&output, lines.Text())
		if strings.Contains(lines.Text(), ready) {
			break
		}
	}
	go io.Copy(io.Discard, out)
}

// freePorts are ports of loopback that nobody listens on, below those that systems give to
// a process that asks for any, so that no other process has one by the time that a server does.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		defer l.Close() // after all were found, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatal("no free ports")
	return nil
}

// freeOffset is a --port-offset for one coordinator and one region.
func freeOffset(t *testing.T) int {
	t.Helper()
	for range 100 {
		offset := 1000 + rand.IntN(20_000)
		if !slices.ContainsFunc([]int{7400, 7401, 7402, 7403, 7500, 7501, 7502, 7503}, func(port int) bool {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+offset))
			if err == nil {
				l.Close()
			}
			return err != nil
		}) {
			return offset
		}
	}
	t.Fatal("no free ports")
	return 0
}

// startAliquot runs one region with rules, and returns where its gRPC port is.
func startAliquot(t *testing.T, rules []byte) string {
	t.Helper()
	dir := t.TempDir()
	program, file := filepath.Join(dir, "aliquot"), filepath.Join(dir, "rules.yaml")
	command(t, nil, "go", "build", "-C", "../..", "-o", program, "./cmd/aliquot")
	if err := os.WriteFile(file, rules, 0o600); err != nil {
		t.Fatal(err)
	}
	offset := freeOffset(t)
	start(t, "ready", nil, program, "dev", "--coordinators", "1", "--regions", "here", "--rules", file, "--port-offset", strconv.Itoa(offset))
	return "127.0.0.1:" + strconv.Itoa(7501+offset)
}

// startPeer runs envoyproxy/ratelimit with a Redis of its own, and returns where its gRPC
// port is.
func startPeer(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	configs := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(configs, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(configs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "redis.sock")
	start(t, "ready to accept connections", nil, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	ports := freePorts(t, 3)
	start(t, "", []string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "GRPC_PORT=" + ports[0], "PORT=" + ports[1], "DEBUG_PORT=" + ports[2],
		"DISABLE_STATS=true", "REDIS_SOCKET_TYPE=unix", "REDIS_URL=" + socket,
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}, peerProgram(t, "service_cmd"))
	return "127.0.0.1:" + ports[0]
}

// dial connects to a server of the protocol, and waits until it listens.
func dial(t *testing.T, address string) ratelimit.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return ratelimit.NewRateLimitServiceClient(conn)
}
