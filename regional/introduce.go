package regional

import (
	"context"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// introduceEvery spaces the calls of a daemon whose store has not answered since it
// started: a change of the rules is to be in force within two seconds there too.
const introduceEvery = time.Second

// introduceIfDue asks for the configuration and the rules while the store's contents are
// not known. The machine says no Hello then, for a session is about a store's contents;
// without this a daemon that starts beside a store that is down, and has no state file,
// would go on letting everything pass though every coordinator is there.
func (r *reporter) introduceIfDue(ctx context.Context) {
	now := time.Now()
	if !r.storeless.Load() || now.Sub(r.introduced) < introduceEvery {
		return
	}
	// A connection may have learnt the contents where keepStore has not.
	if r.auth.currentEpoch() != "" || !r.introducing.CompareAndSwap(false, true) {
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
	if !r.peers.turn(ctx, len(r.policies.load().cluster.Regions)) || r.auth.currentEpoch() != "" {
		return
	}
	known := r.policies.load().cluster
	in := &aliquotv1.HelloRequest{
		Region: r.region, Incarnation: r.incarnation, Nonce: 1, RulesVersion: r.policies.versionSeen(),
		Address: r.address, DaemonVersion: r.version,
	}
	out, ev := r.say(ctx, in)
	if out == nil {
		return
	}
	// Of another cluster's floors this daemon has nothing.
	if id := clusterIn(out.GetConfig()).ClusterID; known.ClusterID != "" && id != "" && id != known.ClusterID {
		return
	}
	// That the floor is another's holds also where the rest of the answer is of no use.
	if whose := out.GetFloorHolder(); ev != nil || whose != aliquotv1.FloorHolder_FLOOR_HOLDER_YOU {
		r.hearWhose(whose)
	}
	// A machine that knew nothing has its configuration by now. One that knew another,
	// from a state file, takes the new one like that of a Hello which opened nothing; it is
	// not told of a second daemon, whom it would wait for.
	failed, unopened := ev.(budget.CallFailed)
	if unopened && failed.Config != nil && known.Version != 0 && failed.Config.Version != known.Version {
		failed.Busy = false
		r.helloed(failed)
	}
}

// hearWhose takes a coordinator's word of whose the region's floor is. What a leader that is
// new does not know is no news: there may be another daemon all the same.
func (r *reporter) hearWhose(holder aliquotv1.FloorHolder) {
	config := r.policies.load().cluster.protocol()
	room := config.FloorAfterUse(0) // by then everyone has made room for a region that is not heard
	switch holder {
	case aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER:
		r.isSecond(true)
	case aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY:
		r.second.Store(false)
		r.emergency.leaveFloorFor(room)
	case aliquotv1.FloorHolder_FLOOR_HOLDER_YOU:
		r.isSecond(false)
	default:
		r.emergency.stillLeft(room)
		return
	}
	r.heardWhose.Store(true)
}
