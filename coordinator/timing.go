package coordinator

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// SetTiming changes the lease and the bound on clock rates. The leader does it.
func (s *clusterService) SetTiming(ctx context.Context, req *aliquotv1.SetTimingRequest) (*aliquotv1.SetTimingResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	lease, rhoPPM, version, err := s.requestedTiming(req)
	if err != nil {
		return nil, toRPC(err)
	}
	err = s.node.SetTiming(ctx, lease, rhoPPM, "")
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		var res *aliquotv1.SetTimingResponse
		if res, err = toLeader(ctx, s.forward, req, (*peer).SetTiming); err == nil {
			awaitConfig(ctx, s.node, version)
			return res, nil
		}
	}
	if err != nil {
		return nil, toRPC(err)
	}
	var out *aliquotv1.Timing
	s.node.View(func(state *clusterstate.State) { out = timingToWire(&state.Ledger.Config) })
	return &aliquotv1.SetTimingResponse{Timing: out}, nil
}

// requestedTiming returns the timing of a request, completed with the timing in force, and the version
// of the configuration that this was read from.
func (s *clusterService) requestedTiming(req *aliquotv1.SetTimingRequest) (lease time.Duration, rhoPPM int32, version uint64, err error) {
	s.node.View(func(state *clusterstate.State) {
		c := &state.Ledger.Config
		lease, rhoPPM, version = c.NextLease(), c.RhoPPM, c.Version
	})
	if req.Lease != nil {
		if err := req.GetLease().CheckValid(); err != nil {
			return 0, 0, 0, invalid("lease: %v", err)
		}
		lease = req.GetLease().AsDuration()
	}
	if req.Rho != nil {
		ppm := math.Round(req.GetRho() * million)
		if !(ppm >= budget.MinRhoPPM && ppm <= budget.MaxRhoPPM) {
			return 0, 0, 0, budget.ErrBadTiming
		}
		rhoPPM = int32(ppm)
	}
	return lease, rhoPPM, version, nil
}

const million = 1_000_000

// timingToWire returns the timing with the change of it that is under way.
func timingToWire(c *budget.Config) *aliquotv1.Timing {
	out := &aliquotv1.Timing{
		Lease: durationpb.New(c.Lease), Rho: float64(c.RhoPPM) / million, RhoRising: c.RhoRising,
	}
	if c.LeaseNext != 0 {
		out.LeaseNext, out.LeaseWait = durationpb.New(c.LeaseNext), durationpb.New(c.LeaseWait)
	}
	return out
}
