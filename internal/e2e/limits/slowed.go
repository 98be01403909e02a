package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

const (
	// forgottenAfter is how long a store keeps the record of a bucket that was fast.
	forgottenAfter = 4 * time.Second
	// A client spends shortlyBefore the end of its override. The override ends overrideLasts from now, which is longer
	// than rules take to come into force.
	shortlyBefore, overrideLasts = 60 * time.Millisecond, 5 * time.Second
)

// slowedRules returns the cluster's rules with three that are slowed. The capacity of the small limit shows which rules
// are in force. Rule alone has a rate; one client of shared and one of ending have a fast override until a time. alone
// and ending are independent.
func slowedRules(smallest int, rate float64, until time.Time) string {
	override := fmt.Sprintf(`{%q: {capacity: %d, refill_rate: %v, until: %q}}`, clients.SlowedClient(0), clients.SlowedBurst, clients.FastRate, until.UTC().Format(time.RFC3339Nano))
	return strings.Replace(e2e.RulesYAML, "capacity: 60,", fmt.Sprintf("capacity: %d,", smallest), 1) + fmt.Sprintf(`  - id: alone
    match: {attributes: {plan: alone}}
    params: {capacity: %[1]d, refill_rate: %[2]v}
    enforcement: independent
  - id: shared
    match: {attributes: {plan: shared}}
    params: {capacity: %[1]d, refill_rate: %[3]v}
    enforcement: strict
    override: %[4]s
  - id: ending
    match: {attributes: {plan: ending}}
    params: {capacity: %[1]d, refill_rate: %[3]v}
    enforcement: independent
    override: %[4]s
`, clients.SlowedBurst, rate, clients.SlowRate, override)
}

// ruleSlowed: when a rule is slowed, by other rules or by the end of an override, a client that has emptied its bucket
// gets no full one, although the record of the fast bucket has expired.
func ruleSlowed(ctx context.Context, l *e2e.Cluster, _ promise.Scale) ([]promise.Result, error) {
	until := time.Now().Add(overrideLasts)
	if _, err := l.ApplyRules(ctx, slowedRules(61, clients.FastRate, until), 61); err != nil {
		return nil, err
	}
	shared, ending := &clients.Account{Change: until}, make([]*clients.Account, len(l.Regions))

	e2e.Pause(ctx, time.Until(until.Add(-shortlyBefore)))
	err := clients.Everywhere(l, func(i int, client clients.Spender) error {
		// Less than half of the region's floor of the shared key, which stays cold.
		if _, err := client.Spend(ctx, shared, "shared", 0, int64(clients.SlowedBurst/len(l.Regions)/2-clients.SpendCost/2)); err != nil {
			return err
		}
		ending[i] = &clients.Account{Change: until}
		_, err := client.Spend(ctx, ending[i], "ending", 0, clients.SlowedBurst)
		return err
	})
	if err != nil {
		return nil, err
	}
	e2e.Pause(ctx, time.Until(until.Add(forgottenAfter)))
	if err = clients.Everywhere(l, func(i int, client clients.Spender) error {
		if err := client.Empty(ctx, shared, "shared", 0); err != nil {
			return err
		}
		return client.Empty(ctx, ending[i], "ending", 0)
	}); err != nil {
		return nil, err
	}

	applied := make(chan error, 1)
	go func() {
		_, err := l.ApplyRules(ctx, slowedRules(62, clients.SlowRate, until), 62)
		applied <- err
	}()
	alone := make([][]*clients.Account, len(l.Regions))
	if err = errors.Join(clients.Everywhere(l, func(i int, client clients.Spender) (err error) {
		alone[i], err = client.UntilSlow(ctx)
		return err
	}), <-applied); err != nil {
		return nil, err
	}
	e2e.Pause(ctx, forgottenAfter)
	if err = clients.Everywhere(l, func(i int, client clients.Spender) error {
		for n, a := range alone[i] {
			if err := client.Empty(ctx, a, "alone", n); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	_, err = l.ApplyRules(ctx, e2e.RulesYAML, 60)
	return []promise.Result{
		promise.AtMost("gain over the worst interval, an override of a strict limit ends", shared.Gain(), 1),
		promise.AtMost("gain over the worst interval, an override of an independent limit ends", worst(ending), 1),
		promise.AtMost("gain over the worst interval, a rule is slowed", worst(slices.Concat(alone...)), 1),
	}, err
}

// worst returns the largest gain of some accounts.
func worst(accounts []*clients.Account) (gain float64) {
	for _, a := range accounts {
		gain = max(gain, a.Gain())
	}
	return gain
}
