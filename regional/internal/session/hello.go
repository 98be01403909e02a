package session

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

// adopt gives the state machine the result of a Hello.
func (s *Session) adopt(ev budget.RegionEvent) {
	switch e := ev.(type) {
	case budget.HelloAnswered:
		s.auth.Adopt(e, e.OK.Region, e.Config)
	case budget.CallFailed:
		if e.Config != nil {
			s.auth.Adopt(e, e.Self, *e.Config)
		} else {
			s.auth.Post(e)
		}
	}
}

// hello opens a session, and returns the event for the state machine. The message names every key
// that the region holds, so it is built only when it may leave.
func (s *Session) hello(ctx context.Context, h budget.Hello) budget.RegionEvent {
	s.helloMu.Lock()
	defer s.helloMu.Unlock()
	if !s.peers.awaitTurn(ctx, len(s.policies.Load().Cluster.Regions)) {
		return budget.CallFailed{}
	}
	h.Rules = s.policies.Load().State() // it may have waited since the state machine made it
	h.Standing = s.others.standing(s.store.Silent())
	in := leasewire.HelloRequest(s.region, h)
	in.Address, in.OpsAddress, in.DaemonVersion = s.address, s.opsAddress, s.version
	since, spent := s.auth.TellUnreported()
	in.SpentSince, in.Spent = since, leasewire.SpentTo(spent)
	in.Place = s.place()
	sent := s.auth.Now()
	out, ev := s.sendHello(ctx, in)
	s.comeBack(ctx, in, out, ev)
	if _, opens := ev.(budget.HelloAnswered); opens {
		s.compare(out.GetEpoch(), out.GetLeaderClockMicros(), sent)
		s.auth.CountUnreported(0) // the session's reports will tell it
	}
	if out.GetBusy() {
		s.auth.CountUnreported(in.GetNonce())
		s.others.recordOthers(leasewire.HelloOthers(out))
	}
	if ev != nil || out.GetBusy() {
		s.setSecond(out.GetBusy())
		s.others.recordAnswer(out.GetBusy() && out.GetWait())
	}
	if ev == nil {
		return budget.CallFailed{Busy: out.GetBusy()}
	}
	return ev
}

// sendHello sends a Hello to a coordinator and takes its answer. out is nil if none answered, and ev is
// nil if the answer is useless. The caller holds helloMu.
func (s *Session) sendHello(ctx context.Context, in *aliquotv1.HelloRequest) (out *aliquotv1.HelloResponse, ev budget.RegionEvent) {
	out, err := s.peers.hello(ctx, in)
	if err != nil {
		return nil, nil // peers has reported the error
	}
	s.sharesStore(out.GetStoreSharedWith())
	if s.outOfDate(out) {
		s.peers.moveOn()
		return out, nil
	}
	if ev, err = s.welcome(out); err != nil {
		s.log.Error("the answer to a Hello was refused", "error", err)
		return out, nil
	}
	return out, ev
}

// outOfDate reports whether the answer is that of a deposed leader that does not know yet that it
// was deposed, and logs that. An answer with "busy" has no epoch. Where the coordinators were set back
// to older data, every answer is out of date.
func (s *Session) outOfDate(out *aliquotv1.HelloResponse) bool {
	known, config := s.policies.Load().Cluster, out.GetConfig()
	if known.ClusterID != config.GetClusterId() ||
		config.GetConfigVersion() >= known.Version && (out.GetBusy() || out.GetEpoch() >= known.LeaderEpoch) {
		return false
	}
	if s.older.Allow("", time.Now()) {
		s.log.Warn("a coordinator's answer to a Hello is older than what this region knows, and is refused",
			"epoch", out.GetEpoch(), "known_epoch", known.LeaderEpoch, "config", config.GetConfigVersion(), "known_config", known.Version,
			"what_to_do", "nothing, if this ends within seconds: that leader was deposed; if it goes on, the coordinators were given an older copy of their data: give them the latest")
	}
	return true
}

// sharesStore logs that another region uses this region's store, once for each such region.
func (s *Session) sharesStore(with string) {
	if with != "" && with != s.sharedWith {
		s.log.Error("another region uses this region's store: both take from the same records, so limits admit too little", "with", with,
			"what_to_do", "give each region a Redis of its own in --redis, or a database of its own: redis://HOST:PORT/1")
	}
	s.sharedWith = with
}

// setSecond records whether another daemon of the region is heard, and logs a change to true. The
// floor belongs to that daemon then.
func (s *Session) setSecond(second bool) {
	s.emergency.LeaveFloor(second)
	if !s.second.Swap(second) && second {
		s.log.Warn("another daemon of this region is heard; this one serves what the store lets it, nothing without its store, and takes over when that one falls silent")
	}
}

// welcome takes the configuration and the rules that came with the answer to a Hello, before the
// state machine gets it. The second daemon of a region gets them without a session.
func (s *Session) welcome(out *aliquotv1.HelloResponse) (budget.RegionEvent, error) {
	cluster, known := clusterIn(out.GetConfig()), s.policies.Load().Cluster
	cluster.LeaderEpoch = max(out.GetEpoch(), known.LeaderEpoch)
	if err := cluster.Check(s.region); err != nil {
		return nil, err
	}
	if known.ClusterID != "" && known.ClusterID != cluster.ClusterID {
		err := fmt.Errorf("these coordinators are of cluster %s, this region's state file %s is of cluster %s; "+
			"point --coordinators at the right cluster, or remove the state file to join the new one", cluster.ClusterID, s.file.Name(), known.ClusterID)
		if !s.opened {
			s.wrongCluster(err)
		}
		return nil, err
	}
	ok, err := leasewire.HelloAnswerFrom(cluster.Index(s.region), out)
	if err != nil {
		return nil, err
	}
	s.auth.Clock.SetRho(cluster.RhoPPM)
	s.auth.Configure(ok.Region, cluster.Protocol(), cluster.InitialEpoch)
	s.policies.SetCluster(cluster)
	s.takeRules(out.GetRules())
	if out.GetNoRules() {
		s.policies.SetNone()
	}
	s.opened = true
	// Save the state file before the session counts, so that no restart forgets the change. The
	// session may go on if only a new epoch could not be saved. A new floor must be saved: once this
	// region acknowledges it, the rest belongs to others, and they count on how long this region
	// waits for it.
	newEpoch, changed := s.policies.SetEpoch(ok.Epoch), s.file.Outdated(&cluster)
	if (newEpoch || changed) && !s.file.Save() && changed {
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
