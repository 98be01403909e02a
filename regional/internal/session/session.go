// Package session keeps a regional daemon's session with the coordinators. It sends Hellos and
// reports, takes rules, configuration and directives, and applies the shares in the store. It also
// knows the other daemons of the region, and whether this one may spend beside them.
package session

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/hashslot"
	"aliquot/internal/ratelog"
	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
	"aliquot/regional/internal/telemetry"
)

// tickEvery is the interval of the protocol. The leader ticks at the same interval.
const tickEvery = 20 * time.Millisecond

// Session keeps a region's session with the coordinators: it does what the region's state machine
// asks for. It sends Hellos and reports, and applies shares. The state machine allows one call and
// one application at a time, so nothing queues here. Use New.
type Session struct {
	region, address, opsAddress, version string
	// incarnation is that of the state machine.
	incarnation uint64
	auth        *authority.Authority
	store       Store
	policies    *policy.Policies
	emergency   *emergency.Limit
	others      *Others
	file        StateFile
	planner     *sample.Planner
	recent      *sample.Sample
	peers       *coordinators
	metrics     *telemetry.Metrics
	log         *slog.Logger
	bugs        *background.Panics

	telling   sync.Mutex     // guards toldRules, and that the state machine is told of rules in their order
	toldRules *policy.Policy // the rules that the state machine was last told
	unreached func() *hashslot.Set
	told      *hashslot.Set // the set that the state machine was last told
	live      func()
	// wrongCluster is Config.WrongCluster.
	wrongCluster func(error)
	calls        sync.WaitGroup
	// helloMu is held through a Hello, and guards the fields down to second.
	helloMu sync.Mutex
	opened  bool // a Hello was answered
	// sharedWith is another region that uses this region's store, by the latest answer; empty: none.
	sharedWith string
	// second: by the latest word of a coordinator, another daemon of the region is heard.
	second atomic.Bool
	// storeFailed: the store was asked for its contents and did not answer; see Storeless. holderKnown:
	// since then a coordinator has said whether another daemon of the region is heard.
	storeFailed atomic.Bool
	holderKnown atomic.Bool
	introducing atomic.Bool
	introduced  time.Time // when it was last due; used by Run only
	// reference is the clock of the leader that answered last. wall is this host's wall clock; nil
	// if it is not watched.
	reference boottime.Reference
	wall      *boottime.Wall
	phase     budget.Phase
	phaseTold bool
	watch     sessionWatch
	lastPart  time.Duration   // how long the latest part of a directive took to apply
	notMade   ratelog.Limiter // for directives that could not be applied; see applyFailed
	older     ratelog.Limiter // for answers that are out of date
	returns   *Return         // nil: there is nothing to return to, or it is decided; guarded by helloMu
}

// Config is what a session works with. All fields are required but those that say otherwise.
type Config struct {
	// Region is the region's declared name. Address is where others reach this daemon,
	// OpsAddress where they reach its ops listener, and Version is that of the program.
	Region, Address, OpsAddress, Version string
	// Incarnation is that of the state machine in Authority.
	Incarnation uint64
	Authority   *authority.Authority
	Store       Store
	Policies    *policy.Policies
	Emergency   *emergency.Limit
	Others      *Others // nil if no other daemon can have the same store
	File        StateFile
	// Recent are the decisions that Planner replays.
	Recent  *sample.Sample
	Planner *sample.Planner
	// Coordinators are RPC addresses, which HTTP calls.
	Coordinators []string
	HTTP         *http.Client
	Metrics      *telemetry.Metrics
	Registry     prometheus.Registerer
	Log          *slog.Logger
	Bugs         *background.Panics
	// Unreached returns the hash slots that the store cannot reach at present; nil for a store of
	// one server.
	Unreached func() *hashslot.Set
	// Live is called at the first lease, and at each later one.
	Live func()
	// WrongCluster is called if, before any session was open, a cluster answers that is not the one
	// in the state file.
	WrongCluster func(error)
	// Returns is what the last run of this daemon left; nil: nothing.
	Returns *Return
	// WatchWall: the authority's clock is this machine's boot clock, and is compared with the wall
	// clock.
	WatchWall bool
}

// Store is what a session needs of the region's store. A *storeguard.Guard is one.
type Store interface {
	// Apply makes share changes, any number of them or none, and tells the store that the region is
	// heard. It returns the store's clock.
	Apply(ctx context.Context, within time.Duration, epoch string, changes []lua.Change) ([]limit.Applied, int64, error)
	// Learn asks which contents the store has, and tells the state machine.
	Learn(ctx context.Context) error
	// Silent reports whether the store did not answer recently.
	Silent() bool
	// Doubted reports whether a call found other contents than it expected, and nobody has learned
	// them since.
	Doubted() bool
}

// StateFile keeps what a restart without coordinators needs.
type StateFile interface {
	// Name returns the file's path, for messages.
	Name() string
	// Outdated reports whether a restart from the file would use another floor or other timing.
	Outdated(c *policy.Cluster) bool
	// Save writes the policy in force, and reports whether that worked.
	Save() bool
}

// New returns a session that Run opens, and exports its metrics.
func New(c Config) *Session {
	s := &Session{
		notMade: ratelog.Limiter{Every: notMadeEvery}, older: ratelog.Limiter{Every: complainEvery},
		region: c.Region, address: c.Address, opsAddress: c.OpsAddress, version: c.Version, incarnation: c.Incarnation,
		auth: c.Authority, store: c.Store, policies: c.Policies, emergency: c.Emergency, others: c.Others, file: c.File,
		planner: c.Planner, recent: c.Recent, peers: newCoordinators(c.Coordinators, c.HTTP, c.Log, c.Metrics),
		metrics: c.Metrics, log: c.Log, bugs: c.Bugs, unreached: c.Unreached, live: c.Live, wrongCluster: c.WrongCluster,
		wall: newWall(c.WatchWall), returns: c.Returns,
	}
	s.export(c.Registry)
	return s
}

// Run serves the state machine until ctx ends.
func (s *Session) Run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	defer s.calls.Wait()
	for {
		s.tellReach()
		s.tellRules()
		s.watchWall()
		s.auth.Tick()
		s.recent.Age()
		s.policies.EndOverrides(s.auth.Clock)
		for _, effect := range s.auth.Effects() {
			s.do(ctx, effect)
		}
		s.introduceIfDue(ctx)
		s.watchPhase()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.auth.Wake():
		}
	}
}

// Leave tells the coordinators that this daemon stops, so that the next daemon of the region need
// not wait until this one was silent for long enough. If no coordinator receives it before ctx ends,
// the next daemon does wait. session is the one that was open before Run was told to end; its zero
// value is none. Leave must be called after Run has returned.
//
// place is a random number under which the coordinators keep the daemon's place; 0: none is asked for.
func (s *Session) Leave(ctx context.Context, session budget.SessionID, place uint64) {
	if session == (budget.SessionID{}) && !s.opened {
		return
	}
	err := s.peers.leave(ctx, &aliquotv1.ReportRequest{Region: s.region, Epoch: session.Epoch, Session: session.Number, Leaving: true,
		Daemon: uint64(s.others.Self()), Place: place})
	switch {
	case err != nil && place != 0:
		s.log.Warn("the coordinators have not kept this daemon's place: if its store loses its contents before the daemon is back, its limits start from empty",
			"error", err)
	case err != nil:
		s.log.Warn("no coordinator was told that this daemon stops: the next daemon of the region waits until this one was silent for long enough",
			"error", err)
	}
}

// tellReach tells the state machine which of the store's keys cannot be reached, when that has
// changed.
func (s *Session) tellReach() {
	if s.unreached == nil {
		return
	}
	now := s.unreached()
	if now.Same(s.told) {
		return
	}
	s.told = now
	s.auth.Post(budget.StoreReach{Unreached: now})
}

func (s *Session) do(ctx context.Context, effect budget.RegionEffect) {
	switch e := effect.(type) {
	case budget.SendHello:
		s.background("Hello", func() { s.adopt(s.hello(ctx, e.Hello)) })
	case budget.SendReport:
		s.background("Report", func() { s.auth.Post(s.report(ctx, e.Report)) })
	case budget.ApplyShares:
		// With or without e.Heard the store is told that the region is heard, because that costs
		// nothing beside changes.
		s.background("a change of shares", func() { s.auth.Post(budget.SharesApplied{Results: s.applyPart(ctx, e)}) })
	default:
		panic(fmt.Sprintf("session: unknown effect %T", effect))
	}
}

// background makes a call that run does not wait for. A call that panics is logged and has no
// outcome.
func (s *Session) background(what string, call func()) {
	s.calls.Go(func() { s.bugs.Guard(what, call) })
}

// CoordinatorIndex returns the index in Config.Coordinators of the one that is called next. It is
// safe for concurrent use.
func (s *Session) CoordinatorIndex() int { return s.peers.index() }

// StoreFailed records that the store was asked for its contents and did not answer. It is safe for concurrent use.
func (s *Session) StoreFailed() { s.storeFailed.Store(true) }

// Storeless reports whether the store has not answered since the start, although it was asked. It is safe for
// concurrent use.
func (s *Session) Storeless() bool { return s.storeFailed.Load() && s.auth.CurrentEpoch() == "" }

// watchPhase logs and exports a change of the phase.
func (s *Session) watchPhase() {
	info := s.auth.Info()
	s.watchSession(info)
	if info.Phase != budget.Limbo {
		s.emergency.Opened()
	}
	if s.phaseTold && info.Phase == s.phase {
		return
	}
	if s.phaseTold || info.Phase == budget.Live {
		s.log.Info("phase changed", "phase", info.Phase.String(), "lease_remaining", info.LeaseRemaining,
			"hot_keys", info.HotKeys, "epoch", info.Epoch)
	}
	s.phase, s.phaseTold = info.Phase, true
	s.metrics.SetDegraded(telemetry.DegradedLease, info.Phase != budget.Live)
	if info.Phase == budget.Live {
		s.live()
	}
}
