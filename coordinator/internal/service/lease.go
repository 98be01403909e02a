package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"connectrpc.com/connect"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/claims"
	"aliquot/coordinator/internal/daemons"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/plan"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// leaseService implements LeaseService: the protocol between the regions and the leader's state
// machine.
type leaseService struct {
	node       *cluster.Node
	leadership *leader.Leadership
	forward    *forwarder
	metrics    *metrics
	plans      *plan.Planner
	sentRules  daemons.SentRules
	daemons    *daemons.Seen
	claims     claims.Floors
	stopped    claims.Stopped
	places     *places
}

// Report takes the usage of a region and answers with a directive.
func (s *leaseService) Report(ctx context.Context, req *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	loop := s.leadership.Current()
	if loop == nil {
		res, err := toLeader(ctx, s.forward, req, (*peer).Report)
		return res, toRPC(err)
	}
	region, err := s.declared(loop, req.GetRegion())
	if err != nil {
		return nil, toRPC(err)
	}
	if req.GetLeaving() {
		// The answer is not empty, because a coordinator that forwards it would take an empty one for none.
		return &aliquotv1.ReportResponse{Epoch: loop.Epoch(), LeaderClockMicros: clockMicros(loop)}, toRPC(s.daemonLeaves(ctx, loop, region, req))
	}
	res, err := s.report(ctx, loop, region, req)
	s.metrics.countReport(req.GetRegion(), res, err)
	return res, toRPC(err)
}

// daemonLeaves handles the last report of a daemon that stops. An error says that its place may not be kept; the
// daemon has left all the same.
func (s *leaseService) daemonLeaves(ctx context.Context, loop *leader.Loop, region int, req *aliquotv1.ReportRequest) (err error) {
	if req.GetSession() != 0 {
		if req.GetPlace() != 0 {
			err = s.places.keep(ctx, loop, region, req, &s.claims)
		}
		s.stopped.Add(req.GetRegion(), leader.SessionID{Epoch: req.GetEpoch(), Session: req.GetSession()})
	}
	return errors.Join(err, loop.DaemonLeft(region, budget.DaemonID(req.GetDaemon())))
}

// report answers a report on the node that is in charge.
func (s *leaseService) report(ctx context.Context, loop *leader.Loop, region int, req *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	rep, err := leasewire.ReportFrom(region, req)
	if err != nil {
		return nil, err
	}
	spent, err := leasewire.SpentFrom(req.GetSpent())
	if err != nil {
		return nil, err
	}
	counts := leader.DecisionCounts{Version: req.GetDecidedRulesVersion(), Allowed: req.GetAllowed(), Denied: req.GetDenied()}
	directive, err := loop.Report(ctx, rep, counts, spent)
	if err != nil {
		return nil, err
	}
	s.daemons.Report(req, time.Now())
	s.plans.Accept(region, req.GetPlan())
	res := leasewire.ReportResponse(directive)
	res.LeaderClockMicros = clockMicros(loop)
	session := leader.SessionID{Epoch: directive.Epoch, Session: directive.Session}
	res.Plan = s.plans.TaskFor(region, session)
	s.node.View(func(state *clusterstate.State) {
		has, version := req.GetRulesVersion(), state.Rules.For(req.GetRegion()).Version
		if has != version && s.sentRules.Record(region, session, version) {
			res.Rules = newerRules(state, req.GetRegion(), has)
		}
	})
	return res, nil
}

// clockMicros returns the leader's clock in microseconds. Regions compare their clocks with it.
func clockMicros(l *leader.Loop) int64 { return int64(l.Now()) / 1000 }

// declared returns the index of a declared region. The error for another name lists the declared ones.
func (s *leaseService) declared(loop *leader.Loop, name string) (index int, err error) {
	s.node.View(func(state *clusterstate.State) {
		c := &state.Ledger.Config
		index = c.Index(name)
		switch {
		case index < 0:
			err = fmt.Errorf("%w %q; declared are %s: start the daemon with --region set to one of them, or add it with `aliquot region add`",
				errUndeclared, shorten(name), strings.Join(regionNames(c), ", "))
		case c.Regions[index].Fenced:
			err = fmt.Errorf("%w %q: what it had was given to the others; stop this daemon, or take the region back in with `aliquot region add %s`",
				errFenced, name, name)
		case c.Version != loop.ConfigVersion():
			err = leader.ErrConfigChanged // the next loop is for the new configuration
		}
	})
	return index, err
}

// regionNames returns the names of all regions, by index.
func regionNames(c *budget.Config) []string {
	names := make([]string, len(c.Regions))
	for i, r := range c.Regions {
		names[i] = r.Name
	}
	return names
}

// shorten bounds the length of a caller's text in an error.
func shorten(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}

// configToWire returns the configuration that a region needs to enforce anything.
func configToWire(s *clusterstate.State, region int) *aliquotv1.RegionConfig {
	c := &s.Ledger.Config
	out := &aliquotv1.RegionConfig{
		ClusterId: s.ClusterID, ConfigVersion: c.Version,
		LeaseMicros: c.Lease.Microseconds(), LeaseWaitMicros: c.LeaseWait.Microseconds(), RhoPpm: c.RhoPPM,
		HashSecret:        s.HashSecret.Bytes(),
		InitialRedisEpoch: c.Regions[region].InitialRedisEpoch,
	}
	for _, r := range c.Regions {
		out.Regions = append(out.Regions, &aliquotv1.DeclaredRegion{
			Name: r.Name, Floor: leasewire.ShareTo(r.Told), Low: leasewire.ShareTo(r.Low), FloorVersion: r.FloorVersion,
		})
	}
	return out
}

// newerRules returns the rules that the region is to follow; nil if it has them, or if there are none.
func newerRules(s *clusterstate.State, region string, has uint64) *aliquotv1.Rules {
	r := s.Rules.For(region)
	if r.Version == has || r.Version == 0 {
		return nil
	}
	return &aliquotv1.Rules{Version: r.Version, Yaml: r.YAML, Numbers: maps.Clone(r.Numbers), Entries: entriesToWire(r.Entries)}
}

const (
	// leaderWait is how long a Hello waits here for a leader. If all coordinators refused it at once, the
	// region would send a whole Hello to the next one, up to a second after there is a leader.
	leaderWait = time.Second
	// leaderPoll is how often a waiting Hello checks whether there is a leader.
	leaderPoll = 25 * time.Millisecond
)

// Hello opens a session. It waits for a leader for leaderWait, because one may be about to be elected.
func (s *leaseService) Hello(ctx context.Context, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	timeout, end := context.WithTimeout(ctx, leaderWait)
	defer end()
	for {
		if loop := s.leadership.Current(); loop != nil {
			res, err := s.hello(ctx, loop, req)
			if err == nil {
				res.StoreSharedWith = s.helloSeen(req, !res.GetBusy())
			}
			return res, toRPC(err)
		}
		res, err := s.helloToLeader(ctx, req)
		if err == nil || connect.CodeOf(toRPC(err)) != connect.CodeUnavailable || errors.Is(err, errAnotherLeads) {
			return res, toRPC(err)
		}
		select {
		case <-timeout.Done():
			return nil, toRPC(err)
		case <-time.After(leaderPoll):
		}
	}
}

// helloSeen remembers the daemon of an answered Hello. It returns the region that its region shares a store with.
func (s *leaseService) helloSeen(req *aliquotv1.HelloRequest, session bool) (sharedWith string) {
	lease, sharers := sharing(s.node)
	now := time.Now()
	s.daemons.Hello(req, session, now)
	return s.daemons.SharedWith(req.GetRegion(), sharers, now, sharedFor*lease)
}

// helloToLeader forwards a Hello, at most once. If a forwarded Hello reaches a node that is about to
// lead, it waits there; otherwise the coordinator that forwarded it tries again.
func (s *leaseService) helloToLeader(ctx context.Context, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	if !forwarded(ctx) {
		return toLeader(ctx, s.forward, req, (*peer).Hello)
	}
	if _, err := s.forward.leader(); errors.Is(err, errTakingCharge) {
		return nil, err
	}
	return nil, errAnotherLeads
}

// hello answers a Hello on the node that is in charge.
func (s *leaseService) hello(ctx context.Context, loop *leader.Loop, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	region, err := s.declared(loop, req.GetRegion())
	if err != nil {
		return nil, err
	}
	h, err := leasewire.HelloFrom(region, req)
	if err != nil {
		return nil, err
	}
	spent, err := leasewire.SpentFrom(req.GetSpent())
	if err != nil {
		return nil, err
	}
	place := s.places.byName(req.GetRegion())
	place.RLock()
	defer place.RUnlock()
	if err := s.places.claim(ctx, place, req); err != nil {
		return nil, err
	}
	if h.RedisEpoch == "" {
		return s.helloWithoutStore(ctx, loop, h, req)
	}
	if s.claims.StartSession(req.GetRegion(), h.Incarnation, loop.Now()) {
		res, err := s.answerWithoutSession(ctx, loop, region, req)
		if err == nil {
			res.Wait = true // another daemon uses the floor
		}
		return res, err
	}
	ok, err := s.openSession(ctx, loop, h, req.GetRegion())
	if errors.Is(err, budget.ErrRegionBusy) {
		return s.helloWithoutSession(ctx, loop, h, spent, req)
	}
	if err != nil {
		return nil, err
	}
	if len(spent) > 0 { // before the session
		if _, err := loop.SessionlessHello(ctx, h, req.GetSpentSince(), spent); err != nil {
			return nil, err
		}
	}
	res := leasewire.HelloResponse(ok)
	res.LeaderClockMicros, res.PlaceKept = clockMicros(loop), s.places.claimed(req)
	s.node.View(func(state *clusterstate.State) {
		setConfig(res, state, region, req)
	})
	s.sentRules.Record(region, leader.SessionID{Epoch: ok.Epoch, Session: ok.Session}, res.Rules.GetVersion())
	return res, nil
}

// openSession lets the state machine open a session that StartSession has allowed. If the daemon that
// has the session was stopped, its session ends first.
func (s *leaseService) openSession(ctx context.Context, loop *leader.Loop, h budget.Hello, name string) (ok budget.HelloOK, err error) {
	defer func() { s.claims.SessionDone(name, h.Incarnation, err == nil) }()
	ok, err = loop.Hello(ctx, h)
	if errors.Is(err, budget.ErrRegionBusy) && s.stopped.EndSession(loop, name, h.Region) {
		ok, err = loop.Hello(ctx, h)
	}
	return ok, err
}

// helloWithoutStore answers a daemon whose store has not answered yet: it tells the holder of the
// region's floor. It finds the holder on the loop, where sessions open, so that none opens meanwhile.
func (s *leaseService) helloWithoutStore(ctx context.Context, loop *leader.Loop, h budget.Hello, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	var whose aliquotv1.FloorHolder
	var heard budget.Instant
	err := loop.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		session := claims.HolderBySessions(m.Region(h.Region, now, 0), h.Incarnation, loop.StartedAt(), now, loop.FloorAfterUse())
		whose, heard = s.claims.Claim(req.GetRegion(), h.Incarnation, session, now), now
	})
	if err != nil {
		return nil, err
	}
	res, err := s.answerWithoutSession(ctx, loop, h.Region, req)
	if err != nil {
		return nil, err
	}
	res.FloorHolder = s.claims.Confirm(req.GetRegion(), h.Incarnation, whose, heard, loop.Now())
	return res, nil
}

// helloWithoutSession answers a daemon of a region whose session another daemon has. It may spend from
// the store if the daemon with the session knows of it. It is told of the others, of which the next leader may not know.
func (s *leaseService) helloWithoutSession(ctx context.Context, loop *leader.Loop, h budget.Hello, spent []budget.Spent, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	told, err := loop.SessionlessHello(ctx, h, req.GetSpentSince(), spent)
	if err != nil {
		return nil, err
	}
	res, err := s.answerWithoutSession(ctx, loop, h.Region, req)
	if err != nil {
		return nil, err
	}
	res.Wait, res.Others, res.OthersEpoch = !told.Vouched, leasewire.Daemons(told.Others), loop.Epoch()
	return res, nil
}

// answerWithoutSession returns the configuration that a daemon needs to serve the floor. It is for a
// second daemon of a region, whose floor another one holds, and for a daemon whose store has not
// answered yet. Like the answer that opens a session it needs a proof of leadership: the floors of a
// deposed leader are old, and the regions report to another one.
func (s *leaseService) answerWithoutSession(ctx context.Context, loop *leader.Loop, region int, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	if err := loop.VerifyLeader(ctx); err != nil {
		return nil, err
	}
	res := &aliquotv1.HelloResponse{Nonce: req.GetNonce(), Busy: true, FloorHolder: claims.HeldByOther}
	s.node.View(func(state *clusterstate.State) {
		setConfig(res, state, region, req)
	})
	return res, nil
}

// setConfig adds the configuration to the answer to a Hello, and the rules, or that there are none.
func setConfig(res *aliquotv1.HelloResponse, state *clusterstate.State, region int, req *aliquotv1.HelloRequest) {
	res.Config = configToWire(state, region)
	res.Rules = newerRules(state, req.GetRegion(), req.GetRulesVersion())
	res.NoRules = state.Rules.For(req.GetRegion()).Version == 0
}
