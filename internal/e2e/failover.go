package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"aliquot/internal/bench/load"
)

// primaryKilled: the primary of a region's Redis is killed; its Sentinels promote the
// replica, and the region finds it by itself.
func primaryKilled(ctx context.Context, l *Cluster, s Scale) (out []Result, err error) {
	region := l.Regions[0]
	servers, url, err := l.startSentinels()
	defer endAll(servers)
	if err != nil {
		return nil, err
	}
	if err := l.awaitSentinels(ctx, url); err != nil {
		return nil, err
	}
	back, err := l.lendStore(ctx, region, url)
	defer func() { err = errors.Join(err, back()) }()
	if err != nil {
		return nil, err
	}
	c, err := l.manyKeys(ctx, region, Scale{})
	if err != nil {
		return nil, err
	}
	rotation := begin(ctx, l.load(s.Run))
	loaded := inBackground(ctx, c, s.Run)
	pause(ctx, s.Run/8)
	killed := time.Now()
	if err := servers[0].Kill9(); err != nil {
		return nil, err
	}
	took, err := l.degradedSince(ctx, region, killed)
	if err != nil {
		return nil, err
	}
	report, err := loaded()
	if err != nil {
		return nil, err
	}
	r, err := rotation.wait()
	if err != nil {
		return nil, err
	}
	return append(bounded(r), unfailing(r), none("checks without an answer", report.Failed, report.Examples),
		atMost("seconds degraded, the Sentinels' own included", took.Seconds(), 5)), nil
}

// inBackground is the load for a while; what it returns waits for it.
func inBackground(ctx context.Context, c load.Config, d time.Duration) (wait func() (*load.Report, error)) {
	var report *load.Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = part(ctx, c, d)
	}()
	return func() (*load.Report, error) {
		<-done
		return report, err
	}
}

func endAll(processes []*Process) {
	for _, p := range processes {
		_ = p.Kill9() // whatever is left of it holds nothing that is needed
	}
}

// startSentinels starts a primary, first of the processes, its replica and three Sentinels,
// and returns their URL.
func (l *Cluster) startSentinels() (all []*Process, url string, err error) {
	free, err := freePorts(5)
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp(l.dir, "sentinels-")
	if err != nil {
		return nil, "", err
	}
	_, primary, _ := net.SplitHostPort(free.next())
	_, replica, _ := net.SplitHostPort(free.next())
	server := []string{"redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}
	all = append(all,
		newProcess(dir, "primary", append(server, "--port", primary, "--dir", dir)...),
		newProcess(dir, "replica", append(server, "--port", replica, "--dir", dir, "--replicaof", "127.0.0.1 "+primary)...))
	var addrs []string
	for i := range 3 {
		addr := free.next()
		_, port, _ := net.SplitHostPort(addr)
		config := filepath.Join(dir, fmt.Sprintf("sentinel-%d.conf", i))
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 2\n"+
			"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 4000\n", port, dir, primary)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, "", err
		}
		all = append(all, newProcess(dir, fmt.Sprintf("sentinel-%d", i), "redis-server", config, "--sentinel"))
		addrs = append(addrs, addr)
	}
	return all, "redis+sentinel://" + strings.Join(addrs, ",") + "/main", startAll(all)
}

func startAll(processes []*Process) error {
	for _, p := range processes {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// awaitSentinels waits until each of them knows the others and the replica.
func (l *Cluster) awaitSentinels(ctx context.Context, url string) error {
	hosts := strings.TrimSuffix(strings.TrimPrefix(url, "redis+sentinel://"), "/main")
	for addr := range strings.SplitSeq(hosts, ",") {
		_, port, _ := net.SplitHostPort(addr)
		err := until(ctx, readyWithin, "acquainted", func() error {
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

// startRedisCluster starts a Redis Cluster of three nodes that serve what they have, and returns
// its URL.
func (l *Cluster) startRedisCluster(ctx context.Context) (all []*Process, url string, err error) {
	free, err := freePorts(6)
	if err != nil {
		return nil, "", err
	}
	var addrs []string
	for i := range 3 {
		dir, err := os.MkdirTemp(l.dir, "node-")
		if err != nil {
			return nil, "", err
		}
		addr := free.next()
		_, port, _ := net.SplitHostPort(addr)
		_, bus, _ := net.SplitHostPort(free.next())
		all = append(all, newProcess(dir, fmt.Sprintf("node-%d", i), "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir,
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-require-full-coverage", "no", "--save", "", "--appendonly", "no"))
		addrs = append(addrs, addr)
	}
	if err := startAll(all); err != nil {
		return all, "", err
	}
	create := append([]string{"--cluster", "create"}, addrs...)
	err = until(ctx, readyWithin, "a cluster", func() error {
		out, err := exec.CommandContext(ctx, "redis-cli", append(create, "--cluster-yes")...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	return all, "redis+cluster://" + strings.Join(addrs, ","), err
}
