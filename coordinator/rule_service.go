package coordinator

import (
	"context"
	"errors"

	"aliquot/cluster"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rules"
)

// Limits of a rules change, beyond the file's own.
const (
	maxAuthorBytes   = 256
	maxFileNameBytes = 256
)

// ruleService reads the rules from the applied state and changes them at the leader.
type ruleService struct {
	aliquotv1connect.UnimplementedRuleServiceHandler
	node    *cluster.Node
	forward *forwarder
	metrics *metrics
}

// GetRules answers with the rules in force here.
func (s *ruleService) GetRules(context.Context, *aliquotv1.GetRulesRequest) (*aliquotv1.GetRulesResponse, error) {
	var res *aliquotv1.GetRulesResponse
	s.node.View(func(state *cluster.State) {
		r := &state.Rules
		res = &aliquotv1.GetRulesResponse{Version: r.Version, Yaml: r.YAML, Author: r.Author, AppliedUnixMs: r.UnixMS}
	})
	return res, nil
}

// ApplyRules replaces all rules.
func (s *ruleService) ApplyRules(ctx context.Context, req *aliquotv1.ApplyRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	if len(req.GetAuthor()) > maxAuthorBytes || len(req.GetFileName()) > maxFileNameBytes {
		return nil, toRPC(invalid("author and file_name have at most %d and %d bytes", maxAuthorBytes, maxFileNameBytes))
	}
	file := req.GetFileName()
	if file == "" {
		file = "rules"
	}
	version, err := s.node.ApplyRules(ctx, req.GetYaml(), file, req.ExpectedVersion, req.GetAuthor())
	if _, elsewhere := errors.AsType[cluster.ErrNotLeader](err); elsewhere {
		res, err := toLeader(ctx, s.forward, req, (*peer).ApplyRules)
		if err == nil {
			awaitState(ctx, s.node, ownWritePatience, func(state *cluster.State) bool { return state.Rules.Version >= res.GetVersion() })
		}
		return res, toRPC(err)
	}
	if err != nil {
		if _, bad := errors.AsType[*rules.Error](err); bad {
			s.metrics.rulesFailures.Inc()
		}
		return nil, toRPC(err)
	}
	return &aliquotv1.ApplyRulesResponse{Version: version}, nil
}
