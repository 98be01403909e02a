// Package dev runs a whole installation in one process, coordinators and regions,
// by the daemons' own code on real sockets: to try Aliquot out and to develop
// against it.
package dev

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"aliquot/regional"
)

// Layout of the ports, all on loopback: a daemon has a block of ten, of which it
// uses the first four.
const (
	coordinatorBase = 7400
	regionBase      = 7500
	blockSize       = 10
	// maxDaemons of a sort: more would run into the other sort's ports.
	maxDaemons = (regionBase - coordinatorBase) / blockSize
	// maxOffset keeps the highest port below 65536.
	maxOffset = 65_535 - regionBase - maxDaemons*blockSize
)

// memory is the URL of the embedded store.
const memory = regional.MemoryStore

// Config says what to run.
type Config struct {
	// Coordinators is how many; odd, so that a majority is one.
	Coordinators int
	// Regions are their names.
	Regions []string
	// RulesFile is applied at the first boot; empty: an example.
	RulesFile string
	// Redis has a URL for each region, in order; empty: memory for all.
	Redis []string
	// RTT is the round-trip time between regions and coordinators.
	RTT time.Duration
	// PortOffset is added to every port.
	PortOffset int
	// DataDir keeps the state; empty: a temporary one, removed at the end.
	DataDir string
	// Program is how the command is called, in what Out is told to try; empty: aliquot.
	Program string
	// In says once everything is ready, line by line, what to do to regions: "cut eu-west" takes the coordinators from
	// one, "heal eu-west" gives them back. Nil: nothing.
	In io.Reader
	// Out gets the addresses, an example, the line "ready" and what to try.
	Out io.Writer
	// Logger gets the daemons' logs.
	Logger *slog.Logger
}

// DefaultConfig is three coordinators and three regions with stores in memory; Out
// and Logger have no default.
func DefaultConfig() Config {
	return Config{Coordinators: 3, Regions: []string{"us-east", "eu-west", "ap-south"}}
}

// Validate says what is wrong, naming the flags.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Coordinators >= 1 && c.Coordinators < maxDaemons && c.Coordinators%2 == 1,
		"--coordinators %d: give an odd number below %d; 3 survive the loss of one", c.Coordinators, maxDaemons)
	check(len(c.Regions) >= 1 && len(c.Regions) <= maxDaemons, "--regions: name 1 to %d regions", maxDaemons)
	check(distinct(c.Regions), "--regions %v: every region needs a name of its own", c.Regions)
	check(!slices.Contains(c.Regions, ""), "--regions %q: a region has no name", c.Regions)
	check(len(c.Redis) == 0 || len(c.Redis) == len(c.Regions),
		"--redis: %d URLs for %d regions; give one for each region, in order (memory is one too)", len(c.Redis), len(c.Regions))
	check(distinct(slices.DeleteFunc(slices.Clone(c.Redis), func(u string) bool { return u == memory })),
		"--redis: two regions share a store; each needs its own, or they would spend each other's budget")
	check(c.RTT >= 0 && c.RTT <= 10*time.Second, "--rtt %v: give 0 to 10s", c.RTT)
	check(c.PortOffset >= 0 && c.PortOffset <= maxOffset, "--port-offset %d: give 0 to %d", c.PortOffset, maxOffset)
	check(c.Out != nil && c.Logger != nil, "dev.Config needs Out and Logger")
	return errors.Join(errs...)
}

func distinct(names []string) bool {
	sorted := slices.Sorted(slices.Values(names))
	return len(slices.Compact(sorted)) == len(names)
}

// block is the addresses of one daemon.
type block struct{ rpc, second, gossip, ops string }

func (c *Config) coordinator(i int) block { return c.block(coordinatorBase, i) }
func (c *Config) region(i int) block      { return c.block(regionBase, i) }

func (c *Config) block(base, i int) block {
	at := func(n int) string {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(base+blockSize*i+n+c.PortOffset))
	}
	return block{rpc: at(0), second: at(1), gossip: at(2), ops: at(3)}
}

// free opens every port for a moment, so that one in use is named before anything
// starts.
func (c *Config) free() error {
	var blocks []block
	for i := range c.Coordinators {
		blocks = append(blocks, c.coordinator(i))
	}
	for i := range c.Regions {
		blocks = append(blocks, c.region(i))
	}
	for _, b := range blocks {
		for _, address := range []string{b.rpc, b.second, b.gossip, b.ops} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				_, port, _ := net.SplitHostPort(address)
				return fmt.Errorf("port %s is in use (%w); stop what listens there (another 'aliquot dev' or 'make up'?), or move all ports with --port-offset, e.g. --port-offset 1000", port, err)
			}
			l.Close()
		}
	}
	return nil
}

func (c *Config) redis(i int) string {
	if len(c.Redis) == 0 {
		return memory
	}
	return c.Redis[i]
}
