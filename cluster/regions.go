package cluster

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// RegionChange is what an operator does to a region.
type RegionChange int

// The changes; see the methods of budget.Ledger.
const (
	AddRegion RegionChange = iota + 1
	UpdateRegion
	DrainRegion
	FenceRegion
)

func (c RegionChange) wire() raftlogv1.ChangeRegion_Change {
	switch c {
	case AddRegion:
		return raftlogv1.ChangeRegion_CHANGE_ADD
	case UpdateRegion:
		return raftlogv1.ChangeRegion_CHANGE_UPDATE
	case DrainRegion:
		return raftlogv1.ChangeRegion_CHANGE_DRAIN
	case FenceRegion:
		return raftlogv1.ChangeRegion_CHANGE_FENCE
	}
	return raftlogv1.ChangeRegion_CHANGE_UNSPECIFIED
}

// ChangeRegion commits a change of one region, on the leader. weight counts for
// AddRegion and UpdateRegion. The error is one of package budget if the ledger
// refuses it. What could never be accepted does not reach the log.
func (n *Node) ChangeRegion(ctx context.Context, change RegionChange, name string, weight int32, author string) error {
	if err := checkChange(change, name, weight); err != nil {
		return err
	}
	cmd := &raftlogv1.ChangeRegion{
		Name: name, Change: change.wire(), Weight: weight, Author: author, UnixMs: time.Now().UnixMilli(),
	}
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeRegion{ChangeRegion: cmd}})
	return err
}

func checkChange(change RegionChange, name string, weight int32) error {
	switch {
	case change == AddRegion && !regionName.MatchString(name):
		return checkRegionNames([]string{name})
	case !regionName.MatchString(name):
		return budget.ErrUnknownRegion
	case change == AddRegion || change == UpdateRegion:
		return budget.CheckWeight(weight)
	}
	return nil
}

// AdvanceFloors commits the next step of a change of floors or of timing; see
// budget.Ledger.AdvanceFloors.
func (n *Node) AdvanceFloors(ctx context.Context, version uint64, p budget.Progress) error {
	cmd := &raftlogv1.AdvanceFloors{ConfigVersion: version, Settled: p.Settled, LeasesOver: p.LeasesOver}
	for _, i := range p.Acknowledged {
		cmd.Acknowledged = append(cmd.Acknowledged, uint32(i))
	}
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_AdvanceFloors{AdvanceFloors: cmd}})
	return err
}

func (s *State) changeRegion(c *raftlogv1.ChangeRegion) error {
	if s.ClusterID == "" {
		return fmt.Errorf("%w: a region before the bootstrap", ErrInvalidArgument)
	}
	switch c.GetChange() {
	case raftlogv1.ChangeRegion_CHANGE_ADD:
		if err := s.checkNewRegion(c.GetName()); err != nil {
			return err
		}
		return s.Ledger.AddRegion(c.GetName(), c.GetWeight())
	case raftlogv1.ChangeRegion_CHANGE_UPDATE:
		return s.Ledger.UpdateRegion(c.GetName(), c.GetWeight())
	case raftlogv1.ChangeRegion_CHANGE_DRAIN:
		return s.Ledger.DrainRegion(c.GetName())
	case raftlogv1.ChangeRegion_CHANGE_FENCE:
		return s.Ledger.FenceRegion(c.GetName())
	}
	return fmt.Errorf("%w: a change of region %q that this version does not know", ErrInvalidArgument, c.GetName())
}

// checkNewRegion refuses a name that could not be declared at the bootstrap either.
func (s *State) checkNewRegion(name string) error {
	names := []string{name}
	for _, r := range s.Ledger.Config.Regions {
		if r.Name != name {
			names = append(names, r.Name)
		}
	}
	return checkRegionNames(names)
}

func (s *State) advanceFloors(a *raftlogv1.AdvanceFloors) error {
	acknowledged := make([]int, len(a.GetAcknowledged()))
	for i, region := range a.GetAcknowledged() {
		if region >= MaxRegions {
			return fmt.Errorf("%w: region index %d", budget.ErrUnknownRegion, region)
		}
		acknowledged[i] = int(region)
	}
	return s.Ledger.AdvanceFloors(a.GetConfigVersion(), budget.Progress{
		Acknowledged: acknowledged, Settled: a.GetSettled(), LeasesOver: a.GetLeasesOver(),
	})
}
