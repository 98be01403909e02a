package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// States of a staged roll-out.
const (
	RolloutStaged   = "staged"
	RolloutPromoted = "promoted"
	RolloutHalted   = "halted"
	RolloutAborted  = "aborted"
)

// RolloutStates returns all states of a roll-out.
func RolloutStates() []string {
	return []string{RolloutStaged, RolloutPromoted, RolloutHalted, RolloutAborted}
}

// Rollout is a version of the rules that some regions use before the others do. It is immutable; nil means that
// there is none.
type Rollout struct {
	Version uint64
	// First is the version that the roll-out began with: each change of entries makes another version.
	First uint64
	// Base is the version in force in the other regions.
	Base    uint64
	Regions []string
	// State is one of RolloutStates. Reason says why the roll-out was halted.
	State, Reason string
	StartedUnixMS int64
	// PromoteAtUnixMS is when the version comes into force everywhere, in Unix milliseconds; 0: only a command
	// promotes it.
	PromoteAtUnixMS int64
	// HaltAbovePPM is the rise of the share of denied requests, in millionths, above which the leader halts the
	// roll-out.
	HaltAbovePPM uint32
	// Before is what the regions decided before the roll-out, as far as the leader knew.
	Before []Decisions

	// The staged version; empty once the roll-out has ended.
	YAML    string
	Set     *rules.Set
	Numbers map[string]uint32
}

// Decisions counts what one region decided in a period.
type Decisions struct {
	Region          string
	Allowed, Denied uint64
}

// UnderWay reports whether the roll-out has not ended; false for nil.
func (r *Rollout) UnderWay() bool { return r != nil && r.State == RolloutStaged }

// StagedIn reports whether a region uses the staged version now.
func (r *Rollout) StagedIn(region string) bool {
	return r.UnderWay() && slices.Contains(r.Regions, region)
}

// stageRules brings a version into force in some regions.
func (s *State) stageRules(c *raftlogv1.StageRules, parser *ruleParser) (version uint64, err error) {
	a := c.GetRules()
	if err := s.checkRulesChange(a); err != nil {
		return 0, err
	}
	if err := s.checkStage(c.GetRegions()); err != nil {
		return 0, err
	}
	set, _, err := parser.parse(a.GetFileName(), a.GetYaml())
	if err != nil {
		return 0, err
	}
	if err := s.Rules.Stageable(set); err != nil {
		return 0, err
	}
	book := s.Rules
	book.Last++
	book.History = keptVersions(book.History, newRuleVersion(book.Last, book.Applied, a))
	r := &Rollout{
		Version: book.Last, Base: book.Version, Regions: c.GetRegions(), State: RolloutStaged,
		StartedUnixMS: a.GetUnixMs(), HaltAbovePPM: c.GetHaltAbovePpm(), Before: decodeDecisions(c.GetBefore()),
		YAML: a.GetYaml(), Set: set.With(entriesAbove(book.Entries)), First: book.Last,
	}
	if c.GetPromoteAfterMs() > 0 {
		r.PromoteAtUnixMS = a.GetUnixMs() + c.GetPromoteAfterMs()
	}
	r.Numbers, book.NextNumber = rules.Assign(book.Numbers, book.Set, book.NextNumber, set)
	book.Rollout = r
	s.setRules(book.indexed())
	return r.Version, nil
}

// checkStage refuses a stage that is empty, has all regions, or has a region that is unknown, fenced or named
// twice.
func (s *State) checkStage(regions []string) error {
	if s.Rules.Version == 0 {
		return fmt.Errorf("%w: no rules are in force yet; apply these without a stage", ErrNothingInForce)
	}
	var elsewhere bool
	for _, r := range s.Ledger.Config.Regions {
		elsewhere = elsewhere || !r.Fenced && !slices.Contains(regions, r.Name)
	}
	if len(regions) == 0 || !elsewhere {
		return fmt.Errorf("%w: a stage is at least one region and not all of them", ErrInvalidArgument)
	}
	for i, name := range regions {
		at := s.Ledger.Config.Index(name)
		if at < 0 || s.Ledger.Config.Regions[at].Fenced || slices.Contains(regions[:i], name) {
			return fmt.Errorf("%w: the stage's region %q is not declared, fenced, or named twice", ErrInvalidArgument, shortName(name))
		}
	}
	return nil
}

// Stageable returns ErrNotStageable, with the reasons, if a rule would have two limits while some regions use these
// rules and the others those in force.
func (b *RuleBook) Stageable(set *rules.Set) error {
	if b.Set == nil {
		return nil
	}
	if why := rules.Unstageable(b.Set, set); len(why) > 0 {
		return fmt.Errorf("%w: %s", ErrNotStageable, strings.Join(why, "; "))
	}
	return nil
}

// endRollout promotes the staged version or withdraws it. A withdrawal makes a new version of the text in force:
// version numbers only rise, so that the higher of two is always the later.
func (s *State) endRollout(c *raftlogv1.EndRollout, format uint32) (version uint64, err error) {
	book := s.Rules
	if r := book.Rollout; !r.UnderWay() || c.GetVersion() < r.First || c.GetVersion() > r.Version {
		return 0, fmt.Errorf("%w of version %d", ErrNoRollout, c.GetVersion())
	}
	ended := *book.Rollout
	ended.YAML, ended.Set, ended.Numbers = "", nil, nil
	ended.State, ended.Reason = outcomeState(c.GetOutcome()), c.GetReason()
	switch ended.State {
	case RolloutPromoted:
		book = book.promoted(c, format)
	case RolloutAborted, RolloutHalted:
		book = book.withdrawn(c, ended.State)
	default:
		return 0, fmt.Errorf("%w: the outcome %d of a roll-out", ErrInvalidArgument, c.GetOutcome())
	}
	book.Rollout = &ended
	s.setRules(book.indexed())
	return book.Version, nil
}

func outcomeState(o raftlogv1.EndRollout_Outcome) string {
	switch o {
	case raftlogv1.EndRollout_OUTCOME_PROMOTED:
		return RolloutPromoted
	case raftlogv1.EndRollout_OUTCOME_ABORTED:
		return RolloutAborted
	case raftlogv1.EndRollout_OUTCOME_HALTED:
		return RolloutHalted
	}
	return ""
}

// EncodeOutcome returns how a roll-out ends as the log has it: state is one of RolloutStates.
func EncodeOutcome(state string) raftlogv1.EndRollout_Outcome {
	for _, o := range []raftlogv1.EndRollout_Outcome{
		raftlogv1.EndRollout_OUTCOME_PROMOTED, raftlogv1.EndRollout_OUTCOME_ABORTED, raftlogv1.EndRollout_OUTCOME_HALTED,
	} {
		if outcomeState(o) == state {
			return o
		}
	}
	return raftlogv1.EndRollout_OUTCOME_UNSPECIFIED
}

// promoted returns the book with the staged text in force. If entries changed meanwhile, versions of both texts
// took turns: then the text gets a version above them all, so that those from Applied on have one text.
func (b RuleBook) promoted(c *raftlogv1.EndRollout, format uint32) RuleBook {
	r := b.Rollout
	b.supersede(OlderRules{Version: b.Version, Set: b.Set}, r.Set)
	before := b.Applied
	b.Version, b.Applied, b.YAML, b.Set, b.Numbers = r.Version, r.First, r.YAML, r.Set, r.Numbers
	if v, kept := Kept(b.History, r.First); kept {
		b.Author, b.Comment, b.UnixMS = v.Author, v.Comment, v.UnixMS
	}
	if format >= promotionFormat && r.Version > r.First {
		b.Last++
		again := newRuleVersion(b.Last, before, &raftlogv1.ApplyRules{
			Yaml: b.YAML, Author: b.Author, Comment: b.Comment, UnixMs: c.GetUnixMs(), RollbackTo: r.First,
		})
		b.History = keptVersions(b.History, again)
		b.Version, b.Applied, b.UnixMS = again.Version, again.Version, again.UnixMS
	}
	return b
}

// withdrawn returns the book with the text in force as a new version above the staged one. Its rules keep their
// numbers. Numbers of rules that only the staged version had are not used again.
func (b RuleBook) withdrawn(c *raftlogv1.EndRollout, state string) RuleBook {
	r := b.Rollout
	b.supersede(OlderRules{r.Version, r.Set, r.Regions}, b.Set)
	b.Last++
	again := newRuleVersion(b.Last, r.First, &raftlogv1.ApplyRules{
		Yaml: b.YAML, Author: c.GetAuthor(), UnixMs: c.GetUnixMs(), RollbackTo: b.Applied,
		Comment: fmt.Sprintf("version %d %s", r.First, state),
	})
	b.History = keptVersions(b.History, again)
	b.Version, b.Applied, b.Author, b.Comment, b.UnixMS = again.Version, again.Version, again.Author, again.Comment, again.UnixMS
	return b
}

func decodeDecisions(in []*raftlogv1.Decisions) []Decisions {
	out := make([]Decisions, len(in))
	for i, d := range in {
		out[i] = Decisions{d.GetRegion(), d.GetAllowed(), d.GetDenied()}
	}
	return out
}

// EncodeDecisions returns the decisions as the log has them.
func EncodeDecisions(in []Decisions) []*raftlogv1.Decisions {
	out := make([]*raftlogv1.Decisions, len(in))
	for i, d := range in {
		out[i] = &raftlogv1.Decisions{Region: d.Region, Allowed: d.Allowed, Denied: d.Denied}
	}
	return out
}

func encodeRollout(r *Rollout) *raftlogv1.Rollout {
	if r == nil {
		return nil
	}
	out := &raftlogv1.Rollout{
		Version: r.Version, BaseVersion: r.Base, Regions: r.Regions,
		StartedUnixMs: r.StartedUnixMS, PromoteAtUnixMs: r.PromoteAtUnixMS, HaltAbovePpm: r.HaltAbovePPM,
		Before: EncodeDecisions(r.Before), RuleNumbers: r.Numbers, FirstVersion: r.First,
	}
	if !r.UnderWay() {
		out.End = &raftlogv1.EndRollout{Version: r.Version, Outcome: EncodeOutcome(r.State), Reason: r.Reason}
	}
	return out
}

// decodeRollout decodes a roll-out of a snapshot; the staged text is in the history of b.
func decodeRollout(m *raftlogv1.Rollout, b *RuleBook) (*Rollout, error) {
	if m == nil {
		return nil, nil
	}
	r := &Rollout{
		Version: m.GetVersion(), First: cmp.Or(m.GetFirstVersion(), m.GetVersion()), Base: m.GetBaseVersion(), Regions: m.GetRegions(), State: RolloutStaged,
		StartedUnixMS: m.GetStartedUnixMs(), PromoteAtUnixMS: m.GetPromoteAtUnixMs(), HaltAbovePPM: m.GetHaltAbovePpm(),
		Before: decodeDecisions(m.GetBefore()), Numbers: m.GetRuleNumbers(),
	}
	if end := m.GetEnd(); end != nil {
		r.State, r.Reason = outcomeState(end.GetOutcome()), end.GetReason()
		return r, nil
	}
	v, kept := Kept(b.History, r.First)
	if !kept {
		return nil, fmt.Errorf("the staged rules version %d is not in it", r.Version)
	}
	var err error
	if r.YAML, err = v.Text(); err != nil {
		return nil, err
	}
	set, _, err := rules.Parse("rules.yaml", []byte(r.YAML))
	if err != nil {
		return nil, fmt.Errorf("the staged rules in it do not parse in this version: %w", err)
	}
	r.Set = set.With(entriesAbove(b.Entries))
	return r, nil
}
