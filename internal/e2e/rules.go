package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// checkedPath is the path that RulesYAML limits for proxies.
const checkedPath = "/checked"

// RulesYAML is what the cluster starts with: one limit, strict and elastic, a small one for
// keys of many clients at once, one that counts, in three ways, and one for proxies.
const RulesYAML = `rules:
  - id: per-key
    match: {attributes: {plan: big}}
    params: {capacity: 300, refill_rate: 100}
    enforcement: strict
  - id: small
    match: {attributes: {plan: small}}
    params: {capacity: 60, refill_rate: 2}
    enforcement: strict
  - id: burst
    match: {attributes: {plan: burst}}
    params: {capacity: 300, refill_rate: 100}
    enforcement: elastic
  - id: fixed
    match: {attributes: {plan: fixed}}
    algorithm: fixed_window
    params: {limit: 60, window: 2}
  - id: counter
    match: {attributes: {plan: counter}}
    algorithm: sliding_window_counter
    params: {limit: 60, window: 2}
  - id: log
    match: {attributes: {plan: log}}
    algorithm: sliding_window_log
    params: {limit: 60, window: 2}
  - id: checked
    match: {endpoint_regex: "^/checked$"}
    params: {capacity: 300, refill_rate: 100}
    enforcement: strict
`

// awaitRules waits until a region decides by the cluster's rules, with or without a
// lease.
func (l *Cluster) awaitRules(ctx context.Context, r *Region) error {
	client := aliquotv1connect.NewLimiterServiceClient(l.http, rpc.BaseURL(r.Address))
	request := &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "big", "api_key": "await-rules"}}
	err := until(ctx, readyWithin, r.Name+" deciding", func() error {
		ctx, cancel := context.WithTimeout(ctx, callWithin)
		defer cancel()
		answer, err := client.Check(ctx, request)
		if err == nil && answer.RuleId != bigRule {
			err = fmt.Errorf("mode %s, rule %q", answer.Mode, answer.RuleId)
		}
		return err
	})
	if err != nil {
		return l.withLogs(err)
	}
	return nil
}

// bigRule limits clients of the plan "big", strictly.
const bigRule = "per-key"

// applyRules applies rules at a coordinator that does not lead, if there is one,
// and waits until every region's answers show the small rule's new capacity.
func (l *Cluster) applyRules(ctx context.Context, yaml string, capacity int64) (time.Duration, error) {
	at, err := l.follower(ctx)
	if err != nil {
		return 0, err
	}
	client := aliquotv1connect.NewRuleServiceClient(l.http, rpc.BaseURL(at.Address))
	began := time.Now()
	err = led(ctx, func() error {
		_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: yaml, Author: "e2e"})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("apply rules at %s: %w", at.Name, err)
	}
	for _, r := range l.Regions {
		client := aliquotv1connect.NewLimiterServiceClient(l.http, rpc.BaseURL(r.Address))
		request := &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "small", "api_key": "rules-changed"}}
		err := until(ctx, readyWithin, "in force in "+r.Name, func() error {
			answer, err := client.Check(ctx, request)
			if err == nil && answer.Limit != capacity {
				err = fmt.Errorf("the limit is still %d", answer.Limit)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// commitRules applies the cluster's rules once more, at any coordinator.
func (l *Cluster) commitRules(ctx context.Context, at *Coordinator) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	client := aliquotv1connect.NewRuleServiceClient(l.http, rpc.BaseURL(at.Address))
	_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: RulesYAML, Author: "e2e"})
	return err
}

// anyRules is the rules of a coordinator that runs.
func (l *Cluster) anyRules(context.Context) (aliquotv1connect.RuleServiceClient, error) {
	for _, c := range l.Coordinators {
		if c.Running() {
			return aliquotv1connect.NewRuleServiceClient(l.http, rpc.BaseURL(c.Address)), nil
		}
	}
	return nil, errors.New("no coordinator runs")
}

// stage brings rules into force in one region.
func (l *Cluster) stage(ctx context.Context, yaml, region string) error {
	client, err := l.anyRules(ctx)
	if err != nil {
		return err
	}
	return led(ctx, func() error {
		_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: yaml, Author: "e2e", Stage: &aliquotv1.Stage{Regions: []string{region}}})
		return err
	})
}

// staged is the version that is being rolled out.
func (l *Cluster) staged(ctx context.Context, client aliquotv1connect.RuleServiceClient) (uint64, error) {
	rules, err := client.GetRules(ctx, &aliquotv1.GetRulesRequest{})
	return rules.GetRollout().GetVersion(), err
}

func (l *Cluster) promote(ctx context.Context) error {
	client, err := l.anyRules(ctx)
	if err != nil {
		return err
	}
	return led(ctx, func() error {
		version, err := l.staged(ctx, client)
		if err == nil {
			_, err = client.PromoteRules(ctx, &aliquotv1.PromoteRulesRequest{Version: version})
		}
		return err
	})
}

func (l *Cluster) abort(ctx context.Context) error {
	client, err := l.anyRules(ctx)
	if err != nil {
		return err
	}
	return led(ctx, func() error {
		version, err := l.staged(ctx, client)
		if err == nil {
			_, err = client.AbortRules(ctx, &aliquotv1.AbortRulesRequest{Version: version})
		}
		return err
	})
}

func (l *Cluster) rollback(ctx context.Context, version uint64) error {
	client, err := l.anyRules(ctx)
	if err != nil {
		return err
	}
	return led(ctx, func() error {
		_, err := client.RollbackRules(ctx, &aliquotv1.RollbackRulesRequest{Version: version, Author: "e2e"})
		return err
	})
}
