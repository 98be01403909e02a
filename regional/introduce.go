package regional

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
func (r *reporter) introduceIfDue(ctx context.Context) {
	now := time.Now()
	if !r.storeless.Load() || now.Sub(r.introduced) < introduceEvery {
		return
	}
	// A connection may have learnt the contents when keepStore has not.
	if r.auth.CurrentEpoch() != "" || !r.introducing.CompareAndSwap(false, true) {
		return
	}
	r.introduced = now
	r.background("Hello", func() {
		defer r.introducing.Store(false)
		r.introduce(ctx)
	})
}

// introduce says a Hello that opens no session.
func (r *reporter) introduce(ctx context.Context) {
	r.saying.Lock()
	defer r.saying.Unlock()
	if !r.peers.turn(ctx, len(r.policies.Load().Cluster.Regions)) || r.auth.CurrentEpoch() != "" {
		return
	}
	known := r.policies.Load().Cluster
	in := &aliquotv1.HelloRequest{
		Region: r.region, Incarnation: r.incarnation, Nonce: 1, RulesVersion: r.policies.VersionSeen(),
		Address: r.address, DaemonVersion: r.version,
	}
	out, ev := r.say(ctx, in)
	if out == nil {
		return
	}
	// This daemon has no part of another cluster's floors.
	if id := clusterIn(out.GetConfig()).ClusterID; known.ClusterID != "" && id != "" && id != known.ClusterID {
		return
	}
	// If the floor belongs to another daemon, that holds even if the rest of the answer is useless.
	if whose := out.GetFloorHolder(); ev != nil || whose != aliquotv1.FloorHolder_FLOOR_HOLDER_YOU {
		r.hearWhose(whose)
	}
	// A state machine without a configuration has one by now. One with another configuration, from
	// a state file, takes the new one as if a Hello had failed to open a session. It is not told of
	// a second daemon, because it would wait for that daemon.
	failed, unopened := ev.(budget.CallFailed)
	if unopened && failed.Config != nil && known.Version != 0 && failed.Config.Version != known.Version {
		failed.Busy = false
		r.helloed(failed)
	}
}

// hearWhose takes a coordinator's statement of which daemon has the region's floor. A new leader's
// ignorance says nothing: there may still be another daemon.
func (r *reporter) hearWhose(holder aliquotv1.FloorHolder) {
	config := r.policies.Load().Cluster.Protocol()
	room := config.FloorAfterUse(0) // by then all others have made room for a silent region
	switch holder {
	case aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER:
		r.isSecond(true)
	case aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY:
		r.second.Store(false)
		r.emergency.LeaveFloorFor(room)
	case aliquotv1.FloorHolder_FLOOR_HOLDER_YOU:
		r.isSecond(false)
	default:
		r.emergency.StillLeft(room)
		return
	}
	r.heardWhose.Store(true)
}
