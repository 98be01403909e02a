package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/internal/config"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// clusterService implements ClusterService: the coordinators themselves.
type clusterService struct {
	node    *cluster.Node
	forward *forwarder
	regions *regionService
	rules   *ruleService
	// timing has room for the one change of the timing that may be made at a time.
	timing cluster.Turns
}

// GetStatus returns this node's own view of the cluster.
func (s *clusterService) GetStatus(ctx context.Context, _ *aliquotv1.GetStatusRequest) (*aliquotv1.GetStatusResponse, error) {
	status := s.node.Status()
	res := &aliquotv1.GetStatusResponse{
		NodeId: status.NodeID, State: status.State, LeaderId: status.LeaderID,
		Term: status.Term, AppliedIndex: status.AppliedIndex, ClusterId: status.ClusterID,
		Members: membersToWire(status.Members), Version: config.Version(),
	}
	s.node.View(func(state *clusterstate.State) {
		res.RulesVersion = state.Rules.Version
		res.Epoch = state.Ledger.Epoch
		res.HotKeys = int64(state.Ledger.Len())
		res.Timing = timingToWire(&state.Ledger.Config)
	})
	res.Regions = s.regions.list(ctx, leaderQueryTimeout)
	return res, nil
}

func membersToWire(members []cluster.Member) []*aliquotv1.Member {
	out := make([]*aliquotv1.Member, len(members))
	for i, m := range members {
		out[i] = &aliquotv1.Member{
			NodeId: m.NodeID, RaftAddress: m.RaftAddress, Address: m.RPCAddress,
			Suffrage: m.Suffrage, Leader: m.Leader, Gossip: m.Gossip,
		}
	}
	return out
}

// Join makes a new coordinator a member. The leader does it.
func (s *clusterService) Join(ctx context.Context, req *aliquotv1.JoinRequest) (*aliquotv1.JoinResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	err := s.node.Join(ctx, req.GetNodeId(), req.GetInstanceId(), req.GetRaftAddress())
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		res, err := toLeader(ctx, s.forward, req, (*peer).Join)
		return res, toRPC(err)
	}
	if err != nil {
		return nil, toRPC(err)
	}
	return &aliquotv1.JoinResponse{ClusterId: s.node.Status().ClusterID}, nil
}

// RemoveMember removes a coordinator from the cluster. The leader does it.
func (s *clusterService) RemoveMember(ctx context.Context, req *aliquotv1.RemoveMemberRequest) (*aliquotv1.RemoveMemberResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	err := s.node.RemoveMember(ctx, req.GetNodeId())
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		res, err := toLeader(ctx, s.forward, req, (*peer).RemoveMember)
		if errors.Is(err, errNoLeader) {
			err = s.noMajority(err)
		}
		return res, toRPC(err)
	}
	if err != nil {
		return nil, toRPC(err)
	}
	return &aliquotv1.RemoveMemberResponse{Members: membersToWire(s.node.Status().Members)}, nil
}

// noMajority explains to a caller that removing lost voters is not the way to get a leader.
func (s *clusterService) noMajority(err error) error {
	var voters []string
	for _, m := range s.node.Status().Members {
		if m.Suffrage == "voter" {
			voters = append(voters, m.NodeID)
		}
	}
	return fmt.Errorf("no member can be removed without a leader: %w. If that lasts, a majority of the voters (%s) is not running: start them again with their data directories",
		err, strings.Join(voters, ", "))
}

// SetTiming changes the lease and the bound on clock rates. The leader does it.
func (s *clusterService) SetTiming(ctx context.Context, req *aliquotv1.SetTimingRequest) (*aliquotv1.SetTimingResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var before uint64
	s.node.View(func(state *clusterstate.State) { before = state.Ledger.Config.Version })
	res, err := s.setTiming(ctx, req)
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); notLeader {
		if res, err = toLeader(ctx, s.forward, req, (*peer).SetTiming); err == nil {
			awaitConfig(ctx, s.node, before)
		}
	}
	return res, toRPC(err)
}

// setTiming is SetTiming on the leader. What a request leaves out stays as it is. So no other change may come between
// the timing that is read here and the change that is made of it, and none may be committed that is not applied here.
func (s *clusterService) setTiming(ctx context.Context, req *aliquotv1.SetTimingRequest) (*aliquotv1.SetTimingResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	done, err := s.timing.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.node.Barrier(ctx); err != nil {
		return nil, err
	}
	lease, rhoPPM, err := s.requestedTiming(req)
	if err != nil {
		return nil, err
	}
	if err := s.node.SetTiming(ctx, lease, rhoPPM, ""); err != nil {
		return nil, err
	}
	var out *aliquotv1.Timing
	s.node.View(func(state *clusterstate.State) { out = timingToWire(&state.Ledger.Config) })
	return &aliquotv1.SetTimingResponse{Timing: out}, nil
}

// requestedTiming returns the timing of a request, completed with the timing in force.
func (s *clusterService) requestedTiming(req *aliquotv1.SetTimingRequest) (lease time.Duration, rhoPPM int32, err error) {
	s.node.View(func(state *clusterstate.State) {
		c := &state.Ledger.Config
		lease, rhoPPM = c.NextLease(), c.RhoPPM
	})
	if req.Lease != nil {
		if err := req.GetLease().CheckValid(); err != nil {
			return 0, 0, invalid("lease: %v", err)
		}
		lease = req.GetLease().AsDuration()
	}
	if req.Rho != nil {
		ppm := math.Round(req.GetRho() * million)
		if !(ppm >= budget.MinRhoPPM && ppm <= budget.MaxRhoPPM) {
			return 0, 0, budget.ErrBadTiming
		}
		rhoPPM = int32(ppm)
	}
	return lease, rhoPPM, nil
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
