package cluster

import (
	"context"
	"time"

	raftlogv1 "aliquot/proto/raftlog/v1"
)

// RulesChange is a whole rules file that is to come into force.
type RulesChange struct {
	YAML string
	// FileName names it in positions.
	FileName string
	// Expected is the version it was made against; nil: whichever is in force.
	Expected *uint64
	Author   string
	Comment  string
	// RollbackTo is the version whose text this is again; 0: none.
	RollbackTo uint64
	// AllowDenyAll: a rule that denies every request is wanted. The state machine does not look.
	AllowDenyAll bool
}

func (c *RulesChange) command() *raftlogv1.ApplyRules {
	apply := &raftlogv1.ApplyRules{
		Yaml: c.YAML, FileName: c.FileName, Author: c.Author, Comment: c.Comment,
		RollbackTo: c.RollbackTo, UnixMs: time.Now().UnixMilli(),
	}
	if c.Expected != nil {
		apply.HasExpected, apply.ExpectedVersion = true, *c.Expected
	}
	return apply
}

// ApplyRules brings rules into force everywhere and returns their version. Rules that
// do not parse are a *rules.Error, another version in force than the expected one is
// an ErrVersionConflict, a roll-out under way is ErrRolloutUnderWay.
func (n *Node) ApplyRules(ctx context.Context, c RulesChange) (version uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ApplyRules{ApplyRules: c.command()}})
}

// Stage says where rules are to come into force first, and when everywhere.
type Stage struct {
	Regions []string
	// PromoteAfter is in whole milliseconds; 0: only EndRollout promotes.
	PromoteAfter time.Duration
	// HaltAbovePPM and Before are kept for whoever watches; see Rollout.
	HaltAbovePPM uint32
	Before       []Decisions
}

// StageRules brings rules into force in some regions. It errs as ApplyRules does, with
// ErrNothingInForce before the first rules, with ErrNotStageable for rules under which a
// rule in force would hold two limits or none, and with ErrInvalidArgument for regions that
// are not declared, or all of them.
func (n *Node) StageRules(ctx context.Context, c RulesChange, s Stage) (version uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_StageRules{StageRules: &raftlogv1.StageRules{
		Rules: c.command(), Regions: s.Regions, PromoteAfterMs: s.PromoteAfter.Milliseconds(),
		HaltAbovePpm: s.HaltAbovePPM, Before: encodeDecisions(s.Before),
	}}})
}

// EndRollout ends the staged roll-out of a version as state says, for a reason, and
// returns the version that is in force everywhere then. ErrNoRollout: it is not under
// way any more.
func (n *Node) EndRollout(ctx context.Context, version uint64, state, reason, author string) (inForce uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_EndRollout{EndRollout: &raftlogv1.EndRollout{
		Version: version, Outcome: stateOutcome(state), Reason: reason, Author: author, UnixMs: time.Now().UnixMilli(),
	}}})
}

func (n *Node) proposeVersion(ctx context.Context, cmd *raftlogv1.Command) (uint64, error) {
	answer, err := n.Propose(ctx, cmd)
	if err != nil {
		return 0, err
	}
	return answer.(uint64), nil
}
