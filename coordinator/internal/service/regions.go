package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/daemons"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// leaderQueryTimeout bounds how long a node waits for what only the leader knows. changeQueryTimeout is the same for a
// change of the regions. It ends the leader's epoch, and the next one needs two commits before it can tell anything.
const leaderQueryTimeout, changeQueryTimeout = 300 * time.Millisecond, 3 * time.Second

// States of a region and of its part in a budget.
const (
	stateCold   = "cold"
	StateLive   = "live"
	stateLent   = "lent"
	StateSilent = "silent"
	// stateNoSession means that the leader hears a daemon of the region, which has no session that it has
	// acknowledged: its store does not answer, or the session is being opened.
	stateNoSession = "no_session"
	stateUnknown   = "unknown"
	// stateIndependent means that the rule is not coordinated.
	stateIndependent = "independent"
)

// regionService implements RegionService: the declared regions.
type regionService struct {
	node       *cluster.Node
	leadership *leader.Leadership
	forward    *forwarder
	daemons    *daemons.Seen
}

// ListRegions answers from the applied state. It adds what the leader knows of each region's daemon if
// the leader answers in time.
func (s *regionService) ListRegions(ctx context.Context, _ *aliquotv1.ListRegionsRequest) (*aliquotv1.ListRegionsResponse, error) {
	return &aliquotv1.ListRegionsResponse{Regions: s.list(ctx, leaderQueryTimeout)}, nil
}

// list returns the regions, with what the leader knows of them if it answers within a time.
func (s *regionService) list(ctx context.Context, within time.Duration) []*aliquotv1.Region {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	regions := s.declared()
	if known, leads := s.leadership.RegionStatus(ctx, len(regions)); leads {
		lease, sharers := sharing(s.node)
		now := time.Now()
		for i, status := range known {
			describe(regions[i], status, s.daemons.Heard(regions[i].GetName(), now, lease))
			s.daemons.Describe(regions[i], status.Live)
			regions[i].StoreSharedWith = s.daemons.SharedWith(regions[i].GetName(), sharers, now, sharedFor*lease)
		}
		return regions
	}
	res, err := toLeader(ctx, s.forward, &aliquotv1.ListRegionsRequest{}, (*peer).ListRegions)
	if err != nil {
		return regions
	}
	known := map[string]*aliquotv1.Region{}
	for _, r := range res.GetRegions() {
		known[r.GetName()] = r
	}
	for _, r := range regions {
		if k := known[r.GetName()]; k != nil {
			r.State, r.LeaseRemaining, r.RulesVersion = k.GetState(), k.GetLeaseRemaining(), k.GetRulesVersion()
			r.Address, r.OpsAddress, r.DaemonVersion = k.GetAddress(), k.GetOpsAddress(), k.GetDaemonVersion()
			r.StoreSharedWith, r.Storeless = k.GetStoreSharedWith(), k.GetStoreless()
		}
	}
	return regions
}

// sharedFor is how many leases after its last word a region counts as one that shares a store.
const sharedFor = 3

// sharing returns the lease in force and the regions that can share a store.
func sharing(node *cluster.Node) (lease time.Duration, sharers []string) {
	node.View(func(state *clusterstate.State) {
		lease, sharers = state.Ledger.Config.Lease, takingPart(&state.Ledger.Config)
	})
	return lease, sharers
}

// takingPart returns the names of the regions that take from a store, in order: all but those that are fenced or drained.
func takingPart(c *budget.Config) (names []string) {
	for i := range c.Regions {
		if r := &c.Regions[i]; !r.Fenced && (r.Takes() || !r.Gone()) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// declared returns what is replicated of the regions.
func (s *regionService) declared() []*aliquotv1.Region {
	var out []*aliquotv1.Region
	s.node.View(func(state *clusterstate.State) {
		targets := state.Ledger.Config.Targets()
		for i, r := range state.Ledger.Config.Regions {
			out = append(out, &aliquotv1.Region{
				Name: r.Name, Floor: leader.Fraction(r.Told.Rate), FloorBound: leader.Fraction(r.Floor.Rate),
				TargetFloor: leader.Fraction(targets[i].Rate), Weight: r.Weight, Status: statusOf(&state.Ledger, i),
				State: stateUnknown, LeaseRemaining: durationpb.New(0),
			})
		}
	})
	return out
}

// describe adds the leader's status to a region. heard says that a daemon of it has said Hello within a lease. A session
// without a lease is being opened; one with a lease that is not live has fallen silent, and ends with the lease.
func describe(r *aliquotv1.Region, status budget.RegionStatus, heard bool) {
	switch {
	case status.Live:
		r.State = StateLive
	case status.Session != 0 && status.LeaseRemaining == 0, heard && r.GetStatus() != statusFenced:
		r.State = stateNoSession
	default:
		r.State = StateSilent
	}
	r.LeaseRemaining, r.RulesVersion = durationpb.New(status.LeaseRemaining), status.RulesVersion
}

// Statuses of a region: how far it takes part.
const (
	statusActive   = "active"
	statusJoining  = "joining"
	statusDraining = "draining"
	statusDrained  = "drained"
	statusFenced   = "fenced"
)

// statusOf returns the status of the region with index i.
func statusOf(l *budget.Ledger, i int) string {
	r := &l.Config.Regions[i]
	switch {
	case r.Fenced:
		return statusFenced
	case r.Takes() && (!r.Joined || r.Told == budget.Share{}):
		return statusJoining
	case r.Takes():
		return statusActive
	case r.Floor != budget.Share{} || l.Holds(i):
		return statusDraining
	}
	return statusDrained
}

// AddRegion declares a region, or takes back one that was drained or fenced.
func (s *regionService) AddRegion(ctx context.Context, req *aliquotv1.AddRegionRequest) (*aliquotv1.AddRegionResponse, error) {
	weight := req.GetWeight()
	if weight == 0 {
		weight = 1
	}
	region, err := s.change(ctx, clusterstate.AddRegion, req.GetName(), weight, func(ctx context.Context) (*aliquotv1.Region, error) {
		res, err := toLeader(ctx, s.forward, req, (*peer).AddRegion)
		return res.GetRegion(), err
	})
	return &aliquotv1.AddRegionResponse{Region: region}, err
}

// UpdateRegion changes a region's weight.
func (s *regionService) UpdateRegion(ctx context.Context, req *aliquotv1.UpdateRegionRequest) (*aliquotv1.UpdateRegionResponse, error) {
	region, err := s.change(ctx, clusterstate.UpdateRegion, req.GetName(), req.GetWeight(), func(ctx context.Context) (*aliquotv1.Region, error) {
		res, err := toLeader(ctx, s.forward, req, (*peer).UpdateRegion)
		return res.GetRegion(), err
	})
	return &aliquotv1.UpdateRegionResponse{Region: region}, err
}

// DrainRegion takes away a region's floor and shares.
func (s *regionService) DrainRegion(ctx context.Context, req *aliquotv1.DrainRegionRequest) (*aliquotv1.DrainRegionResponse, error) {
	region, err := s.change(ctx, clusterstate.DrainRegion, req.GetName(), 0, func(ctx context.Context) (*aliquotv1.Region, error) {
		res, err := toLeader(ctx, s.forward, req, (*peer).DrainRegion)
		return res.GetRegion(), err
	})
	return &aliquotv1.DrainRegionResponse{Region: region}, err
}

// FenceRegion gives the others what a dead region held.
func (s *regionService) FenceRegion(ctx context.Context, req *aliquotv1.FenceRegionRequest) (*aliquotv1.FenceRegionResponse, error) {
	region, err := s.change(ctx, clusterstate.FenceRegion, req.GetName(), 0, func(ctx context.Context) (*aliquotv1.Region, error) {
		res, err := toLeader(ctx, s.forward, req, (*peer).FenceRegion)
		return res.GetRegion(), err
	})
	return &aliquotv1.FenceRegionResponse{Region: region}, err
}

// change makes a change here if this node leads, else lets the leader make it. It returns the region as
// it is afterwards.
func (s *regionService) change(ctx context.Context, change clusterstate.RegionChange, name string, weight int32,
	atLeader func(context.Context) (*aliquotv1.Region, error),
) (*aliquotv1.Region, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var before uint64
	s.node.View(func(state *clusterstate.State) { before = state.Ledger.Config.Version })
	err := s.node.ChangeRegion(ctx, change, name, weight, "")
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		var region *aliquotv1.Region
		if region, err = atLeader(ctx); err == nil {
			awaitConfig(ctx, s.node, before)
			return region, nil
		}
	}
	if err != nil {
		return nil, toRPC(s.explain(err, name))
	}
	for _, r := range s.list(ctx, changeQueryTimeout) {
		if r.GetName() == name {
			return r, nil
		}
	}
	return &aliquotv1.Region{Name: name}, nil // not reached: a changed region is listed
}

// explain adds the declared regions to an error about an unknown one.
func (s *regionService) explain(err error, name string) error {
	switch {
	case errors.Is(err, budget.ErrUnknownRegion):
		var names []string
		s.node.View(func(state *clusterstate.State) { names = regionNames(&state.Ledger.Config) })
		return fmt.Errorf("%w: %q; declared are %q", err, shorten(name), names)
	case errors.Is(err, budget.ErrRegionExists):
		return fmt.Errorf("%w: %q; change its weight with `aliquot region weight` (UpdateRegion)", err, name)
	}
	return err
}
