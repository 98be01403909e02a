package cluster

import (
	"context"
	"fmt"
	"time"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// SetTiming commits a change of the lease and of the bound on clock rates, on the
// leader; see budget.Ledger.SetTiming. The error is budget.ErrBadTiming if the ledger
// refuses it.
func (n *Node) SetTiming(ctx context.Context, lease time.Duration, rhoPPM int32, author string) error {
	cmd := &raftlogv1.SetTiming{
		LeaseMicros: lease.Microseconds(), RhoPpm: rhoPPM, Author: author, UnixMs: time.Now().UnixMilli(),
	}
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_SetTiming{SetTiming: cmd}})
	return err
}

func (s *State) setTiming(c *raftlogv1.SetTiming) error {
	if s.ClusterID == "" {
		return fmt.Errorf("%w: a timing before the bootstrap", ErrInvalidArgument)
	}
	if most := budget.MaxLease.Microseconds(); c.GetLeaseMicros() < 0 || c.GetLeaseMicros() > most {
		return budget.ErrBadTiming
	}
	return s.Ledger.SetTiming(time.Duration(c.GetLeaseMicros())*time.Microsecond, c.GetRhoPpm())
}
