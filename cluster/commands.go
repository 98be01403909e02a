package cluster

import (
	"context"
	"time"

	"aliquot/budget"
	"aliquot/cluster/state"
	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
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
	Before       []state.Decisions
}

// StageRules brings rules into force in some regions. It errs as ApplyRules does, with
// ErrNothingInForce before the first rules, with ErrNotStageable for rules under which a
// rule in force would hold two limits or none, and with ErrInvalidArgument for regions that
// are not declared, or all of them.
func (n *Node) StageRules(ctx context.Context, c RulesChange, s Stage) (version uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_StageRules{StageRules: &raftlogv1.StageRules{
		Rules: c.command(), Regions: s.Regions, PromoteAfterMs: s.PromoteAfter.Milliseconds(),
		HaltAbovePpm: s.HaltAbovePPM, Before: state.EncodeDecisions(s.Before),
	}}})
}

// EndRollout ends the staged roll-out of a version with an outcome, which is one of state.RolloutStates, for a reason, and
// returns the version that is in force everywhere then. ErrNoRollout: it is not under
// way any more.
func (n *Node) EndRollout(ctx context.Context, version uint64, outcome, reason, author string) (inForce uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_EndRollout{EndRollout: &raftlogv1.EndRollout{
		Version: version, Outcome: state.EncodeOutcome(outcome), Reason: reason, Author: author, UnixMs: time.Now().UnixMilli(),
	}}})
}

func (n *Node) proposeVersion(ctx context.Context, cmd *raftlogv1.Command) (uint64, error) {
	answer, err := n.Propose(ctx, cmd)
	if err != nil {
		return 0, err
	}
	return answer.(uint64), nil
}

// ParseRules parses a rules file and returns what it states, without tier values, and its
// warnings, or a *rules.Error. What is applied next is not parsed again.
func (n *Node) ParseRules(file, yaml string) (*rules.Set, []rules.Warning, error) {
	return n.fsm.ParseRules(file, yaml)
}

// Stageable returns ErrNotStageable, with the reasons, if rules cannot be in force in some
// regions while those in force here are in the others. The state machine refuses them too;
// asking first keeps them out of the log.
func (n *Node) Stageable(set *rules.Set) error {
	var book state.RuleBook
	n.View(func(s *state.State) { book = s.Rules })
	return book.Stageable(set)
}

// EntriesChange puts entries above the file and takes others away, all at once.
type EntriesChange struct {
	// Put replaces entries of the same ids; a block and an allow of one pattern replace each
	// other.
	Put []rules.Entry
	// Remove names entries; one without a kind names the block and the allow of a pattern.
	Remove []rules.EntryID
	// Replace takes away every entry that is not put.
	Replace bool
	// WithoutEffect lets entries be put that are without effect under the rules.
	WithoutEffect bool
	// Expected is the version of the rules that it was made against; nil: any.
	Expected *uint64
	// Author is that of entries that name none, too.
	Author  string
	Comment string
}

// ChangeEntries makes a change of entries and returns the version of the rules that has it. A
// change that changes nothing returns the version in force. Errors wrap rules.ErrNotThere,
// rules.ErrBadEdit, ErrNothingInForce or ErrInvalidArgument, or are an ErrVersionConflict.
func (n *Node) ChangeEntries(ctx context.Context, c EntriesChange) (version uint64, err error) {
	m := &raftlogv1.ChangeEntries{
		Replace: c.Replace, WithoutEffect: c.WithoutEffect, Author: c.Author, Comment: c.Comment, UnixMs: time.Now().UnixMilli(),
	}
	for _, e := range c.Put {
		m.Put = append(m.Put, state.EncodeEntry(state.Entry{Entry: e}))
	}
	for _, id := range c.Remove {
		m.Remove = append(m.Remove, &raftlogv1.Entry{Kind: string(id.Kind), RuleId: id.Rule, Name: id.Name})
	}
	if c.Expected != nil {
		m.HasExpected, m.ExpectedVersion = true, *c.Expected
	}
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeEntries{ChangeEntries: m}})
}

// EndEntries takes away the entries whose time is over at unixMS, Unix milliseconds.
func (n *Node) EndEntries(ctx context.Context, unixMS int64) error {
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_EndEntries{EndEntries: &raftlogv1.EndEntries{UnixMs: unixMS}}})
	return err
}

// ChangeRegion commits a change of one region, on the leader. weight counts for
// AddRegion and UpdateRegion. The error is one of package budget if the ledger
// refuses it. What could never be accepted does not reach the log.
func (n *Node) ChangeRegion(ctx context.Context, change state.RegionChange, name string, weight int32, author string) error {
	if err := change.Check(name, weight); err != nil {
		return err
	}
	cmd := &raftlogv1.ChangeRegion{
		Name: name, Change: change.Encode(), Weight: weight, Author: author, UnixMs: time.Now().UnixMilli(),
	}
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeRegion{ChangeRegion: cmd}})
	return err
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

// MintEpoch starts this leader's term over the budgets and returns its epoch.
func (n *Node) MintEpoch(ctx context.Context) (uint64, error) {
	mint := &raftlogv1.MintEpoch{NodeId: n.cfg.NodeID, UnixMs: time.Now().UnixMilli()}
	answer, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_MintEpoch{MintEpoch: mint}})
	if err != nil {
		return 0, err
	}
	return answer.(uint64), nil
}

// CommitPlan commits one tick's changes. A plan above 256 KiB goes as several
// entries: each key stands for itself, so any prefix of a plan is as legal as the
// whole. After an error some of it may be in force; the ledger says what is.
func (n *Node) CommitPlan(ctx context.Context, plan budget.Plan) error {
	for _, part := range state.SplitPlan(plan) {
		kind := &raftlogv1.Command_CommitPlan{CommitPlan: state.EncodePlan(part)}
		if _, err := n.Propose(ctx, &raftlogv1.Command{Kind: kind}); err != nil {
			return err
		}
	}
	return nil
}
