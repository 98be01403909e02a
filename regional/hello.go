package regional

import (
	"context"
	"errors"
	"fmt"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// helloed gives the machine what a Hello came to.
func (r *reporter) helloed(ev budget.RegionEvent) {
	switch e := ev.(type) {
	case budget.HelloAnswered:
		r.auth.adopt(e, e.OK.Region, e.Config)
	case budget.CallFailed:
		if e.Config != nil {
			r.auth.adopt(e, e.Self, *e.Config)
		} else {
			r.auth.post(e)
		}
	}
}

// hello opens a session; what it returns is for the machine.
func (r *reporter) hello(ctx context.Context, h budget.Hello) budget.RegionEvent {
	h.RulesVersion = r.policies.load().text.Version
	in := helloRequest(r.region, h)
	in.Address, in.DaemonVersion = r.address, r.version
	out, err := r.peers.hello(ctx, in, len(r.policies.load().cluster.Regions))
	if err != nil {
		return budget.CallFailed{}
	}
	if r.outOfDate(out) {
		r.peers.moveOn()
		return budget.CallFailed{Busy: out.GetBusy()}
	}
	ev, err := r.welcome(out)
	if err != nil {
		r.log.Error("the answer to a Hello was refused", "error", err)
		return budget.CallFailed{Busy: out.GetBusy()}
	}
	r.tellSecond(out.GetBusy())
	return ev
}

// tellSecond logs that the region has another daemon, once.
func (r *reporter) tellSecond(busy bool) {
	if busy && !r.second {
		r.log.Warn("another daemon of this region is heard; this one serves from the region's floor and takes over when that one falls silent")
	}
	r.second = busy
}

// welcome takes the configuration and the rules that came with the answer to a
// Hello, before the machine hears of it. The second daemon of a region gets them
// without a session.
func (r *reporter) welcome(out *aliquotv1.HelloResponse) (budget.RegionEvent, error) {
	cluster, known := clusterIn(out.GetConfig()), r.policies.load().cluster
	cluster.LeaderEpoch = max(out.GetEpoch(), known.LeaderEpoch)
	if err := cluster.check(r.region); err != nil {
		return nil, err
	}
	if known.ClusterID != "" && known.ClusterID != cluster.ClusterID {
		err := fmt.Errorf("these coordinators are of cluster %s, this region's state file is of cluster %s; "+
			"point --coordinators at the right cluster, or remove the state file to join the new one", cluster.ClusterID, known.ClusterID)
		if !r.opened {
			r.wrongCluster(err)
		}
		return nil, err
	}
	ok, err := helloIn(cluster.index(r.region), out)
	if err != nil {
		return nil, err
	}
	r.auth.clock.setRho(cluster.RhoPPM)
	r.auth.configure(ok.Region, cluster.protocol(), cluster.InitialEpoch)
	r.policies.setCluster(cluster)
	r.takeRules(out.GetRules())
	r.opened = true
	// On disk before the session counts, so that no restart forgets it. An epoch is
	// worth going on without; a floor, once acknowledged, belongs to others, and they
	// count on how long this region waits for it.
	newEpoch, changed := r.policies.setEpoch(ok.Epoch), r.keeper.outdated(&cluster)
	if (newEpoch || changed) && !r.keeper.save() && changed {
		return nil, errConfigNotKept
	}
	config := cluster.protocol()
	if out.GetBusy() {
		return budget.CallFailed{Busy: true, Config: &config, Self: ok.Region, InitialRedisEpoch: cluster.InitialEpoch}, nil
	}
	return budget.HelloAnswered{OK: ok, Config: config, InitialRedisEpoch: cluster.InitialEpoch}, nil
}

// errConfigNotKept: a restart would enforce a floor that this region has given up, or
// take one back too early.
var errConfigNotKept = errors.New("the region's floor or the lease has changed and the state file cannot be written; " +
	"no session is opened before it is, see to the disk or the file's permissions")
