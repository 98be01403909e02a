package coordinator

import (
	"context"
	"errors"
	"time"

	clusterstate "aliquot/cluster/state"

	"connectrpc.com/connect"

	"aliquot/budget"
	"aliquot/coordinator/internal/leader"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	// leaderWait is how long a Hello waits here for a leader. If all coordinators refused it at once, the
	// region would send a whole Hello to the next one, up to a second after there is a leader.
	leaderWait = time.Second
	// leaderPoll is the time between two looks for a leader.
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

// helloToLeader forwards a Hello. A Hello that was forwarded before has reached a node that is about to
// lead, or else the coordinator that forwarded it has to keep it.
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
	if h.RedisEpoch == "" && h.Shard == loop.Shard() { // the state machine refuses another shard
		return s.helloWithoutStore(ctx, loop, h, req)
	}
	if s.claims.startSession(req.GetRegion(), h.Incarnation, loop.Now()) {
		res, err := s.answerWithoutSession(ctx, loop, region, req)
		if err == nil {
			res.Wait = true // another daemon uses the floor
		}
		return res, err
	}
	ok, err := s.openSession(ctx, loop, h, req.GetRegion())
	if errors.Is(err, budget.ErrRegionBusy) {
		return s.helloWithoutSession(ctx, loop, h, req)
	}
	if err != nil {
		return nil, err
	}
	res := leasewire.HelloResponse(ok)
	res.LeaderClockMicros = clockMicros(loop)
	s.node.View(func(state *clusterstate.State) {
		setConfig(res, state, region, req)
	})
	s.sentRules.note(region, leader.SessionID{Epoch: ok.Epoch, Session: ok.Session}, res.Rules)
	return res, nil
}

// openSession lets the state machine open a session that startSession has allowed. If the daemon that
// has the session was stopped, its session ends first.
func (s *leaseService) openSession(ctx context.Context, loop *leader.Loop, h budget.Hello, name string) (ok budget.HelloOK, err error) {
	defer func() { s.claims.sessionDone(name, h.Incarnation, err == nil) }()
	ok, err = loop.Hello(ctx, h)
	if errors.Is(err, budget.ErrRegionBusy) && s.stopped.endStoppedSession(loop, name, h.Region) {
		ok, err = loop.Hello(ctx, h)
	}
	return ok, err
}

// helloWithoutStore answers a daemon whose store has not answered yet: it says who holds the region's
// floor. The holder is determined on the loop, where sessions open, so that none opens meanwhile.
func (s *leaseService) helloWithoutStore(ctx context.Context, loop *leader.Loop, h budget.Hello, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	var whose aliquotv1.FloorHolder
	var heard budget.Instant
	err := loop.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		session := holderBySessions(m.Region(h.Region, now, 0), h.Incarnation, loop.StartedAt(), now, loop.FloorAfterUse())
		whose, heard = s.claims.claim(req.GetRegion(), h.Incarnation, session, now), now
	})
	if err != nil {
		return nil, err
	}
	res, err := s.answerWithoutSession(ctx, loop, h.Region, req)
	if err != nil {
		return nil, err
	}
	res.FloorHolder = s.claims.confirm(req.GetRegion(), h.Incarnation, whose, heard, loop.Now())
	return res, nil
}

// helloWithoutSession answers a daemon of a region whose session another daemon has. It may spend from
// the store if the daemon with the session knows of it.
func (s *leaseService) helloWithoutSession(ctx context.Context, loop *leader.Loop, h budget.Hello, req *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	spent, err := leasewire.SpentFrom(req)
	if err != nil {
		return nil, err
	}
	vouched, err := loop.SessionlessHello(ctx, h, req.GetSpentSince(), spent)
	if err != nil {
		return nil, err
	}
	res, err := s.answerWithoutSession(ctx, loop, h.Region, req)
	if err != nil {
		return nil, err
	}
	res.Wait = !vouched
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
	res := &aliquotv1.HelloResponse{Shard: req.GetShard(), Nonce: req.GetNonce(), Busy: true, FloorHolder: heldByOther}
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
