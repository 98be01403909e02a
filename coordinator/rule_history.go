package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

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
		comment := req.GetComment()
		if comment == "" {
			comment = fmt.Sprintf("back to version %d", req.GetVersion())
		}
		return s.apply(ctx, cluster.RulesChange{
			YAML: text, FileName: versionName(req.GetVersion()), Expected: req.ExpectedVersion,
			Author: req.GetAuthor(), Comment: comment, RollbackTo: req.GetVersion(),
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
	text := version // the version that brought its text into force
	s.node.View(func(state *clusterstate.State) {
		b := &state.Rules
		history = b.History
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
	first, last := uint64(0), uint64(0)
	if len(history) > 0 {
		first, last = history[0].Version, history[len(history)-1].Version
	}
	return v, fmt.Errorf("%w: version %d; kept are %d to %d", clusterstate.ErrUnknownVersion, version, first, last)
}
