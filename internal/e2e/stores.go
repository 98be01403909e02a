package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// StartSentinels starts a primary, which is the first of the processes, its replica and three Sentinels. It returns
// their URL.
func (l *Cluster) StartSentinels() (all []*Process, url string, err error) {
	free, err := FreePorts(5)
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp(l.Dir, "sentinels-")
	if err != nil {
		return nil, "", err
	}
	_, primary, _ := net.SplitHostPort(free.Next())
	_, replica, _ := net.SplitHostPort(free.Next())
	server := []string{"redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}
	all = append(all,
		NewProcess(dir, "primary", append(server, "--port", primary, "--dir", dir)...),
		NewProcess(dir, "replica", append(server, "--port", replica, "--dir", dir, "--replicaof", "127.0.0.1 "+primary)...))
	var addrs []string
	for i := range 3 {
		addr := free.Next()
		_, port, _ := net.SplitHostPort(addr)
		config := filepath.Join(dir, fmt.Sprintf("sentinel-%d.conf", i))
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 2\n"+
			"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 4000\n", port, dir, primary)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, "", err
		}
		all = append(all, NewProcess(dir, fmt.Sprintf("sentinel-%d", i), "redis-server", config, "--sentinel"))
		addrs = append(addrs, addr)
	}
	return all, "redis+sentinel://" + strings.Join(addrs, ",") + "/main", startAll(all)
}

// AwaitSentinels waits until each Sentinel knows the others and the replica.
func (l *Cluster) AwaitSentinels(ctx context.Context, url string) error {
	hosts := strings.TrimSuffix(strings.TrimPrefix(url, "redis+sentinel://"), "/main")
	for addr := range strings.SplitSeq(hosts, ",") {
		_, port, _ := net.SplitHostPort(addr)
		err := Until(ctx, ReadyWithin, "aware of the others", func() error {
			out, err := exec.CommandContext(ctx, "redis-cli", "-p", port, "sentinel", "master", "main").CombinedOutput()
			words := strings.Join(strings.Fields(string(out)), " ")
			if err == nil && (!strings.Contains(words, "num-slaves 1 ") || !strings.Contains(words, "num-other-sentinels 2 ")) {
				err = fmt.Errorf("the Sentinel %s says %s", addr, words)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// StartRedisCluster starts a Redis Cluster of three nodes, and returns its URL. A node serves its own slots also while
// another one is down.
func (l *Cluster) StartRedisCluster(ctx context.Context) (all []*Process, url string, err error) {
	free, err := FreePorts(6)
	if err != nil {
		return nil, "", err
	}
	var addrs []string
	for i := range 3 {
		dir, err := os.MkdirTemp(l.Dir, "node-")
		if err != nil {
			return nil, "", err
		}
		addr := free.Next()
		_, port, _ := net.SplitHostPort(addr)
		_, bus, _ := net.SplitHostPort(free.Next())
		all = append(all, NewProcess(dir, fmt.Sprintf("node-%d", i), "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir,
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-require-full-coverage", "no", "--save", "", "--appendonly", "no"))
		addrs = append(addrs, addr)
	}
	if err := startAll(all); err != nil {
		return all, "", err
	}
	create := append([]string{"--cluster", "create"}, addrs...)
	err = Until(ctx, ReadyWithin, "a cluster", func() error {
		out, err := exec.CommandContext(ctx, "redis-cli", append(create, "--cluster-yes")...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	return all, "redis+cluster://" + strings.Join(addrs, ","), err
}
