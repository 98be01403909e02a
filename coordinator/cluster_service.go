package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	res.Regions = s.regions.list(ctx)
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
	return fmt.Errorf("nobody can be removed without a leader: %w. If that lasts, a majority of the voters (%s) is not running: start them again with their data directories, which are the truth",
		err, strings.Join(voters, ", "))
}
