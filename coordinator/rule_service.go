package coordinator

import (
	"context"
	"errors"
	"slices"
	"sync"

	clusterstate "aliquot/cluster/state"

	"aliquot/cluster"
	"aliquot/coordinator/internal/leader"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Sizes of a change of rules, besides those of the file.
const (
	maxAuthorBytes   = 256
	maxFileNameBytes = 256
	maxCommentBytes  = 1024
)

// ruleService implements RuleService: it reads the rules from the applied state and changes them on the
// leader.
type ruleService struct {
	node       *cluster.Node
	leadership *leader.Leadership
	forward    *forwarder
	metrics    *metrics
	plans      *planner
	// edits has room for the one change of entries that may be made at a time.
	edits chan struct{}
	// parsing is held while the rules of a plan are parsed: that takes a hundred times the memory of their
	// text.
	parsing sync.Mutex
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
		YAML: req.GetYaml(), FileName: req.GetFileName(), Expected: req.ExpectedVersion,
		Author: req.GetAuthor(), Comment: req.GetComment(), AllowDenyAll: req.GetAllowDenyAll(),
	}
	if change.FileName == "" {
		change.FileName = "rules"
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
	if !printable(author) || !printable(comment) {
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
	ctx, cancel := withDeadline(ctx)
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
	if id := set.DeniesAll(); id != "" && !change.AllowDenyAll {
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

// restartedRules returns a warning for each rule whose clients start with full buckets once set is in
// force.
func (s *ruleService) restartedRules(set *rules.Set) []string {
	var inForce *rules.Set
	s.node.View(func(state *clusterstate.State) { inForce = state.Rules.Set })
	return rules.Restarts(inForce, set)
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
