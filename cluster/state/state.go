// Package state is what the coordinators replicate: the budget ledger, the rules and the addresses, the commands that
// change them, and the bytes of commands and snapshots. It has no clock, no I/O and no goroutine: the same state and
// command give the same state and answer on every node, now and on replay.
//
// Machine is the state machine that a log drives, State what a reader of it gets, and Encode and Decode functions are
// the codec of package raftlogv1.
package state

import (
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// firstRuleNumber leaves 0 free to mean "no rule".
const firstRuleNumber = 1

// State is everything that the coordinators replicate. A reader gets it inside Node.View; it must not change the
// state, and must keep only copies of its parts. Rules.Set and strings are immutable and may be kept. The zero
// value is an empty cluster.
type State struct {
	// AppliedIndex is the index, in Raft's log, of the last command that changed the state.
	AppliedIndex uint64
	// ClusterID is created by the bootstrap; it is empty before.
	ClusterID string
	// HashSecret is created by the bootstrap and is never logged.
	HashSecret Secret
	// Ledger holds the declared regions and the liabilities of hot keys.
	Ledger budget.Ledger
	// Rules are the rules in force, a staged version if there is one, and earlier versions.
	Rules RuleBook
	// Addresses are the addresses at which the coordinators serve RPC, sorted by server; immutable.
	Addresses []ServerAddress
	// Places are kept for regional daemons that have stopped, sorted by region; immutable.
	Places []RegionPlace
}

// apply executes one command. The same state and command give the same state and answer on every node, now and on
// replay. The answer goes to the proposer. If it is an error, nothing has changed.
func (s *State) apply(cmd *raftlogv1.Command, parser *ruleParser) (answer any, changed bool) {
	var err error
	switch kind := cmd.GetKind().(type) {
	case *raftlogv1.Command_Bootstrap:
		changed, err = s.bootstrap(kind.Bootstrap, parser)
	case *raftlogv1.Command_ApplyRules:
		answer, err = s.applyRules(kind.ApplyRules, parser)
		changed = err == nil
	case *raftlogv1.Command_StageRules:
		answer, err = s.stageRules(kind.StageRules, parser)
		changed = err == nil
	case *raftlogv1.Command_EndRollout:
		answer, err = s.endRollout(kind.EndRollout, cmd.GetFormat())
		changed = err == nil
	case *raftlogv1.Command_ChangeEntries:
		answer, changed, err = s.changeEntries(kind.ChangeEntries)
	case *raftlogv1.Command_EndEntries:
		answer, changed, err = s.endEntries(kind.EndEntries)
	case *raftlogv1.Command_ChangeTier:
		answer, changed, err = s.changeTier(kind.ChangeTier)
	case *raftlogv1.Command_MintEpoch:
		answer, changed = s.Ledger.MintEpoch(), true
	case *raftlogv1.Command_CommitPlan:
		err = s.commitPlan(kind.CommitPlan)
		changed = err == nil
	case *raftlogv1.Command_ChangeRegion:
		err = s.changeRegion(kind.ChangeRegion)
		changed = err == nil
	case *raftlogv1.Command_SetTiming:
		err = s.setTiming(kind.SetTiming)
		changed = err == nil
	case *raftlogv1.Command_AdvanceFloors:
		err = s.advanceFloors(kind.AdvanceFloors)
		changed = err == nil
	case *raftlogv1.Command_SetAddresses:
		changed, err = s.setAddresses(kind.SetAddresses)
	case *raftlogv1.Command_ChangePlace:
		changed, err = s.changePlace(kind.ChangePlace)
	case *raftlogv1.Command_Noop:
	default:
		panic(fmt.Sprintf("cluster: command %T passed the decoder but has no meaning here", kind))
	}
	if err != nil {
		return err, false
	}
	return answer, changed
}

// bootstrap gives an empty cluster its identity. A second bootstrap changes nothing: two successive leaders may
// both find the cluster empty.
func (s *State) bootstrap(b *raftlogv1.Bootstrap, parser *ruleParser) (changed bool, err error) {
	if s.ClusterID != "" {
		return false, nil
	}
	secret, ok := newSecret(b.GetHashSecret())
	if !ok || b.GetClusterId() == "" {
		return false, fmt.Errorf("%w: bootstrap without a cluster id or a %d-byte secret", ErrInvalidArgument, SecretBytes)
	}
	config := budget.Config{
		Lease:   time.Duration(b.GetLeaseMicros()) * time.Microsecond,
		RhoPPM:  b.GetRhoPpm(),
		Version: 1,
		Regions: decodeRegions(b.GetRegions()),
	}
	if err := checkConfig(config); err != nil {
		return false, err
	}
	if !config.Steady() {
		return false, fmt.Errorf("%w: the floors are not what the weights amount to", ErrInvalidArgument)
	}
	book := RuleBook{NextNumber: firstRuleNumber}
	if b.GetRulesYaml() != "" {
		book, err = book.next(&raftlogv1.ApplyRules{
			FileName: "rules.yaml", Yaml: b.GetRulesYaml(), Author: b.GetAuthor(), UnixMs: b.GetUnixMs(),
		}, parser)
		if err != nil {
			return false, err
		}
	}
	*s = State{ClusterID: b.GetClusterId(), HashSecret: secret, Rules: book}
	s.Ledger.Config = config
	return true, nil
}

// commitPlan applies a plan, except for shares of rules that were dropped after the plan was made: such entries
// would stay forever, because the number of a dropped rule is never used again. Removals are always applied.
func (s *State) commitPlan(c *raftlogv1.CommitPlan) error {
	plan, err := decodePlan(c)
	if err != nil {
		return err
	}
	plan.Changes = slices.DeleteFunc(plan.Changes, func(e budget.Entry) bool {
		return e.Shares != nil && !s.Rules.InForce(e.Key.Rule)
	})
	return s.Ledger.Apply(plan)
}

// clone returns a deep copy of everything that a later command can change.
func (s *State) clone() *State {
	c := *s
	c.Ledger = *s.Ledger.Clone()
	return &c
}
