package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// CheckedPath is the path that RulesYAML limits for proxies.
const CheckedPath = "/checked"

// RulesYAML is the rules file that a cluster starts with: one limit, strict and elastic; a small one for many clients;
// three counting limits; and one for proxies.
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

// AwaitRules waits until a region decides by the cluster's rules, with or without a lease.
func (l *Cluster) AwaitRules(ctx context.Context, r *Region) error {
	client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
	request := &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "big", "api_key": "await-rules"}}
	err := Until(ctx, ReadyWithin, r.Name+" deciding", func() error {
		ctx, cancel := context.WithTimeout(ctx, CallWithin)
		defer cancel()
		answer, err := client.Check(ctx, request)
		if err == nil && answer.RuleId != BigRule {
			err = fmt.Errorf("mode %s, rule %q", answer.Mode, answer.RuleId)
		}
		return err
	})
	if err != nil {
		return l.WithLogs(err)
	}
	return nil
}

// BigRule limits clients of the plan "big", strictly.
const BigRule = "per-key"

// ApplyRules applies rules at a coordinator that does not lead, if there is one,
// and waits until every region's answers show the small rule's new capacity.
func (l *Cluster) ApplyRules(ctx context.Context, yaml string, capacity int64) (time.Duration, error) {
	at, err := l.Follower(ctx)
	if err != nil {
		return 0, err
	}
	client := aliquotv1connect.NewRuleServiceClient(l.HTTP, rpc.BaseURL(at.Address))
	began := time.Now()
	err = WhenLed(ctx, func() error {
		_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: yaml, Author: "e2e"})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("apply rules at %s: %w", at.Name, err)
	}
	for _, r := range l.Regions {
		client := aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))
		request := &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": "small", "api_key": "rules-changed"}}
		err := Until(ctx, ReadyWithin, "in force in "+r.Name, func() error {
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

// CommitRules applies the cluster's rules once more, at any coordinator.
func (l *Cluster) CommitRules(ctx context.Context, at *Coordinator) error {
	ctx, cancel := context.WithTimeout(ctx, CallWithin)
	defer cancel()
	client := aliquotv1connect.NewRuleServiceClient(l.HTTP, rpc.BaseURL(at.Address))
	_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: RulesYAML, Author: "e2e"})
	return err
}

// AnyRules returns a client of the rule service of a coordinator that runs.
func (l *Cluster) AnyRules(context.Context) (aliquotv1connect.RuleServiceClient, error) {
	for _, c := range l.Coordinators {
		if c.Running() {
			return aliquotv1connect.NewRuleServiceClient(l.HTTP, rpc.BaseURL(c.Address)), nil
		}
	}
	return nil, errors.New("no coordinator runs")
}

// changeRules changes rules at a coordinator that runs. It repeats the call while no coordinator leads.
func (l *Cluster) changeRules(ctx context.Context, change func(aliquotv1connect.RuleServiceClient) error) error {
	client, err := l.AnyRules(ctx)
	if err != nil {
		return err
	}
	return WhenLed(ctx, func() error { return change(client) })
}

// changeStaged is changeRules, and gives change the version that is being rolled out.
func (l *Cluster) changeStaged(ctx context.Context, change func(client aliquotv1connect.RuleServiceClient, version uint64) error) error {
	return l.changeRules(ctx, func(client aliquotv1connect.RuleServiceClient) error {
		rules, err := client.GetRules(ctx, &aliquotv1.GetRulesRequest{})
		if err != nil {
			return err
		}
		return change(client, rules.GetRollout().GetVersion())
	})
}

// Stage brings rules into force in one region.
func (l *Cluster) Stage(ctx context.Context, yaml, region string) error {
	return l.changeRules(ctx, func(client aliquotv1connect.RuleServiceClient) error {
		_, err := client.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: yaml, Author: "e2e", Stage: &aliquotv1.Stage{Regions: []string{region}}})
		return err
	})
}

// Promote brings staged rules into force everywhere.
func (l *Cluster) Promote(ctx context.Context) error {
	return l.changeStaged(ctx, func(client aliquotv1connect.RuleServiceClient, version uint64) error {
		_, err := client.PromoteRules(ctx, &aliquotv1.PromoteRulesRequest{Version: version})
		return err
	})
}

// Abort withdraws staged rules.
func (l *Cluster) Abort(ctx context.Context) error {
	return l.changeStaged(ctx, func(client aliquotv1connect.RuleServiceClient, version uint64) error {
		_, err := client.AbortRules(ctx, &aliquotv1.AbortRulesRequest{Version: version})
		return err
	})
}

// Rollback brings an earlier version of the rules into force.
func (l *Cluster) Rollback(ctx context.Context, version uint64) error {
	return l.changeRules(ctx, func(client aliquotv1connect.RuleServiceClient) error {
		_, err := client.RollbackRules(ctx, &aliquotv1.RollbackRulesRequest{Version: version, Author: "e2e"})
		return err
	})
}

// AnotherKind is RulesYAML with another placement of the big limit, and with another small limit
// by which answers show that it is in force.
func AnotherKind() string {
	yaml := strings.Replace(RulesYAML, "capacity: 60,", "capacity: 61,", 1)
	return strings.Replace(yaml, "  - id: per-key\n", "  - id: per-key\n    placement: split\n", 1)
}
