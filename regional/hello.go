package regional

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/policy"
)

// helloed gives the state machine the result of a Hello.
func (r *reporter) helloed(ev budget.RegionEvent) {
	switch e := ev.(type) {
	case budget.HelloAnswered:
		r.auth.Adopt(e, e.OK.Region, e.Config)
	case budget.CallFailed:
		if e.Config != nil {
			r.auth.Adopt(e, e.Self, *e.Config)
		} else {
			r.auth.Post(e)
		}
	}
}

// hello opens a session, and returns the event for the state machine. The message names every key
// that the region holds, so it is built only when it may leave.
func (r *reporter) hello(ctx context.Context, h budget.Hello) budget.RegionEvent {
	r.saying.Lock()
	defer r.saying.Unlock()
	if !r.peers.turn(ctx, len(r.policies.Load().Cluster.Regions)) {
		return budget.CallFailed{}
	}
	h.RulesVersion, h.RulesEnded = r.policies.Load().Text.Version, r.overridesEnded.Load()
	h.Standing = r.others.standing(r.noStore())
	in := leasewire.HelloRequest(r.region, h)
	in.Address, in.DaemonVersion = r.address, r.version
	since, spent := r.auth.TellUnreported()
	in.SpentSince, in.Spent = since, leasewire.SpentTo(spent)
	sent := r.auth.Now()
	out, ev := r.say(ctx, in)
	if _, opens := ev.(budget.HelloAnswered); opens {
		r.compare(out.GetEpoch(), out.GetLeaderClockMicros(), sent)
		r.auth.CountUnreported(0) // the session's reports will tell it
	}
	if out.GetBusy() {
		r.auth.CountUnreported(in.GetNonce())
	}
	if ev != nil || out.GetBusy() {
		r.isSecond(out.GetBusy())
		r.others.answered(out.GetBusy() && out.GetWait())
	}
	if ev == nil {
		return budget.CallFailed{Busy: out.GetBusy()}
	}
	return ev
}

// noStore reports whether the store does not answer this daemon.
func (r *reporter) noStore() bool { return r.storeless.Load() || r.guard.Breaker.Open.Load() }

// say sends a Hello to a coordinator and takes its answer. out is nil if none answered, and ev is
// nil if the answer is useless. The caller holds saying.
func (r *reporter) say(ctx context.Context, in *aliquotv1.HelloRequest) (out *aliquotv1.HelloResponse, ev budget.RegionEvent) {
	out, err := r.peers.hello(ctx, in)
	if err != nil {
		return nil, nil // peers has reported the error
	}
	r.sharesStore(out.GetStoreSharedWith())
	if r.outOfDate(out) {
		r.peers.moveOn()
		return out, nil
	}
	if ev, err = r.welcome(out); err != nil {
		r.log.Error("the answer to a Hello was refused", "error", err)
		return out, nil
	}
	return out, ev
}

// sharesStore logs that another region uses this region's store, once for each such region.
func (r *reporter) sharesStore(with string) {
	if with != "" && with != r.sharedWith {
		r.log.Error("another region uses this region's store: both take from the same records, so limits admit too little", "with", with,
			"what_to_do", "give each region a Redis of its own in --redis, or a database of its own: redis://HOST:PORT/1")
	}
	r.sharedWith = with
}

// isSecond records whether another daemon of the region is heard, and logs a change to true. The
// floor belongs to that daemon then.
func (r *reporter) isSecond(second bool) {
	r.emergency.LeaveFloor(second)
	if !r.second.Swap(second) && second {
		r.log.Warn("another daemon of this region is heard; this one serves what the store lets it, nothing without its store, and takes over when that one falls silent")
	}
}

// welcome takes the configuration and the rules that came with the answer to a Hello, before the
// state machine gets it. The second daemon of a region gets them without a session.
func (r *reporter) welcome(out *aliquotv1.HelloResponse) (budget.RegionEvent, error) {
	cluster, known := clusterIn(out.GetConfig()), r.policies.Load().Cluster
	cluster.LeaderEpoch = max(out.GetEpoch(), known.LeaderEpoch)
	if err := cluster.Check(r.region); err != nil {
		return nil, err
	}
	if known.ClusterID != "" && known.ClusterID != cluster.ClusterID {
		err := fmt.Errorf("these coordinators are of cluster %s, this region's state file %s is of cluster %s; "+
			"point --coordinators at the right cluster, or remove the state file to join the new one", cluster.ClusterID, r.keeper.file, known.ClusterID)
		if !r.opened {
			r.wrongCluster(err)
		}
		return nil, err
	}
	ok, err := leasewire.HelloAnswerFrom(cluster.Index(r.region), out)
	if err != nil {
		return nil, err
	}
	r.auth.Clock.SetRho(cluster.RhoPPM)
	r.auth.Configure(ok.Region, cluster.Protocol(), cluster.InitialEpoch)
	r.policies.SetCluster(cluster)
	r.takeRules(out.GetRules())
	if out.GetNoRules() {
		r.policies.SetNone()
	}
	r.opened = true
	// Save the state file before the session counts, so that no restart forgets the change. The
	// session may go on if only a new epoch could not be saved. A new floor must be saved: once this
	// region acknowledges it, the rest belongs to others, and they count on how long this region
	// waits for it.
	newEpoch, changed := r.policies.SetEpoch(ok.Epoch), r.keeper.outdated(&cluster)
	if (newEpoch || changed) && !r.keeper.save() && changed {
		return nil, errConfigNotKept
	}
	config := cluster.Protocol()
	if out.GetBusy() {
		return budget.CallFailed{Busy: true, Config: &config, Self: ok.Region, InitialRedisEpoch: cluster.InitialEpoch}, nil
	}
	return budget.HelloAnswered{OK: ok, Config: config, InitialRedisEpoch: cluster.InitialEpoch}, nil
}

// errConfigNotKept: a restart would enforce a floor that this region has given up, or take a floor
// back too early.
var errConfigNotKept = errors.New("the region's floor or the lease has changed and the state file cannot be written; " +
	"no session is opened before it is, see to the disk or the file's permissions")

// clusterIn converts the cluster's configuration. It does not check it.
func clusterIn(in *aliquotv1.RegionConfig) policy.Cluster {
	c := policy.Cluster{
		ClusterID: in.GetClusterId(), Version: in.GetConfigVersion(),
		Lease:     time.Duration(in.GetLeaseMicros()) * time.Microsecond,
		LeaseWait: time.Duration(in.GetLeaseWaitMicros()) * time.Microsecond,
		RhoPPM:    in.GetRhoPpm(), InitialEpoch: in.GetInitialRedisEpoch(), Secret: in.GetHashSecret(),
	}
	for _, r := range in.GetRegions() {
		c.Regions = append(c.Regions, policy.Region{
			Name: r.GetName(), Floor: leasewire.ShareFrom(r.GetFloor()), Low: leasewire.ShareFrom(r.GetLow()), FloorVersion: r.GetFloorVersion(),
		}.Normal())
	}
	return c
}
