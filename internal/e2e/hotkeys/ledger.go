package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"aliquot/budget"
	"aliquot/cluster"
	"aliquot/cluster/state"
	"aliquot/internal/e2e"
)

// foundWithin bounds the time in which three coordinators found a cluster and commit its hot keys.
const foundWithin = 2 * time.Minute

// foundWithHotKeys founds the cluster, whose processes do not run yet, and makes so many keys of the hot rules hot
// in it: three coordinators in this process commit them, and leave their data directories to the real ones. Nobody
// uses such a key. Of each the regions take turns to have more than their floor.
func foundWithHotKeys(ctx context.Context, l *e2e.Cluster, keys int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, foundWithin)
	defer cancel()
	nodes := make([]*cluster.Node, 0, len(l.Coordinators))
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.Shutdown())
		}
	}()
	for _, c := range l.Coordinators {
		n, err := cluster.Start(ctx, nodeConfig(l, c))
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	leader, err := leaderOf(ctx, nodes)
	if err != nil {
		return err
	}
	epoch, err := leader.CreateEpoch(ctx)
	if err != nil {
		return err
	}
	plan, err := hotPlan(l, leader, keys)
	if err != nil {
		return err
	}
	plan.Epoch = epoch
	return leader.CommitPlan(ctx, plan)
}

// nodeConfig is how a coordinator's process configures its node.
func nodeConfig(l *e2e.Cluster, c *e2e.Coordinator) cluster.Config {
	config := cluster.DefaultConfig()
	config.NodeID, config.DataDir = c.Name, c.DataDir
	config.RaftListen, config.GossipListen, config.RPCAddress = c.Raft, c.Gossip, c.Address
	for _, other := range l.Coordinators {
		config.Join = append(config.Join, other.Gossip)
	}
	config.BootstrapExpect = len(l.Coordinators)
	config.Regions, config.RulesYAML = l.DeclaredNames(), l.Setup.Rules
	config.Logger = slog.New(slog.DiscardHandler)
	return config
}

// leaderOf waits until one of the nodes leads and has founded the cluster.
func leaderOf(ctx context.Context, nodes []*cluster.Node) (leader *cluster.Node, err error) {
	err = e2e.Until(ctx, foundWithin, "led", func() error {
		for _, n := range nodes {
			founded := false
			n.View(func(s *state.State) { founded = s.ClusterID != "" })
			if n.Leads() && founded {
				leader = n
				return nil
			}
		}
		return errors.New("no coordinator leads")
	})
	return leader, err
}

// hotPlan makes keys hot. One region has what the others have less than their floors, by a half.
func hotPlan(l *e2e.Cluster, leader *cluster.Node, keys int) (plan budget.Plan, err error) {
	leader.View(func(s *state.State) {
		regions := s.Ledger.Config.Regions
		for i := range keys {
			rule, known := s.Rules.Numbers[fmt.Sprintf("hot-%d", i%hotRules)]
			if !known {
				err = fmt.Errorf("rule hot-%d has no number", i%hotRules)
				return
			}
			e := budget.Entry{Key: budget.KeyID{Rule: rule}, Shares: make([]budget.Share, len(regions))}
			binary.BigEndian.PutUint64(e.Key.Hash[:], uint64(i+1))
			rest := budget.Share{Rate: budget.Unit, Burst: budget.Unit}
			for j, r := range regions {
				share := r.Floor
				if r.Name != l.Setup.Absent {
					share = budget.Share{Rate: r.Floor.Rate / 2, Burst: r.Floor.Burst / 2}
				}
				e.Shares[j] = share
				rest = budget.Share{Rate: rest.Rate - share.Rate, Burst: rest.Burst - share.Burst}
			}
			owner := s.Ledger.Config.Index(l.Setup.Regions[i%len(l.Setup.Regions)])
			e.Shares[owner].Rate += rest.Rate
			e.Shares[owner].Burst += rest.Burst
			plan.Changes = append(plan.Changes, e)
		}
	})
	return plan, err
}
