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
	// Expected is the version that the change was made against; nil: any.
	Expected *uint64
	Author   string
	Comment  string
	// RollbackTo is the version whose text this is; 0: none.
	RollbackTo uint64
	// AllowDenyAll: a rule that denies every request is intended. The state machine ignores this.
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

// ApplyRules brings rules into force everywhere and returns their version. Errors: a *rules.Error for rules that do
// not parse, a state.ErrVersionConflict if another version than the expected one is in force,
// state.ErrRolloutUnderWay.
func (n *Node) ApplyRules(ctx context.Context, c RulesChange) (version uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ApplyRules{ApplyRules: c.command()}})
}

// Stage says in which regions rules come into force first, and when they come into force everywhere.
type Stage struct {
	Regions []string
	// PromoteAfter is rounded down to milliseconds; 0: only EndRollout promotes.
	PromoteAfter time.Duration
	// HaltAbovePPM and Before are stored for the leader that watches the roll-out; see state.Rollout.
	HaltAbovePPM uint32
	Before       []state.Decisions
}

// StageRules brings rules into force in some regions. Errors are those of ApplyRules, and state.ErrNothingInForce
// before the first rules, state.ErrNotStageable for rules under which a rule would have two limits or none, and
// state.ErrInvalidArgument for regions that are not declared, or for all regions.
func (n *Node) StageRules(ctx context.Context, c RulesChange, s Stage) (version uint64, err error) {
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_StageRules{StageRules: &raftlogv1.StageRules{
		Rules: c.command(), Regions: s.Regions, PromoteAfterMs: s.PromoteAfter.Milliseconds(),
		HaltAbovePpm: s.HaltAbovePPM, Before: state.EncodeDecisions(s.Before),
	}}})
}

// EndRollout ends the roll-out of a version. outcome is one of state.RolloutStates, reason is for people. It
// returns the version that is in force everywhere then. The error is state.ErrNoRollout if the roll-out is not
// under way (any more).
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

// ParseRules parses a rules file and returns its rules, without tier values, and its warnings. The error is a
// *rules.Error. A file that is applied next is not parsed a second time.
func (n *Node) ParseRules(file, yaml string) (*rules.Set, []rules.Warning, error) {
	return n.fsm.ParseRules(file, yaml)
}

// Stageable returns state.ErrNotStageable, with the reasons, if rules cannot be in force in some regions while the
// present ones are in force in the others. The state machine refuses such rules, too; checking first keeps them out
// of the log.
func (n *Node) Stageable(set *rules.Set) error {
	var book state.RuleBook
	n.View(func(s *state.State) { book = s.Rules })
	return book.Stageable(set)
}

// EntriesChange sets entries and removes others, all in one step.
type EntriesChange struct {
	// Put replaces entries of the same ids. A block and an allow of one pattern replace each other.
	Put []rules.Entry
	// Remove has the ids of entries; an id without a kind means the block and the allow of a pattern.
	Remove []rules.EntryID
	// Replace removes every entry that is not in Put.
	Replace bool
	// WithoutEffect permits entries that have no effect under the rules.
	WithoutEffect bool
	// Expected is the version of the rules that the change was made against; nil: any.
	Expected *uint64
	// Author is that of entries that name none, too.
	Author  string
	Comment string
}

// ChangeEntries changes entries and returns the version of the rules that has them. A change without a difference
// returns the version in force. Errors wrap rules.ErrNotThere, rules.ErrBadEdit, state.ErrNothingInForce or
// state.ErrInvalidArgument, or are a state.ErrVersionConflict.
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

// EndEntries removes the entries whose end is at unixMS or before, in Unix milliseconds.
func (n *Node) EndEntries(ctx context.Context, unixMS int64) error {
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_EndEntries{EndEntries: &raftlogv1.EndEntries{UnixMs: unixMS}}})
	return err
}

// ChangeRegion commits a change of one region, on the leader. weight matters for state.AddRegion and
// state.UpdateRegion. The error is one of package budget if the ledger refuses the change. Changes that could never
// be accepted do not reach the log.
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

// KeepPlace keeps the place of a region's daemon that has stopped, under a token that is not 0.
func (n *Node) KeepPlace(ctx context.Context, region string, token uint64) error {
	return n.changePlace(ctx, &raftlogv1.ChangePlace{Region: region, Token: token})
}

// ClaimPlace applies the Hello of an incarnation to a region's place. token is the one that the Hello names; 0: none.
func (n *Node) ClaimPlace(ctx context.Context, region string, token, incarnation uint64) error {
	return n.changePlace(ctx, &raftlogv1.ChangePlace{Region: region, Token: token, HelloOf: incarnation})
}

func (n *Node) changePlace(ctx context.Context, c *raftlogv1.ChangePlace) error {
	_, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ChangePlace{ChangePlace: c}})
	return err
}

// CreateEpoch begins this leader's epoch of the budgets and returns it. Errors are those of Propose.
func (n *Node) CreateEpoch(ctx context.Context) (uint64, error) {
	cmd := &raftlogv1.MintEpoch{NodeId: n.cfg.NodeID, UnixMs: time.Now().UnixMilli()}
	answer, err := n.Propose(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_MintEpoch{MintEpoch: cmd}})
	if err != nil {
		return 0, err
	}
	return answer.(uint64), nil
}

// CommitPlan commits a plan. A plan above 256 KiB becomes several log entries: keys are independent, so any prefix
// of a legal plan is legal. After an error a part of the plan may be in force; the ledger shows which.
func (n *Node) CommitPlan(ctx context.Context, plan budget.Plan) error {
	for _, part := range state.SplitPlan(plan) {
		kind := &raftlogv1.Command_CommitPlan{CommitPlan: state.EncodePlan(part)}
		if _, err := n.Propose(ctx, &raftlogv1.Command{Kind: kind}); err != nil {
			return err
		}
	}
	return nil
}
