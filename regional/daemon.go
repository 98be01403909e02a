package regional

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/durable"
	"aliquot/internal/hashslot"
	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	"aliquot/internal/rpc"
	"aliquot/internal/rpc/connections"
	"aliquot/internal/storeclock"
	"aliquot/regional/internal/api"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/explain"
	"aliquot/regional/internal/keywatch"
	"aliquot/regional/internal/overload"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
	"aliquot/regional/internal/session"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
	"aliquot/regional/store"
)

const (
	// drainFor is how long calls under way may take at shutdown.
	drainFor = 5 * time.Second
	// leaveFor is how long telling the coordinators that this daemon stops may take. The first one
	// that it calls may be stopping too.
	leaveFor = 3 * time.Second
	// readyPoll is how often a daemon checks whether it is ready.
	readyPoll = 20 * time.Millisecond
	// returnWithin is how long a daemon that comes back waits for its first session before it accepts clients, and
	// returnPoll how often it checks whether it has one. Without coordinators it would wait for nothing.
	returnWithin, returnPoll = time.Second, time.Millisecond
)

// Daemon is a regional daemon. New opens its listeners, and Run serves.
type Daemon struct {
	cfg       Config
	log       *slog.Logger
	registry  *prometheus.Registry
	metrics   *telemetry.Metrics
	sockets   sockets
	store     storeguard.Store
	policies  *policy.Policies
	auth      *authority.Authority
	guard     *storeguard.Guard
	limiter   *engine.Engine
	keys      *keywatch.Watch
	emergency *emergency.Limit
	throttle  *overload.Throttle
	janitor   *engine.Janitor
	answers   *explain.Recorder
	door      *overload.Door
	bugs      *background.Panics
	service   *api.Service
	stopping  chan struct{} // closed when the daemon stops
	stateFile *stateFile
	others    *session.Others
	lists     atomic.Pointer[session.Others] // others, once it is built; the store learns its contents before
	session   *session.Session
	http      *http.Server
	ops       *http.Server
	grpc      *grpc.Server
	health    *health.Server
	drainer   *drainer
	// drainWithin and leaveFor are the constants of these names. A test sets longer times.
	drainWithin, leaveFor time.Duration
	// writeFile is durable.WriteFile. A test makes it slow.
	writeFile func(path string, data []byte) error
	// incarnation is the random number of this run.
	incarnation uint64

	storeDown atomic.Bool
	probeWake chan struct{} // wakes probeStore; room for one
	primaries atomic.Int64  // how often the store became another server
	ready     chan struct{}
	readyOnce sync.Once
	failed    chan error // why the daemon must stop; room for one
}

// Run makes a daemon with New and runs it until ctx ends.
func Run(ctx context.Context, c Config) error {
	d, err := New(c)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// New reads the state file and opens the listeners. The caller must call Run, which closes
// everything again.
func New(c Config) (*Daemon, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	log := c.Logger.With("region", c.Region)
	kept, err := openState(&c, log)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		cfg: c, log: log, registry: c.Registry, incarnation: incarnation(), drainWithin: drainWithin, leaveFor: leaveFor,
		writeFile: durable.WriteFile,
		ready:     make(chan struct{}), stopping: make(chan struct{}), probeWake: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	if d.sockets, err = openSockets(&c); err != nil {
		return nil, err
	}
	if err := d.build(kept); err != nil {
		d.sockets.close()
		return nil, err
	}
	return d, nil
}

func (c *Config) setDefaults() {
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Now == nil {
		c.Now, c.bootClock = boottime.Now, true
	}
	if c.pause == nil {
		c.pause = background.Pause
	}
	if c.HTTPClient == nil {
		c.HTTPClient = rpc.NewHTTPClient()
	}
}

// build wires the daemon, in the order of dependencies.
func (d *Daemon) build(kept *state) error {
	c := &d.cfg
	d.metrics = telemetry.New(c.Region, c.Version, c.Registry)
	d.policies = policy.New(c.Region, c.WithoutRules == PassWithoutRules, c.Now, d.log, d.metrics)
	clock := storeclock.New()
	now := c.Now()
	region := budget.NewRegion(0, budget.Config{}, d.incarnation, now)
	if kept != nil {
		d.restore(kept, region, clock, now)
	}
	d.auth = authority.New(region, clock, c.Now)
	d.auth.Watch(d.metrics, c.Registry)
	connections.Watch(c.Registry, d.sockets.open()...)
	d.emergency = emergency.New(c.Now, clock, d.auth.CurrentEpoch)
	d.emergency.Spread = store.IsCluster(c.Redis)
	var err error
	if d.store, err = d.openStore(); err != nil {
		return err
	}
	d.bugs = &background.Panics{Count: d.metrics.Panics, Log: d.log}
	id := stateID(c.StateFile, kept, os.Hostname)
	returns := d.readRecords(kept)
	d.others = d.newOthers(id, kept)
	d.lists.Store(d.others)
	d.stateFile = newStateFile(c.StateFile, c.Region, id, kept, d.policies, d.others, d.log)
	d.guard = storeguard.New(storeguard.Config{
		Store: d.store, Observer: observer{d.auth, d.emergency, &d.lists}, Now: c.Now, Metrics: d.metrics, Changed: d.storeChanged, Failed: d.wakeProbe,
		Spends: d.spends, Bugs: d.bugs,
	})
	d.door = overload.NewDoor(runtime.GOMAXPROCS(0), d.metrics.Overload)
	d.keys = keywatch.New(c.Now, c.RememberKeys, d.metrics, d.log)
	d.keys.Export(d.metrics, d.policies, c.Registry)
	config := engine.Config{
		Policies: d.policies, Auth: d.auth, Guard: d.guard, Emergency: d.emergency, Keys: d.keys, Metrics: d.metrics, Log: d.log,
		Bugs: d.bugs, Turns: d.door, Slots: charge.NewSlotNames(d.incarnation), Shared: !c.storeKind().embedded,
	}
	if c.bootClock {
		config.Clock = &boottime.Clock{}
	}
	d.limiter = engine.New(config)
	d.janitor = d.limiter.NewJanitor(d.bugs)
	recent := sample.New(func() budget.Instant {
		now, _ := d.limiter.Read()
		return now
	})
	d.session = d.newSession(recent, returns)
	d.answers = explain.NewRecorder(d.limiter, d.metrics, recent, explain.NewHolders(c.Coordinators, d.session.CoordinatorIndex, c.HTTPClient))
	return d.buildServers()
}

// restore gives the policies, the state machine and the clock what the state file kept.
func (d *Daemon) restore(kept *state, region *budget.Region, clock *storeclock.Map, now budget.Instant) {
	d.policies.SetCluster(kept.Cluster)
	switch {
	case kept.Rules.Version > 0 && d.policies.SetRules(kept.Rules) != nil:
		copyUnreadable(d.cfg.StateFile, d.log) // the coordinators send the rules again
	case kept.NoRules:
		d.policies.SetNone()
	default:
		d.policies.Restore(kept.Former)
	}
	clock.SetRho(kept.Cluster.RhoPPM)
	region.SetConfig(kept.Cluster.Index(d.cfg.Region), kept.Cluster.Protocol(), kept.Cluster.InitialEpoch, kept.Cluster.LeaderEpoch, now)
}

// newSession returns the session with the coordinators. recent has samples of checks; returns is what the
// last run of this daemon left, or nil.
func (d *Daemon) newSession(recent *sample.Sample, returns *session.Return) *session.Session {
	c := &d.cfg
	config := session.Config{
		Region: c.Region, Address: d.advertised(d.Addr()), OpsAddress: d.advertised(d.OpsAddr()), Version: c.Version, Incarnation: d.incarnation,
		Authority: d.auth, Store: d.guard, Policies: d.policies, Emergency: d.emergency, Others: d.others, File: d.stateFile,
		Recent: recent, Planner: sample.NewPlanner(d.policies, d.auth, recent),
		Coordinators: c.Coordinators, HTTP: c.HTTPClient, Metrics: d.metrics, Registry: c.Registry, Log: d.log, Bugs: d.bugs,
		Live:         func() { d.readyOnce.Do(func() { go d.becomeReady() }) },
		WrongCluster: d.fail, Returns: returns,
		WatchWall: c.bootClock,
	}
	config.Unreached = d.outOfReach()
	if sharded, ok := d.store.(interface{ Unreached() *hashslot.Set }); ok {
		config.Unreached = sharded.Unreached
	}
	return session.New(config)
}

// buildServers wires what clients reach.
func (d *Daemon) buildServers() error {
	c := &d.cfg
	clients, err := identity.New(c.Identity)
	if err != nil {
		return err
	}
	headers, err := httpanswer.ParseHeaders(c.Headers)
	if err != nil {
		return err
	}
	envoyHeaders, err := httpanswer.ParseHeaders(c.RLSHeaders)
	if err != nil {
		return err
	}
	d.throttle = overload.NewThrottle(c.ThrottleAfter, clients.TrustsPeer, c.pause, d.metrics, d.log)
	d.service = api.New(api.Config{
		Region: c.Region, Limiter: d.limiter, Answers: d.answers, Metrics: d.metrics, Bugs: d.bugs,
		Door: d.door, Messages: overload.NewMessages(), Throttle: d.throttle, StreamMemory: c.streamMemory, Stopping: d.stopping,
		Identity: clients, Headers: headers, EnvoyHeaders: envoyHeaders, Hosts: c.hosts(), Log: d.log,
	}, c.Registry)
	d.drainer = &drainer{stopping: d.stopping}
	d.http = newHTTPServer(d.drainer.closeConnections(rpc.BoundStreams(writeTimeout, d.service.HTTP())), d.log)
	d.http.ConnContext, d.http.ConnState = overload.ConnContext, d.drainer.countConnections
	d.ops = newHTTPServer(opsHandler(d, c.Registry), d.log)
	d.grpc, d.health = d.service.GRPC()
	return nil
}

// newOthers returns what this daemon knows of the region's other daemons, or nil if none can have the
// same store. id is that of stateID.
func (d *Daemon) newOthers(id string, kept *state) *session.Others {
	shared, ok := d.store.(session.RosterStore)
	if !ok {
		return nil
	}
	var known []budget.DaemonID
	if kept != nil {
		known = kept.others()
		if kept.Daemon == "" {
			d.policies.Remind() // so that the file gets an id
		}
	}
	return session.NewOthers(session.OthersConfig{
		Store: shared, Authority: d.auth, Emergency: d.emergency, Policies: d.policies, Metrics: d.metrics, Log: d.log, Now: d.cfg.Now,
		Self: session.DaemonID(id, d.advertised(d.Addr())), Known: known,
	})
}

// incarnation returns a random number that identifies this run of the daemon. It is never 0.
func incarnation() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return binary.BigEndian.Uint64(b[:]) | 1
}

// observer learns what calls show of the store. The emergency limit hears at once of other contents, and of a clock that
// has stopped.
type observer struct {
	*authority.Authority
	emergency *emergency.Limit
	others    *atomic.Pointer[session.Others] // nil in it: the daemon is being built
}

// StoreEpoch implements storeguard.Observer.
func (o observer) StoreEpoch(epoch string) (changed bool) {
	if changed = o.Authority.StoreEpoch(epoch); changed {
		o.emergency.Learned()
		o.others.Load().Learned()
	}
	return changed
}

// Sample implements storeguard.Observer.
func (o observer) Sample(epoch string, s storeclock.Sample) (stopped bool) {
	return o.tell(o.Authority.Sample(epoch, s))
}

// ClockWasSet implements storeguard.Observer.
func (o observer) ClockWasSet(epoch string, s storeclock.Sample) (stopped bool) {
	return o.tell(o.Authority.ClockWasSet(epoch, s))
}

// tell tells the emergency limit if this machine's clock may have stopped.
func (o observer) tell(stopped bool) bool {
	if stopped {
		o.emergency.ClockStopped()
	}
	return stopped
}

// spends reports whether this daemon may spend from its store.
func (d *Daemon) spends() bool {
	return d.others.Spends() && !d.emergency.HoldsBack(d.auth.CurrentEpoch())
}

// newPrimary tries the store at once, because it is another server from now on.
func (d *Daemon) newPrimary() {
	d.primaries.Add(1)
	d.guard.Breaker.TryNow()
	d.wakeProbe()
}

// wakeProbe wakes probeStore before its interval ends.
func (d *Daemon) wakeProbe() {
	select {
	case d.probeWake <- struct{}{}:
	default:
	}
}

// storeChanged records that the breaker before the store has opened, tries or has closed, or that the store has begun
// or ceased to answer later than callers wait. It logs an outage once.
func (d *Daemon) storeChanged(down bool, cause error) {
	changed := d.storeDown.Swap(down) != down
	d.showStore()
	d.wakeProbe()
	if !changed {
		return
	}
	if down {
		d.log.Error("the regional store does not answer: each rule's on_redis_failure decides until it does",
			"reason", storeguard.Reason(cause), "what_to_do", remedy(storeguard.Reason(cause)), "error", cause)
	} else {
		d.log.Info("the regional store answers again")
	}
}

// shardBreakerChanged records that the breaker of one node of a Redis Cluster has opened or closed.
func (d *Daemon) shardBreakerChanged(node string, open bool, cause error) {
	d.metrics.SetShard(node, open)
	if open {
		d.log.Error("a node of the Redis Cluster does not answer: each rule's on_redis_failure decides for its keys until it does",
			"node", node, "reason", storeguard.Reason(cause), "what_to_do", remedy(storeguard.Reason(cause)), "error", cause)
	} else {
		d.log.Info("a node of the Redis Cluster answers again, or has no slots any more", "node", node)
	}
}

// keepsShares is for how long a region keeps its shares while its store does not answer: a restart or
// a failover takes less. After that other regions get them, which may have got the region's clients too.
const keepsShares = 30 * time.Second

// outOfReach returns what tells the slots that a store of one server cannot reach: all of them, in the
// first time of its silence. No share can change there, so the leader leaves the region's shares as they
// are. A change could only fail, and would end the session and then the lease. The result is for one
// caller at a time.
func (d *Daemon) outOfReach() func() *hashslot.Set {
	every := &hashslot.Set{}
	for slot := range hashslot.Count {
		every.Add(slot)
	}
	var since budget.Instant // of the silence; 0: there is none
	return func() *hashslot.Set {
		switch now := d.cfg.Now(); {
		case !d.guard.Silent():
			since = 0
		case since == 0:
			since = now
			return every
		case now.Sub(since) < keepsShares:
			return every
		}
		return nil
	}
}

// fail stops the daemon with an error.
func (d *Daemon) fail(err error) {
	select {
	case d.failed <- err:
	default:
	}
}

// becomeReady makes the daemon ready once it has read its store's list of daemons, or has no store
// with such a list. Before that it could admit nothing without its store.
func (d *Daemon) becomeReady() {
	for d.others.Unread() {
		select {
		case <-d.stopping:
			return
		case <-time.After(readyPoll):
		}
	}
	close(d.ready)
}

// Ready returns a channel that is closed when the region holds its first lease, and knows which
// other daemons of it are in its store's list.
func (d *Daemon) Ready() <-chan struct{} { return d.ready }

// Addr, GRPCAddr and OpsAddr return the addresses on which the daemon listens: host:port, or
// unix:///path.
func (d *Daemon) Addr() string     { return rpc.AddressOf(d.sockets[flagListen]) }
func (d *Daemon) GRPCAddr() string { return rpc.AddressOf(d.sockets[flagGRPCListen]) }
func (d *Daemon) OpsAddr() string  { return rpc.AddressOf(d.sockets[flagOpsListen]) }

// advertised returns the address under which others reach a listener of this daemon. A unix socket
// keeps its own address, because it has no port.
func (d *Daemon) advertised(address string) string {
	if _, unix := rpc.UnixPath(address); unix || d.cfg.Advertise == "" {
		return address
	}
	_, port, _ := net.SplitHostPort(address) // a listener's address is well-formed
	return net.JoinHostPort(d.cfg.Advertise, port)
}

// Run serves until ctx ends, then drains and closes. It returns nil after an orderly end.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("regional daemon listening", "listen", d.Addr(), "grpc", d.GRPCAddr(), "ops", d.OpsAddr(),
		"store", d.cfg.storeKind().name, "coordinators", d.cfg.Coordinators, "rules_version", d.policies.Load().Text.Version)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	for name, run := range map[string]func(context.Context){
		"reports": d.session.Run, "the store's probe": d.probeStore, "the list of daemons": func(ctx context.Context) { d.others.Run(ctx, d.guard) },
		"the janitor": d.janitor.Run, "held reservations": d.limiter.HandOver, "the state file": d.stateFile.run,
		"the watch of keys": func(ctx context.Context) { d.keys.Run(ctx, d.policies, d.cfg.HotKeyLog) },
	} {
		work.Go(func() { d.bugs.Keep(background, name, run) })
	}
	for i := range servers {
		if l := d.sockets[servers[i].flag]; l != nil {
			work.Go(func() {
				if servers[i].flag != flagOpsListen {
					d.awaitReturn(ctx)
				}
				d.serve(servers[i].flag, servers[i].serve(d, l))
			})
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-d.failed:
	}
	d.drain()
	open := d.auth.Session() // read before stop, because a report that is given up ends the session
	stop()
	work.Wait()
	place := d.keepRecords(open) // before the time for the last word begins: it takes as long as the disk does
	leaving, cancel := context.WithTimeout(context.Background(), d.leaveFor)
	defer cancel()
	d.session.Leave(leaving, open, place)
	return errors.Join(err, d.store.Close())
}

// awaitReturn waits until it is decided whether a daemon that comes back continues with what its last run remembered,
// returnWithin at most. Until then it would refuse every check. So it accepts no client yet, and those that come wait.
func (d *Daemon) awaitReturn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, returnWithin)
	defer cancel()
	for d.emergency.Undecided(d.auth.CurrentEpoch()) && background.Pause(ctx, returnPoll) {
	}
}

func (d *Daemon) serve(flag string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
		d.fail(fmt.Errorf("--%s: %w", flag, err))
	}
}

// drain tells clients to leave, stops to accept connections, and lets calls under way finish.
func (d *Daemon) drain() {
	d.log.Info("draining")
	ctx, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	d.health.Shutdown()
	close(d.stopping)
	var ending sync.WaitGroup
	for i := range servers {
		if end := servers[i].end; end != nil && d.sockets[servers[i].flag] != nil {
			ending.Go(func() { end(ctx, d) })
		}
	}
	ending.Wait()
}

func shutDown(ctx context.Context, s *http.Server) {
	if s.Shutdown(ctx) != nil {
		s.Close()
	}
}
