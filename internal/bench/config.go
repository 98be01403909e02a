package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Pattern says which region a client turns to next.
type Pattern string

// The patterns.
const (
	// RoundRobin turns to the next region with every request.
	RoundRobin Pattern = "round-robin"
	// Random picks a region for every request.
	Random Pattern = "random"
	// Stay keeps each client in one region.
	Stay Pattern = "stay"
	// Dwell stays for Config.Dwell, then moves to the next region.
	Dwell Pattern = "dwell"
)

// Protocol is what the requests are sent with.
type Protocol string

// The protocols.
const (
	// Connect is Connect over HTTP/1.1 with protobuf bodies.
	Connect Protocol = "connect"
	// GRPC is gRPC over HTTP/2 without TLS.
	GRPC Protocol = "grpc"
)

// Limits of a run.
const (
	// maxClients bounds the memory of the per-client counters (some 200 bytes each).
	maxClients = 1_000_000
	// maxBatch is what CheckBatch takes.
	maxBatch = 1000
	// maxWorkers bounds the connections to one region.
	maxWorkers = 4096
	// maxBuckets bounds the time series.
	maxBuckets = 100_000
	// workersPerRegion suffices to keep a region busy without queueing at it.
	workersPerRegion = 2
	// manyWorkers is how far the default goes for many clients.
	manyWorkers = 64
)

// Config describes one run.
type Config struct {
	// Regions are the daemons' addresses, host:port or URL: of the Connect
	// listener, or with GRPC of the gRPC listener (host:port).
	Regions []string
	// Clients is how many keys send at once.
	Clients int
	// Duration is how long requests are sent.
	Duration time.Duration
	// Rate is the requests a second of each client; 0 sends as fast as the
	// workers can.
	Rate float64
	// Pattern and Dwell say how a client moves over the regions.
	Pattern Pattern
	Dwell   time.Duration
	// Rest lets a client that is denied everywhere send nothing for this long, and
	// then begin again; 0: it goes on. Only with a Batch of 1.
	Rest time.Duration
	// Attributes of every request, name to value. {run} and {client} in a value
	// are replaced by the run's name and the client's number.
	Attributes map[string]string
	// Namespace of every request; empty is the default one.
	Namespace string
	// Run names the run; empty picks a name that was not used before.
	Run string
	// Limit is what the bounds are computed from; a zero one is asked for at
	// Coordinator, with its enforcement, for the rule that the daemon's answer names.
	Limit Limit
	// Enforcement of a Limit that is given: rules.Strict (also if empty),
	// rules.Elastic or rules.Independent, over as many regions as Regions names.
	Enforcement string
	// Coordinator is the address of any coordinator; needed without a Limit.
	Coordinator string
	// Batch is how many requests go into one call; 1 uses Check.
	Batch int
	// Workers is how many calls are under way at once; 0 picks a number.
	Workers int
	// Protocol is how to call.
	Protocol Protocol
	// Bucket is the width of the time series' buckets.
	Bucket time.Duration
	// Timeout bounds each call.
	Timeout time.Duration

	// dial is for tests: it connects to a region; nil: dialTarget.
	dial func(c *Config, address string) (*target, error)
}

// DefaultConfig is one client that rotates over the regions of `aliquot dev` as
// fast as it can.
func DefaultConfig() Config {
	return Config{
		Regions:     []string{"127.0.0.1:7500", "127.0.0.1:7510", "127.0.0.1:7520"},
		Clients:     1,
		Duration:    30 * time.Second,
		Pattern:     RoundRobin,
		Dwell:       time.Second,
		Attributes:  map[string]string{"api_key": "bench-{run}-{client}"},
		Coordinator: "127.0.0.1:7400",
		Batch:       1,
		Protocol:    Connect,
		Bucket:      time.Second,
		Timeout:     2 * time.Second,
	}
}

// Validate says what is wrong with a configuration, naming the flags.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Regions) > 0, "--regions: name at least one address")
	check(c.Clients >= 1 && c.Clients <= maxClients, "--clients %d: give 1 to %d", c.Clients, maxClients)
	check(c.Duration > 0, "--duration %v: give a positive duration, such as 30s", c.Duration)
	check(c.Rate >= 0, "--rate %v: give requests a second of each client, or 0 for as fast as it can", c.Rate)
	check(c.Pattern == RoundRobin || c.Pattern == Random || c.Pattern == Stay || c.Pattern == Dwell,
		"--pattern %q: give %s, %s, %s or %s", c.Pattern, RoundRobin, Random, Stay, Dwell)
	check(c.Pattern != Dwell || c.Dwell > 0, "--dwell %v: give a positive duration", c.Dwell)
	check(c.Rest >= 0 && (c.Rest == 0 || c.Batch == 1), "--rest %v: give a positive duration, and --batch 1", c.Rest)
	check(c.Protocol == Connect || c.Protocol == GRPC, "--protocol %q: give %s or %s", c.Protocol, Connect, GRPC)
	check(c.Batch >= 1 && c.Batch <= maxBatch, "--batch %d: give 1 to %d", c.Batch, maxBatch)
	check(c.Workers >= 0 && c.Workers <= maxWorkers, "--workers %d: give 1 to %d, or 0 for a default", c.Workers, maxWorkers)
	check(c.Bucket > 0 && c.Duration/max(c.Bucket, 1) < maxBuckets, "--bucket %v: too small for --duration %v", c.Bucket, c.Duration)
	check(c.Timeout > 0, "--timeout %v: give a positive duration", c.Timeout)
	check(c.Limit.known() || c.Coordinator != "", "give --capacity and --refill, or a --coordinator to ask for them")
	check(c.Enforcement == "" || c.Limit.known(), "--enforcement: give --capacity and --refill too, or leave it to the coordinator")
	check(c.Enforcement == "" || knownEnforcement(c.Enforcement), "--enforcement %q: give %s", c.Enforcement, enforcementNames)
	check(c.Clients == 1 || c.hasClientPlaceholder(),
		"--attr: with several clients one value must contain {client}, or they all are the same client")
	return errors.Join(errs...)
}

func (c Config) hasClientPlaceholder() bool {
	for _, v := range c.Attributes {
		if strings.Contains(v, "{client}") {
			return true
		}
	}
	return false
}

// workers is the number of calls under way at once.
func (c Config) workers() int {
	if c.Workers > 0 {
		return c.Workers
	}
	lanes := (c.Clients + c.Batch - 1) / c.Batch
	return max(workersPerRegion*len(c.Regions), min(lanes, manyWorkers))
}
