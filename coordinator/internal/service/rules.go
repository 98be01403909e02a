package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/plan"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Sizes of a change of rules, besides those of the file.
const (
	maxAuthorBytes   = 256
	maxFileNameBytes = 256
	maxCommentBytes  = 1024
)

// ruleService implements RuleService: it reads the rules from the applied state and changes them on the leader.
type ruleService struct {
	node       *cluster.Node
	leadership *leader.Leadership
	forward    *forwarder
	metrics    *metrics
	plans      *plan.Planner
	// changes has room for the one change that may be made at a time. Rules that are parsed at once take memory at once,
	// and each change would drop what another one has parsed.
	changes cluster.Turns
	// parsing is the same for plans: parsed rules take a hundred times the memory of their text.
	parsing cluster.Turns
}

// GetRules returns the rules in force here, or a version that is kept here.
func (s *ruleService) GetRules(_ context.Context, req *aliquotv1.GetRulesRequest) (*aliquotv1.GetRulesResponse, error) {
	if req.GetVersion() != 0 {
		v, err := s.keptVersion(req.GetVersion())
		if err != nil {
			return nil, toRPC(err)
		}
		text, err := v.Text()
		return &aliquotv1.GetRulesResponse{
			Version: v.Version, Yaml: text, Author: v.Author, AppliedUnixMs: v.UnixMS, Comment: v.Comment,
		}, toRPC(err)
	}
	var res *aliquotv1.GetRulesResponse
	s.node.View(func(state *clusterstate.State) {
		r := &state.Rules
		res = &aliquotv1.GetRulesResponse{
			Version: r.Version, Yaml: r.YAML, Author: r.Author, AppliedUnixMs: r.UnixMS, Comment: r.Comment,
			Rollout: rolloutShown(r.Rollout),
		}
		if r.Set != nil {
			res.Entries, res.EntriesRevision, res.AppliedVersion = entriesShown(r), r.EntriesRevision, r.Applied
		}
		if req.GetEntryChanges() {
			for _, c := range slices.Backward(r.EntryChanges) {
				res.EntryChanges = append(res.EntryChanges, entryChangeToWire(&c))
			}
		}
	})
	return res, nil
}

// ApplyRules replaces all rules, or stages them in some regions.
func (s *ruleService) ApplyRules(ctx context.Context, req *aliquotv1.ApplyRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), req.GetComment()); err != nil {
		return nil, toRPC(err)
	}
	if len(req.GetFileName()) > maxFileNameBytes {
		return nil, toRPC(invalid("file_name has %d bytes, at most %d", len(req.GetFileName()), maxFileNameBytes))
	}
	change := cluster.RulesChange{
		YAML: req.GetYaml(), FileName: cmp.Or(req.GetFileName(), "rules"), Expected: req.ExpectedVersion,
		Author: req.GetAuthor(), Comment: req.GetComment(), AllowDenyAll: req.GetAllowDenyAll(),
	}
	if req.GetStage() != nil {
		stage, err := stageOf(req.GetStage())
		if err != nil {
			return nil, toRPC(err)
		}
		return atLeader(ctx, s, req, (*peer).ApplyRules, staged, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
			return s.stage(ctx, change, stage)
		})
	}
	return atLeader(ctx, s, req, (*peer).ApplyRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		return s.apply(ctx, change)
	})
}

func checkWords(author, comment string) error {
	if len(author) > maxAuthorBytes || len(comment) > maxCommentBytes {
		return invalid("author and comment have at most %d and %d bytes", maxAuthorBytes, maxCommentBytes)
	}
	if !plan.Printable(author) || !plan.Printable(comment) {
		return invalid("author and comment are one line of printable UTF-8 each")
	}
	return nil
}

// changed is the answer to any change of the rules.
type changed interface{ GetVersion() uint64 }

// atLeader makes a change of rules here if this node leads, else lets the leader make it. Then it waits
// until holds is true of the new version on this node.
func atLeader[Req, Res any](ctx context.Context, s *ruleService, req *Req,
	method func(*peer, context.Context, *Req) (*Res, error), holds func(*clusterstate.RuleBook, uint64) bool, here func(context.Context) (*Res, error),
) (*Res, error) {
	ctx, cancel := deadlineOr(ctx, rulesDeadline)
	defer cancel()
	res, err := here(ctx)
	if _, notLeader := errors.AsType[cluster.ErrNotLeader](err); !notLeader {
		return res, toRPC(err)
	}
	res, err = toLeader(ctx, s.forward, req, method)
	if made, ok := any(res).(changed); ok && err == nil {
		awaitState(ctx, s.node, ownWriteTimeout, func(state *clusterstate.State) bool { return holds(&state.Rules, made.GetVersion()) })
	}
	return res, toRPC(err)
}

// inForce and staged report whether a version holds on a node.
func inForce(b *clusterstate.RuleBook, version uint64) bool { return b.Version >= version }
func staged(b *clusterstate.RuleBook, version uint64) bool  { return b.Last >= version }

// apply brings rules into force. Rules that do not parse are refused here, before they reach the log.
// The replicated state machine checks them again, because it does not trust the log.
func (s *ruleService) apply(ctx context.Context, change cluster.RulesChange) (*aliquotv1.ApplyRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	done, err := s.changes.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	set, warnings, err := s.parse(change)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, s.restartedRules(set)...)
	version, err := s.node.ApplyRules(ctx, change)
	if err != nil {
		return nil, err
	}
	return s.applied(version, warnings), nil
}

// parse returns valid rules with their warnings.
func (s *ruleService) parse(change cluster.RulesChange) (set *rules.Set, warnings []string, err error) {
	set, found, err := s.node.ParseRules(change.FileName, change.YAML)
	if err != nil {
		s.metrics.rulesFailures.Inc()
		return nil, nil, err
	}
	switch id := set.DeniesAll(); {
	case id == "" || change.AllowDenyAll:
	case change.RollbackTo != 0:
		return nil, nil, invalid("rule %s of version %d denies every request (limit: 0); if that is meant, save it with `aliquot rules show --version %d` and apply it with --allow-deny-all", id, change.RollbackTo, change.RollbackTo)
	default:
		return nil, nil, invalid("rule %s denies every request (limit: 0); give it a condition, or apply it with --allow-deny-all (allow_deny_all)", id)
	}
	for _, w := range found {
		warnings = append(warnings, w.String())
	}
	return set, append(warnings, s.hiddenChanges(set)...), nil
}

// hiddenChanges returns a warning for each change of a file that an entry hides.
func (s *ruleService) hiddenChanges(file *rules.Set) (warnings []string) {
	s.node.View(func(state *clusterstate.State) { warnings = hiddenChanges(&state.Rules, file) })
	return warnings
}

// restartedRules returns a warning for each rule whose clients start afresh once set is in force.
func (s *ruleService) restartedRules(set *rules.Set) []string {
	var inForce *rules.Set
	s.node.View(func(state *clusterstate.State) { inForce = state.Rules.Set })
	return append(rules.Restarts(inForce, set), rules.Renamed(inForce, set)...)
}

// applied returns the answer after a version has been made. If the diff cannot be made, the answer has
// none: the version exists all the same.
func (s *ruleService) applied(version uint64, warnings []string) *aliquotv1.ApplyRulesResponse {
	res := &aliquotv1.ApplyRulesResponse{Version: version, Warnings: warnings}
	var history []clusterstate.RuleVersion
	s.node.View(func(state *clusterstate.State) { history = state.Rules.History })
	if v, ok := clusterstate.Kept(history, version); ok {
		if listed, err := versionOf(history, v); err == nil {
			res.Diff = listed.GetDiff()
		}
	}
	return res
}

const (
	defaultVersions = 20
	maxVersions     = 1000
	// maxListedBytes bounds the diffs of one list. The next list has the rest. Thousands of ordinary
	// changes are far below it.
	maxListedBytes = 8 << 20
	// maxListing bounds the time for the diffs of one list in the same way.
	maxListing = 2 * time.Second
)

// ListRuleVersions lists the versions that are kept here, the latest first.
func (s *ruleService) ListRuleVersions(ctx context.Context, req *aliquotv1.ListRuleVersionsRequest) (*aliquotv1.ListRuleVersionsResponse, error) {
	limit := int(req.GetLimit())
	switch {
	case limit == 0:
		limit = defaultVersions
	case limit < 0 || limit > maxVersions:
		return nil, toRPC(invalid("limit is %d; give 1 to %d, or nothing for %d", limit, maxVersions, defaultVersions))
	}
	var history []clusterstate.RuleVersion
	var inForce uint64
	s.node.View(func(state *clusterstate.State) { history, inForce = state.Rules.History, state.Rules.Applied })
	res := &aliquotv1.ListRuleVersionsResponse{}
	size, began := 0, time.Now()
	for _, v := range slices.Backward(history) {
		if before := req.GetBefore(); before != 0 && v.Version >= before {
			continue
		}
		if len(res.Versions) == limit || size > maxListedBytes || time.Since(began) > maxListing || ctx.Err() != nil {
			break
		}
		listed, err := versionOf(history, v)
		if err != nil {
			return nil, toRPC(err)
		}
		listed.InForce = v.Version == inForce
		size += len(listed.GetDiff())
		res.Versions = append(res.Versions, listed)
	}
	return res, toRPC(ctx.Err())
}

func versionOf(history []clusterstate.RuleVersion, v clusterstate.RuleVersion) (*aliquotv1.RuleVersion, error) {
	base, _ := clusterstate.Kept(history, v.Base)
	diff, err := diffOf(v, base)
	if err != nil {
		return nil, err
	}
	return &aliquotv1.RuleVersion{
		Version: v.Version, Author: v.Author, AppliedUnixMs: v.UnixMS, Comment: v.Comment,
		Diff: diff, RollbackTo: v.RollbackTo,
	}, nil
}

// RollbackRules brings the text of an earlier version into force, as a new version.
func (s *ruleService) RollbackRules(ctx context.Context, req *aliquotv1.RollbackRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), req.GetComment()); err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).RollbackRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		text, err := s.textOf(ctx, req.GetVersion())
		if err != nil {
			return nil, err
		}
		return s.apply(ctx, cluster.RulesChange{
			YAML: text, FileName: versionName(req.GetVersion()), Expected: req.ExpectedVersion,
			Author: req.GetAuthor(), Comment: cmp.Or(req.GetComment(), fmt.Sprintf("back to version %d", req.GetVersion())), RollbackTo: req.GetVersion(),
		})
	})
}

// textOf returns the text of a version. It runs on the leader.
func (s *ruleService) textOf(ctx context.Context, version uint64) (string, error) {
	if err := s.node.Barrier(ctx); err != nil {
		return "", err
	}
	v, err := s.keptVersion(version)
	if err != nil {
		return "", err
	}
	return v.Text()
}

// keptVersion returns a version from the history on this node.
func (s *ruleService) keptVersion(version uint64) (v clusterstate.RuleVersion, err error) {
	var history []clusterstate.RuleVersion
	var newest uint64
	text := version // the version that brought its text into force
	s.node.View(func(state *clusterstate.State) {
		b := &state.Rules
		history, newest = b.History, b.Last
		switch r := b.Rollout; {
		case version == b.Version:
			text = b.Applied
		case r.UnderWay() && version == r.Version:
			text = r.First
		}
	})
	v, ok := clusterstate.Kept(history, text)
	if ok {
		return v, nil
	}
	if len(history) > 0 && version > history[0].Version && version <= newest {
		return v, fmt.Errorf("%w: version %d changed only entries and has no text of its own; see `aliquot entries history`, and `aliquot rules history` for the texts", clusterstate.ErrUnknownVersion, version)
	}
	first, last := uint64(0), uint64(0)
	if len(history) > 0 {
		first, last = history[0].Version, history[len(history)-1].Version
	}
	return v, fmt.Errorf("%w: version %d; kept are %d to %d, and `aliquot rules history` lists them", clusterstate.ErrUnknownVersion, version, first, last)
}

const (
	// diffContext is the number of unchanged lines around a change.
	diffContext = 3
	// maxDiffBytes bounds a diff. Nobody reads more of one change.
	maxDiffBytes = 64 << 10
	// maxDiffLines bounds the lines of a text that is compared: an answer waits for its diff, and the time
	// grows faster than the lines. Files of ten thousand rules are below it.
	maxDiffLines = 150_000
)

// diffOf returns what a version changed, as a unified diff; "" if it changed nothing or its base is not kept.
func diffOf(v, base clusterstate.RuleVersion) (string, error) {
	if base.Version == 0 {
		return "", nil
	}
	before, err := base.Text()
	if err != nil {
		return "", err
	}
	after, err := v.Text()
	if err != nil {
		return "", err
	}
	return unifiedDiff(versionName(base.Version), versionName(v.Version), before, after)
}

func versionName(version uint64) string { return fmt.Sprintf("version %d", version) }

// unifiedDiff returns the difference of two texts. A diff that is too long is cut at the end of a line.
// Texts with too many lines differ as a whole.
func unifiedDiff(from, to, before, after string) (string, error) {
	diff, err := udiff.ToUnified(from, to, before, changes(before, after), diffContext)
	if err != nil {
		return "", fmt.Errorf("compare %s with %s: %w", from, to, err)
	}
	if len(diff) <= maxDiffBytes {
		return diff, nil
	}
	shown := diff[:strings.LastIndexByte(diff[:maxDiffBytes], '\n')+1]
	rest := strings.Count(diff[len(shown):], "\n")
	return fmt.Sprintf("%s\\ %d lines more\n", shown, rest), nil
}

// changes returns the edits that turn before into after.
func changes(before, after string) []udiff.Edit {
	switch {
	case before == after:
		return nil
	case max(strings.Count(before, "\n"), strings.Count(after, "\n")) > maxDiffLines:
		return []udiff.Edit{{Start: 0, End: len(before), New: after}}
	}
	return udiff.Lines(before, after)
}

// Limits of a stage.
const (
	minPromoteAfter = 10 * time.Second
	maxPromoteAfter = 24 * time.Hour
	// defaultHaltAbove is far above the random variation of 1,000 requests.
	defaultHaltAbove = 0.05
)

// stageOf returns the stage in a message.
func stageOf(m *aliquotv1.Stage) (cluster.Stage, error) {
	s := cluster.Stage{Regions: m.GetRegions()}
	if len(s.Regions) == 0 || len(s.Regions) > clusterstate.MaxRegions {
		return s, invalid("stage.regions has %d regions; name at least one, and not all there are", len(s.Regions))
	}
	if m.GetPromoteAfter() != nil {
		s.PromoteAfter = m.GetPromoteAfter().AsDuration()
		if s.PromoteAfter < minPromoteAfter || s.PromoteAfter > maxPromoteAfter {
			return s, invalid("stage.promote_after is %s; give %s to %s, or nothing to promote it yourself", s.PromoteAfter, minPromoteAfter, maxPromoteAfter)
		}
	}
	above := defaultHaltAbove
	if m.HaltAbove != nil {
		above = m.GetHaltAbove()
	}
	if !(above >= 0 && above <= 1) { // false for a NaN
		return s, invalid("stage.halt_above is %v; give 0 to 1, or nothing for %v", above, defaultHaltAbove)
	}
	s.HaltAbovePPM = uint32(above*1e6 + 0.5)
	return s, nil
}

// stage brings rules into force in some regions. It keeps what these regions decide now, to compare with.
func (s *ruleService) stage(ctx context.Context, change cluster.RulesChange, stage cluster.Stage) (*aliquotv1.ApplyRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	done, err := s.changes.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	set, warnings, err := s.parse(change)
	if err != nil {
		return nil, err
	}
	if err := s.node.Stageable(set); err != nil {
		return nil, err
	}
	loop := s.leadership.Current()
	if loop == nil {
		return nil, errTakingCharge
	}
	if stage.Before, err = loop.DecisionsBefore(ctx, stage.Regions); err != nil {
		return nil, err
	}
	version, err := s.node.StageRules(ctx, change, stage)
	if err != nil {
		return nil, err
	}
	return s.applied(version, warnings), nil
}

// PromoteRules brings a staged version into force everywhere.
func (s *ruleService) PromoteRules(ctx context.Context, req *aliquotv1.PromoteRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), ""); err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).PromoteRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		version, err := s.node.EndRollout(ctx, req.GetVersion(), clusterstate.RolloutPromoted, "", req.GetAuthor())
		if err != nil {
			return nil, err
		}
		return s.applied(version, nil), nil
	})
}

// AbortRules ends a staged roll-out without promoting it.
func (s *ruleService) AbortRules(ctx context.Context, req *aliquotv1.AbortRulesRequest) (*aliquotv1.AbortRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), ""); err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).AbortRules, inForce, func(ctx context.Context) (*aliquotv1.AbortRulesResponse, error) {
		version, err := s.node.EndRollout(ctx, req.GetVersion(), clusterstate.RolloutAborted, "", req.GetAuthor())
		return &aliquotv1.AbortRulesResponse{Version: version}, err
	})
}

// rolloutShown returns the roll-out that is under way, or the last one if it was halted; else nil.
func rolloutShown(r *clusterstate.Rollout) *aliquotv1.Rollout {
	if r == nil || !r.UnderWay() && r.State != clusterstate.RolloutHalted {
		return nil
	}
	return &aliquotv1.Rollout{
		Version: r.Version, BaseVersion: r.Base, Regions: r.Regions, State: r.State, Reason: r.Reason,
		StartedUnixMs: r.StartedUnixMS, PromoteAtUnixMs: r.PromoteAtUnixMS, HaltAbove: float64(r.HaltAbovePPM) / 1e6,
	}
}
