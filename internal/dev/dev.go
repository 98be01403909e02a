package dev

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"aliquot/coordinator"
	"aliquot/internal/config"
	"aliquot/internal/rpc"
	"aliquot/regional"
)

//go:embed rules.yaml
var exampleRules []byte

// stopWithin bounds the end: what has not stopped by then is left behind.
const stopWithin = 4 * time.Second

// Run starts everything, prints the addresses and, when every region holds a
// lease, "ready"; it returns when ctx ends (nil) or a daemon fails. A coordinator that is
// removed from the cluster ends alone.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := c.free(); err != nil {
		return err
	}
	dir, remove, err := dataDir(c.DataDir)
	if err != nil {
		return err
	}
	defer remove()
	rulesFile, err := c.rulesFile(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.Logger = slog.New(untilDone{c.Logger.Handler(), ctx})
	h := &house{config: c, dir: dir, rulesFile: rulesFile, fail: cancel, cuts: map[string]*atomic.Bool{}}
	for _, region := range c.Regions {
		h.cuts[region] = new(atomic.Bool)
	}
	if err := h.start(ctx); err != nil {
		h.stop()
		return err
	}
	c.printAddresses()
	select {
	case <-ctx.Done():
	case <-closedAfter(&h.leases):
		io.WriteString(c.Out, "ready\n"+c.tries()) // in one: who waits for the line may read no further
		go h.obey()                                // ends with the process, as its input may
		<-ctx.Done()
	}
	h.stop()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// untilDone drops warnings once everything is stopping: daemons that stop at once miss each
// other, which is nobody's fault.
type untilDone struct {
	slog.Handler
	ctx context.Context
}

// Enabled implements slog.Handler.
func (h untilDone) Enabled(ctx context.Context, level slog.Level) bool {
	return (h.ctx.Err() == nil || level > slog.LevelWarn) && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h untilDone) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untilDone{h.Handler.WithAttrs(attrs), h.ctx}
}

// WithGroup implements slog.Handler.
func (h untilDone) WithGroup(name string) slog.Handler {
	return untilDone{h.Handler.WithGroup(name), h.ctx}
}

// dataDir is where the state is kept, and how to clean up.
func dataDir(dir string) (string, func(), error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("--data-dir: %w", err)
		}
		return dir, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "aliquot-dev-")
	if err != nil {
		return "", nil, fmt.Errorf("temporary data directory: %w; name another place with --data-dir", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

// rulesFile is the file of the first rules.
func (c *Config) rulesFile(dir string) (string, error) {
	if c.RulesFile != "" {
		file, err := os.Open(c.RulesFile) // each coordinator reads it, after the addresses are printed
		if err != nil {
			return "", fmt.Errorf("--rules: %w", err)
		}
		return c.RulesFile, file.Close()
	}
	path := filepath.Join(dir, "rules.yaml")
	return path, os.WriteFile(path, exampleRules, 0o600)
}

// house is the running daemons.
type house struct {
	config    Config
	dir       string
	rulesFile string
	fail      context.CancelCauseFunc
	daemons   sync.WaitGroup
	leases    sync.WaitGroup          // regions that have not held a lease yet
	cuts      map[string]*atomic.Bool // by region: its way to the coordinators is cut
}

func (h *house) start(ctx context.Context) error {
	for i := range h.config.Coordinators {
		h.startCoordinator(ctx, i)
	}
	h.leases.Add(len(h.config.Regions))
	for i := range h.config.Regions {
		if err := h.startRegion(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) startCoordinator(ctx context.Context, i int) {
	at := h.config.coordinator(i)
	name := fmt.Sprintf("c%d", i+1)
	c := coordinator.DefaultConfig()
	c.NodeID, c.DataDir = name, filepath.Join(h.dir, name)
	c.Listen, c.RaftListen, c.GossipListen, c.OpsListen = at.rpc, at.second, at.gossip, at.ops
	for other := range h.config.Coordinators {
		if other != i {
			c.Join = append(c.Join, h.config.coordinator(other).gossip)
		}
	}
	c.BootstrapExpect = h.config.Coordinators
	c.Regions, c.RulesFile = h.config.Regions, h.rulesFile
	c.Logger = h.config.Logger
	h.run("coordinator "+name, func() error { return coordinator.Run(ctx, c) })
}

func (h *house) startRegion(ctx context.Context, i int) error {
	at := h.config.region(i)
	name := h.config.Regions[i]
	c := regional.DefaultConfig()
	c.Region, c.Redis, c.Version = name, h.config.redis(i), config.Version()
	c.Listen, c.GRPCListen, c.OpsListen = at.rpc, at.second, at.ops
	for other := range h.config.Coordinators {
		c.Coordinators = append(c.Coordinators, h.config.coordinator(other).rpc)
	}
	c.StateFile = filepath.Join(h.dir, name+".json")
	c.Logger = h.config.Logger
	c.HTTPClient = rpc.NewHTTPClient()
	c.HTTPClient.Transport = link{next: c.HTTPClient.Transport, cut: h.cuts[name]}
	if h.config.RTT > 0 {
		c.HTTPClient.Transport = delay{next: c.HTTPClient.Transport, oneWay: h.config.RTT / 2}
	}
	daemon, err := regional.New(c)
	if err != nil {
		return fmt.Errorf("region %s: %w", name, err)
	}
	h.run("region "+name, func() error { return daemon.Run(ctx) })
	go func() {
		select {
		case <-ctx.Done():
		case <-daemon.Ready():
			h.leases.Done()
		}
	}()
	return nil
}

// run keeps one daemon; the first that fails ends all. A coordinator that an operator has
// removed from the cluster has not failed.
func (h *house) run(name string, daemon func() error) {
	h.daemons.Go(func() {
		err := daemon()
		switch {
		case err == nil || errors.Is(err, context.Canceled):
		case errors.Is(err, coordinator.ErrRemoved):
			h.config.Logger.Warn("a daemon has ended, the others go on", "daemon", name, "error", err)
		default:
			h.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// stop waits for the daemons, whose context has ended.
func (h *house) stop() {
	h.fail(nil)
	select {
	case <-closedAfter(&h.daemons):
	case <-time.After(stopWithin):
		h.config.Logger.Warn("daemons did not stop in time", "waited", stopWithin)
	}
}

func closedAfter(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	return done
}

// printAddresses prints where everything listens and an example that works.
func (c *Config) printAddresses() {
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COORDINATOR\tRPC\tRAFT\tGOSSIP\tOPS")
	for i := range c.Coordinators {
		at := c.coordinator(i)
		fmt.Fprintf(w, "c%d\t%s\t%s\t%s\t%s\n", i+1, at.rpc, at.second, at.gossip, at.ops)
	}
	fmt.Fprintln(w, "\t\t\t\t\nREGION\tCHECK\tGRPC\tSTORE\tOPS")
	for i, name := range c.Regions {
		at := c.region(i)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, at.rpc, at.second, c.storeName(i), at.ops)
	}
	w.Flush()
	c.printExample()
}

// storeName is a region's store without a password.
func (c *Config) storeName(i int) string {
	if u, err := url.Parse(c.redis(i)); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return c.redis(i)
}

// tries are commands to go on with, once everything is ready.
func (c *Config) tries() string {
	coordinator, region, regions := "", "", ""
	if c.PortOffset != 0 {
		coordinator, region = " --addr "+c.coordinator(0).rpc, " --addr "+c.region(0).rpc
	}
	if c.PortOffset != 0 || len(c.Regions) != 3 {
		var all []string
		for i := range c.Regions {
			all = append(all, c.region(i).rpc)
		}
		regions = " --regions " + strings.Join(all, ",")
	}
	var b strings.Builder
	b.WriteString("\nTry, in another terminal:\n")
	for _, try := range [][2]string{
		{"one request: may it pass?", "check api_key=sk_1" + region},
		{"why is it decided so? Counts nothing", "explain api_key=sk_1" + region},
		{"a client that uses all regions in turn: what did it get?", "bench rotate --duration 10s" + regions},
		{"which region holds which part", "budget list" + coordinator},
		{"deny a client everywhere, within 2 s", "block sk_1 --ttl 1m" + coordinator},
		{"the rules; 'rules apply FILE' changes them", "rules show" + coordinator},
	} {
		fmt.Fprintf(&b, "  # %s\n  %s %s\n", try[0], cmp.Or(c.Program, "aliquot"), try[1])
	}
	b.WriteString("Type here: 'cut " + c.Regions[0] + "' takes the coordinators from a region, 'heal " + c.Regions[0] +
		"' gives them back. Ctrl-C stops it all.\n")
	return b.String()
}

func (c *Config) printExample() {
	io.WriteString(c.Out, "\nAsk whether a request may pass:\n"+
		"  curl -s http://"+c.region(0).rpc+"/aliquot.v1.LimiterService/Check -H 'Content-Type: application/json'"+
		` -d '{"attributes":{"api_key":"sk_1","endpoint":"/v1/orders"}}'`+"\n\n")
}
