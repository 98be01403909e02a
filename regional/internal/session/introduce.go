package session

import (
	"context"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// introduceEvery is the interval between calls of a daemon whose store has not answered since its
// start. Such a daemon must also enforce a change of the rules within two seconds.
const introduceEvery = time.Second

// introduceIfDue asks for the configuration and the rules while the store's contents are not known.
// The state machine says no Hello then, because a session is about a store's contents. Without this
// call, a daemon that starts beside a store that is down and has no state file would let everything
// pass, although every coordinator is there.
func (s *Session) introduceIfDue(ctx context.Context) {
	now := time.Now()
	if now.Sub(s.introduced) < introduceEvery || !s.Storeless() || !s.introducing.CompareAndSwap(false, true) {
		return
	}
	s.introduced = now
	s.background("Hello", func() {
		defer s.introducing.Store(false)
		s.introduce(ctx)
	})
}

// introduce says a Hello that opens no session.
func (s *Session) introduce(ctx context.Context) {
	s.helloMu.Lock()
	defer s.helloMu.Unlock()
	if !s.peers.awaitTurn(ctx, len(s.policies.Load().Cluster.Regions)) || s.auth.CurrentEpoch() != "" {
		return
	}
	known := s.policies.Load().Cluster
	in := &aliquotv1.HelloRequest{
		Region: s.region, Incarnation: s.incarnation, Nonce: 1, RulesVersion: s.policies.VersionSeen(),
		Address: s.address, OpsAddress: s.opsAddress, DaemonVersion: s.version, Place: s.place(),
	}
	out, ev := s.sendHello(ctx, in)
	if out == nil {
		return
	}
	// This daemon has no part of another cluster's floors.
	if id := clusterIn(out.GetConfig()).ClusterID; known.ClusterID != "" && id != "" && id != known.ClusterID {
		return
	}
	// If the floor belongs to another daemon, that holds even if the rest of the answer is useless.
	if whose := out.GetFloorHolder(); ev != nil || whose != aliquotv1.FloorHolder_FLOOR_HOLDER_YOU {
		s.setHolder(whose)
	}
	// A state machine without a configuration has one by now. One with another configuration, from
	// a state file, takes the new one as if a Hello had failed to open a session. It is not told of
	// a second daemon, because it would wait for that daemon.
	failed, unopened := ev.(budget.CallFailed)
	if unopened && failed.Config != nil && known.Version != 0 && failed.Config.Version != known.Version {
		failed.Busy = false
		s.adopt(failed)
	}
}

// setHolder takes a coordinator's statement of which daemon has the region's floor. A new leader's
// ignorance says nothing: there may still be another daemon.
func (s *Session) setHolder(holder aliquotv1.FloorHolder) {
	config := s.policies.Load().Cluster.Protocol()
	room := config.FloorAfterUse(0) // by then all others have made room for a silent region
	switch holder {
	case aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER:
		s.setSecond(true)
	case aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY:
		s.second.Store(false)
		s.emergency.LeaveFloorFor(room)
	case aliquotv1.FloorHolder_FLOOR_HOLDER_YOU:
		s.setSecond(false)
	default:
		s.emergency.StillLeft(room)
		return
	}
	s.holderKnown.Store(true)
}
