package coordinator

import (
	"context"
	"time"

	clusterstate "aliquot/cluster/state"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// askLeader bounds how long a follower waits for the leader's soft state before it answers without it.
const askLeader = 300 * time.Millisecond

// States of a region and of its part in a budget.
const (
	stateCold    = "cold"
	stateLive    = "live"
	stateLent    = "lent"
	stateSilent  = "silent"
	stateUnknown = "unknown"
	// stateIndependent means that the rule is not coordinated.
	stateIndependent = "independent"
)

// regionService implements RegionService: the declared regions.
type regionService struct {
	node       *cluster.Node
	leadership *leader.Leadership
	forward    *forwarder
}

// ListRegions answers from the applied state. It adds what the leader knows of each region's daemon if
// the leader answers in time.
func (s *regionService) ListRegions(ctx context.Context, _ *aliquotv1.ListRegionsRequest) (*aliquotv1.ListRegionsResponse, error) {
	return &aliquotv1.ListRegionsResponse{Regions: s.list(ctx)}, nil
}

// list returns the regions with what the leader knows of them.
func (s *regionService) list(ctx context.Context) []*aliquotv1.Region {
	ctx, cancel := context.WithTimeout(ctx, askLeader)
	defer cancel()
	regions := s.declared()
	if loop := s.leadership.Current(); loop != nil {
		if known, err := loop.RegionStatus(ctx, len(regions)); err == nil {
			for i, status := range known {
				describe(regions[i], status)
			}
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
		}
	}
	return regions
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

// describe adds the leader's status to a region.
func describe(r *aliquotv1.Region, status budget.RegionStatus) {
	r.State = stateSilent
	if status.Live {
		r.State = stateLive
	}
	r.LeaseRemaining, r.RulesVersion = durationpb.New(status.LeaseRemaining), status.RulesVersion
}
