package floor_test

import (
	"context"
	"net"
	"testing"
	"time"

	"aliquot/internal/bench/floor"
	"aliquot/internal/bench/load"
)

// serve runs a floor until the test's end and returns its address.
func serve(t testing.TB, protocol load.Protocol) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- floor.Serve(ctx, protocol, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func short(protocol load.Protocol, address string) load.Config {
	c := load.DefaultConfig()
	c.Protocol, c.Address, c.Keys = protocol, address, 1000
	c.Connections, c.Workers, c.Warmup, c.Duration = 2, 8, 10*time.Millisecond, 100*time.Millisecond
	c.Timeout = time.Minute // of a machine that may be far behind
	return c
}

// measure runs a load, for longer if a busy machine got nowhere.
func measure(t *testing.T, c load.Config) *load.Report {
	t.Helper()
	for {
		r, err := load.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Calls > 0 || r.Failed > 0 || c.Duration > time.Minute {
			return r
		}
		c.Duration *= 4
	}
}

// Every protocol is spoken in every way, and every check of every call is answered.
func TestFloorsAnswerTheLoad(t *testing.T) {
	for name, change := range map[string]func(*load.Config){
		"closed loop": func(*load.Config) {},
		"open loop":   func(c *load.Config) { c.Rate = 2000 },
		"batch":       func(c *load.Config) { c.Batch = 50 },
		"descriptors": func(c *load.Config) { c.Descriptors = 10 },
		// More than the windows of HTTP/2 hold, in both directions.
		"large batch":          func(c *load.Config) { c.Batch = 1000 },
		"large batch, at rate": func(c *load.Config) { c.Batch, c.Rate = 1000, 50_000 },
		"hot key":              func(c *load.Config) { c.HotKey, c.Zipf = 50, 0 },
	} {
		for _, protocol := range load.Protocols {
			c := short(protocol, serve(t, protocol))
			change(&c)
			if c.Validate() != nil {
				continue // not of this protocol
			}
			t.Run(name+" "+string(protocol), func(t *testing.T) {
				r := measure(t, c)
				if r.Allowed == 0 || r.Denied != 0 || r.Failed != 0 || r.Allowed != r.Calls*int64(c.Batch*c.Descriptors) {
					t.Errorf("%+v", r)
				}
				if protocol != load.HTTP && protocol != load.RLS && r.Modes["local"] != r.Allowed {
					t.Errorf("modes %v of %d", r.Modes, r.Allowed)
				}
				if r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P50 {
					t.Errorf("latency %+v", r.Latency)
				}
				if c.Rate > 0 && r.Late.Max == 0 {
					t.Error("an open loop does not tell how late it was")
				}
			})
		}
	}
}

// A server that is gone is counted, not waited for.
func TestALostServerIsCounted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, protocol := range load.Protocols {
		r := measure(t, short(protocol, l.Addr().String()))
		if r.Checks != 0 || r.Errors["connection refused"] == 0 || r.Errors["connection refused"] != r.Failed {
			t.Errorf("%s: %+v", protocol, r)
		}
	}
}

// A call that a server does not know fails.
func TestARefusedCallIsAnError(t *testing.T) {
	for protocol, other := range map[load.Protocol]load.Protocol{load.RLS: load.HTTP, load.HTTP: load.Connect} {
		r := measure(t, short(protocol, serve(t, other)))
		if r.Allowed != 0 || r.Failed == 0 {
			t.Errorf("%s at %s: %+v", protocol, other, r)
		}
	}
}
