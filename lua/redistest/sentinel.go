package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SentinelName is what the Sentinels of tests call their primary.
const SentinelName = "main"

// Sentinels are a primary, a replica of it, and three Sentinels that take half a second of
// silence for a failure.
type Sentinels struct {
	Primary, Replica *Server
	Addrs            []string
}

// StartSentinels runs them, with more arguments for the two servers if wanted.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	s := &Sentinels{Primary: Start(t, args...)}
	s.Replica = Start(t, append([]string{"--replicaof", "127.0.0.1 " + s.Primary.port, "--repl-diskless-sync-delay", "0"}, args...)...)
	InStep(t, s.Replica.Client(t), s.Primary.Client(t))
	for range 3 {
		s.Addrs = append(s.Addrs, StartSentinel(t, s.Primary.port))
	}
	Until(t, "the Sentinels know each other and the replica", func() bool {
		for _, addr := range s.Addrs {
			state, err := ask(t, addr)
			if err != nil || state["num-other-sentinels"] != "2" || state["num-slaves"] != "1" {
				return false
			}
		}
		return true
	})
	return s
}

// StartSentinel runs a Sentinel of a primary on a loopback port, with more lines of its
// configuration if wanted. It ends with the test.
func StartSentinel(t testing.TB, primary string, config ...string) (addr string) {
	t.Helper()
	for range portsTried {
		if addr, up := startSentinel(t, primary, config...); up {
			Until(t, "the Sentinel answers", func() bool {
				_, err := ask(t, addr)
				return err == nil
			})
			return addr
		}
	}
	t.Fatalf("a Sentinel ended at once, %d times", portsTried)
	return ""
}

// startSentinel reports whether it came up; else its port was in use.
func startSentinel(t testing.TB, primary string, config ...string) (addr string, up bool) {
	t.Helper()
	addr, port := freePort(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	file := filepath.Join(dir, "sentinel.conf")
	lines := append([]string{
		"port " + port, "bind 127.0.0.1", "dir " + dir, "logfile " + log,
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", SentinelName, primary),
		fmt.Sprintf("sentinel down-after-milliseconds %s 500", SentinelName),
		fmt.Sprintf("sentinel failover-timeout %s 4000", SentinelName),
	}, config...)
	must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return addr, launch(t, log, "+monitor master", file, "--sentinel") != nil
}

// ask is what a Sentinel says of the primary.
func ask(t testing.TB, addr string) (map[string]string, error) {
	client := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer client.Close()
	return client.Master(t.Context(), SentinelName).Result()
}

// URL names all Sentinels, in the form of a store's configuration.
func (s *Sentinels) URL() string {
	return "redis+sentinel://" + strings.Join(s.Addrs, ",") + "/" + SentinelName
}

// Port of the server, on loopback.
func (s *Server) Port() string { return s.port }

// Signal sends the server's process a signal.
func (s *Server) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	must(t, s.process.cmd.Process.Signal(sig))
}
