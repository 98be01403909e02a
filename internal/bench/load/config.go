package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Protocol is what the requests are sent with.
type Protocol string

// The protocols.
const (
	// Connect is Check or CheckBatch in protobuf over HTTP/1.1.
	Connect Protocol = "connect"
	// JSON is Check in JSON over HTTP/1.1.
	JSON Protocol = "json"
	// GRPC is Check or CheckBatch over gRPC.
	GRPC Protocol = "grpc"
	// RLS is Envoy's ShouldRateLimit over gRPC.
	RLS Protocol = "rls"
	// HTTP is GET /check, what proxies ask.
	HTTP Protocol = "http"
	// Stream is CheckStream over gRPC, one stream for each connection: a call is a message.
	Stream Protocol = "stream"
)

// Protocols lists them all.
var Protocols = [...]Protocol{Connect, GRPC, RLS, HTTP, Stream, JSON}

// KeyPlaceholder in an attribute's value stands for the key's number.
const KeyPlaceholder = "{key}"

// Limits of a run.
const (
	maxBatch       = 1000 // what CheckBatch takes
	maxDescriptors = 100
	maxConnections = 4096
	maxWorkers     = 65_536
	maxKeys        = 100_000_000 // the digits that a request has room for
	// maxZipf is where all checks are of a few keys already; the draw of an exponent beyond
	// all numbers never ends.
	maxZipf = 10
	// At leastRate a check is sent every few minutes, and at mostRate one a nanosecond.
	leastRate, mostRate = .001, 1e9
)

// Config describes one run. Start from DefaultConfig.
type Config struct {
	Protocol Protocol
	// Address is host:port, an http:// URL, or unix://PATH.
	Address string
	// Attributes of every request as name=value; with RLS they are the entries of each
	// descriptor, but for domain, which is the request's; with HTTP the headers. Empty: one
	// key, by the protocol's usual name.
	Attributes []string
	// Connections to the server. Over HTTP/1.1 a connection carries one call at a time, so
	// there it is Workers that counts.
	Connections int
	// Workers is how many calls are under way at once at most.
	Workers int
	// Batch is how many checks go into one call of Connect or GRPC, where 1 calls Check, or
	// into one message of Stream.
	Batch int
	// Descriptors is how many checks go into one call of RLS.
	Descriptors int
	// Keys is how many keys there are; Zipf is the exponent of their distribution (above
	// 1), or 0 for all alike; HotKey is the percentage of checks that go to one key beside
	// them.
	Keys   int
	Zipf   float64
	HotKey float64
	// Rate is the checks sent a second, whether or not answers come; latency then counts
	// from when a call was to be sent. 0: every worker sends when it has its answer.
	Rate float64
	// Duration is measured, after Warmup.
	Duration, Warmup time.Duration
	// Timeout ends the wait for answers once nothing more is sent.
	Timeout time.Duration
	// Server says how to find the server's processor time.
	Server ServerMeter
	// Redis are URLs of the servers whose processor time and calls are measured.
	Redis []string
}

// ServerMeter says where a server's processor time is read: the metrics of its ops
// listener, host:port or URL; or its process id; or, if neither is given, the process
// of this machine that listens on the address.
type ServerMeter struct {
	Ops string
	PID int
}

// DefaultConfig is 64 single checks at once over Connect, of 100,000 keys.
func DefaultConfig() Config {
	return Config{
		Protocol: Connect, Connections: 8, Workers: 64, Batch: 1, Descriptors: 1, Keys: 100_000, Zipf: 1.1,
		Duration: 10 * time.Second, Warmup: time.Second, Timeout: 5 * time.Second,
	}
}

// Validate says what is wrong with a configuration, naming the flags.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains(Protocols[:], c.Protocol), "--protocol %q: give one of %s", c.Protocol, Protocols)
	check(isAddress(c.Address), "--target %q: give host:port, http://host:port or unix:///path", c.Address)
	check(c.Connections >= 1 && c.Connections <= maxConnections, "--connections %d: give 1 to %d", c.Connections, maxConnections)
	check(c.Workers >= c.Connections && c.Workers <= maxWorkers, "--workers %d: give as many as --connections to %d", c.Workers, maxWorkers)
	check(!c.oneAtATime() || c.Workers <= maxConnections, "--workers %d: over HTTP/1.1 each has its connection; give up to %d", c.Workers, maxConnections)
	check(c.Batch >= 1 && c.Batch <= maxBatch, "--batch %d: give 1 to %d", c.Batch, maxBatch)
	check(c.Batch == 1 || c.Protocol == Connect || c.Protocol == GRPC || c.Protocol == Stream, "--batch: only with --protocol connect, grpc or stream")
	check(c.Descriptors >= 1 && c.Descriptors <= maxDescriptors, "--descriptors %d: give 1 to %d", c.Descriptors, maxDescriptors)
	check(c.Descriptors == 1 || c.Protocol == RLS, "--descriptors: only with --protocol rls")
	check(c.Keys >= 1 && c.Keys <= maxKeys, "--keys %d: give 1 to %d", c.Keys, maxKeys)
	check(c.Zipf == 0 || c.Zipf > 1 && c.Zipf <= maxZipf, "--zipf %v: give more than 1, up to %d, or 0 for keys that are all alike", c.Zipf, maxZipf)
	check(c.HotKey >= 0 && c.HotKey <= 100, "--hot-key %v: give a percentage", c.HotKey)
	check(c.Rate == 0 || c.Rate >= leastRate && c.Rate <= mostRate, "--rate %v: give %v to %v checks a second, or 0 for as many as it can", c.Rate, leastRate, mostRate)
	check(c.Duration > 0 && c.Warmup >= 0 && c.Timeout > 0, "--duration, --warmup, --timeout: give positive durations, such as 10s")
	for _, a := range c.Attributes {
		name, value, ok := strings.Cut(a, "=")
		check(ok && name != "" && strings.Count(value, KeyPlaceholder) <= 1 && !strings.ContainsAny(a, "\r\n"), "--attr %q: give name=value, with %s once at most", a, KeyPlaceholder)
	}
	return errors.Join(errs...)
}

// oneAtATime: a connection carries one call at a time.
func (c *Config) oneAtATime() bool {
	return c.Protocol == Connect || c.Protocol == JSON || c.Protocol == HTTP
}

// checksPerCall is how many checks go into a call.
func (c *Config) checksPerCall() int { return max(c.Batch, c.Descriptors) }

// attributes are the configured ones, or the protocol's usual key.
func (c *Config) attributes() []string {
	switch {
	case len(c.Attributes) > 0:
		return c.Attributes
	case c.Protocol == RLS:
		return []string{"domain=bench", "tenant=k" + KeyPlaceholder}
	case c.Protocol == HTTP:
		return []string{"X-API-Key=k" + KeyPlaceholder}
	}
	return []string{"api_key=k" + KeyPlaceholder}
}
