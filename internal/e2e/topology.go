package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ports are ports of loopback that nothing listens on. Next takes the first.
type ports []string

// lowestPort and portRange are below the ports that a system gives to a process which asks for any port. So no other
// process has a port by the time that a daemon listens on it.
const lowestPort, portRange = 10_000, 10_000

// given are the ports that FreePorts has returned. A daemon that is down for a while keeps its own.
var given sync.Map

// FreePorts returns ports that nothing listens on, and never the same one twice.
func FreePorts(n int) (ports, error) {
	var out ports
	for tries := 0; len(out) < n; tries++ {
		port := strconv.Itoa(lowestPort + rand.IntN(portRange))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil && tries > 100*n {
			return nil, err
		}
		if err != nil {
			continue
		}
		defer l.Close()
		if _, taken := given.LoadOrStore(port, true); !taken {
			out = append(out, port)
		}
	}
	return out, nil
}

// FreeAddress returns an address of loopback that nothing listens on.
func FreeAddress() (string, error) {
	free, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	return free.Next(), nil
}

// Next removes the first port, and returns the address with it.
func (p *ports) Next() (address string) {
	address = net.JoinHostPort("127.0.0.1", (*p)[0])
	*p = (*p)[1:]
	return address
}

func (l *Cluster) addCoordinators(free *ports) error {
	rulesFile := filepath.Join(l.Dir, "rules.yaml")
	if err := os.WriteFile(rulesFile, []byte(l.Setup.Rules), 0o600); err != nil {
		return err
	}
	var gossip [3]string
	for i := range gossip {
		gossip[i] = free.Next()
	}
	for i := range gossip {
		name, address, raft := fmt.Sprintf("c%d", i+1), free.Next(), free.Next()
		dataDir := filepath.Join(l.Dir, name)
		p := NewProcess(l.Dir, name, filepath.Join(l.Bin, "coordinator"), "--node-id", name, "--data-dir", dataDir,
			"--listen", address, "--raft-listen", raft, "--gossip-listen", gossip[i], "--ops-listen", free.Next(),
			"--join", strings.Join(gossip[:], ","), "--bootstrap-expect", "3",
			"--regions", strings.Join(l.DeclaredNames(), ","), "--rules", rulesFile)
		l.Coordinators = append(l.Coordinators, &Coordinator{Process: p, Address: address, DataDir: dataDir, Raft: raft, Gossip: gossip[i]})
	}
	return nil
}

// DeclaredNames returns the regions that the coordinators begin with.
func (l *Cluster) DeclaredNames() []string {
	if l.Setup.Absent == "" {
		return l.Setup.Regions
	}
	return append(slices.Clone(l.Setup.Regions), l.Setup.Absent)
}

// addRegion adds a region and its Redis, if it has one, and starts neither.
func (l *Cluster) addRegion(name string, free *ports) *Region {
	redis := ""
	if !l.Setup.InMemory {
		redis = l.addRedis(name, free.Next())
	}
	r := l.daemon(name, name, redis, free)
	l.Regions = append(l.Regions, r)
	return r
}

// addRedis adds the Redis of a region, and returns its address.
func (l *Cluster) addRedis(region, address string) string {
	_, port, _ := net.SplitHostPort(address)
	l.Redis = append(l.Redis, NewProcess(l.Dir, "redis-"+region, "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--dir", l.Dir, "--dbfilename", "redis-"+region+".rdb", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"))
	return address
}

// daemon returns a daemon of a region, with its store in a Redis or, without an address of one, in memory.
func (l *Cluster) daemon(process, region, redis string, free *ports) *Region {
	store := "memory"
	if redis != "" {
		store = "redis://" + redis
	}
	var coordinators []string
	for _, c := range l.Coordinators {
		coordinators = append(coordinators, c.Address)
	}
	address, ops := free.Next(), free.Next()
	p := NewProcess(l.Dir, process, filepath.Join(l.Bin, "regional"), "--region", region, "--listen", address, "--ops-listen", ops,
		"--grpc-listen", free.Next(), "--redis", store,
		"--state-file", filepath.Join(l.Dir, process+".json"), "--coordinators", strings.Join(coordinators, ","))
	return &Region{Process: p, Address: address, Region: region, ops: ops, Redis: redis}
}

// setStore gives a region's daemon another store, by its URL, and waits for its lease.
func (l *Cluster) setStore(ctx context.Context, r *Region, url string) error {
	return errors.Join(r.Terminate(), r.SetFlag("--redis", url), r.Start(), l.AwaitLease(ctx, r))
}

// LendStore is setStore for a while. back gives the daemon its former store again.
func (l *Cluster) LendStore(ctx context.Context, r *Region, url string) (back func() error, err error) {
	before := r.Flag("--redis")
	return func() error { return l.setStore(ctx, r, before) }, l.setStore(ctx, r, url)
}

// StartRegion starts another region's daemon and Redis. The coordinators decide whether it takes part.
func (l *Cluster) StartRegion(name string) (*Region, error) {
	free, err := FreePorts(5)
	if err != nil {
		return nil, err
	}
	r := l.addRegion(name, &free)
	return r, errors.Join(l.Redis[len(l.Redis)-1].Start(), r.Start())
}

// EndRegion stops the region that was added last, and its Redis, for good.
func (l *Cluster) EndRegion() error {
	i, j := len(l.Regions)-1, len(l.Redis)-1
	err := errors.Join(l.Regions[i].Terminate(), l.Redis[j].Kill9())
	l.Regions, l.Redis = l.Regions[:i], l.Redis[:j]
	return err
}

// StartSecond starts a second daemon of a region, on the same Redis.
func (l *Cluster) StartSecond(first *Region) (*Region, error) {
	free, err := FreePorts(4)
	if err != nil {
		return nil, err
	}
	r := l.daemon(first.Region+"-second", first.Region, first.Redis, &free)
	l.Seconds = append(l.Seconds, r)
	return r, r.Start()
}
