package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// slowedBurst is the capacity of the rules that are slowed, fastRate and slowRate their rates a
	// second before and after.
	slowedBurst, fastRate, slowRate = 500, 1000., .001
	// forgottenAfter is when the record of a bucket that was fast would have expired.
	forgottenAfter = 4 * time.Second
	// shortlyBefore is how long before its override ends a client spends, and overrideLasts how
	// long that is from now: longer than rules take to come into force.
	shortlyBefore, overrideLasts = 60 * time.Millisecond, 5 * time.Second
	// spendCost is the cost of one of many checks that empty a bucket, and drainEvery the pause
	// between two clients that empty theirs at once.
	spendCost, drainEvery = 10, 10 * time.Millisecond
)

// slowedRules are the cluster's, with a capacity of the small limit that shows which are in force, and
// three that are slowed: alone has a rate, and one client of shared and of ending has a fast
// override until a time. The buckets of alone and ending are each region's own.
func slowedRules(smallest int, rate float64, until time.Time) string {
	override := fmt.Sprintf(`{%q: {capacity: %d, refill_rate: %v, until: %q}}`, slowedClient(0), slowedBurst, fastRate, until.UTC().Format(time.RFC3339Nano))
	return strings.Replace(RulesYAML, "capacity: 60,", fmt.Sprintf("capacity: %d,", smallest), 1) + fmt.Sprintf(`  - id: alone
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
`, slowedBurst, rate, slowRate, override)
}

// ruleSlowed: a client that has emptied its bucket when its rule is slowed, by other rules or by
// the end of its override, is not given a full one because the record of the fast one has expired.
func ruleSlowed(ctx context.Context, l *Cluster, _ Scale) ([]Result, error) {
	until := time.Now().Add(overrideLasts)
	if _, err := l.applyRules(ctx, slowedRules(61, fastRate, until), 61); err != nil {
		return nil, err
	}
	shared, ending := &account{change: until}, make([]*account, len(l.Regions))

	pause(ctx, time.Until(until.Add(-shortlyBefore)))
	err := l.everywhere(func(i int, client spender) error {
		// Less than half of the region's floor of the shared key, which stays cold.
		if _, err := client.spend(ctx, shared, "shared", 0, int64(slowedBurst/len(l.Regions)/2-spendCost/2)); err != nil {
			return err
		}
		ending[i] = &account{change: until}
		_, err := client.spend(ctx, ending[i], "ending", 0, slowedBurst)
		return err
	})
	if err != nil {
		return nil, err
	}
	pause(ctx, time.Until(until.Add(forgottenAfter)))
	if err = l.everywhere(func(i int, client spender) error {
		if err := client.empty(ctx, shared, "shared", 0); err != nil {
			return err
		}
		return client.empty(ctx, ending[i], "ending", 0)
	}); err != nil {
		return nil, err
	}

	applied := make(chan error, 1)
	go func() {
		_, err := l.applyRules(ctx, slowedRules(62, slowRate, until), 62)
		applied <- err
	}()
	alone := make([][]*account, len(l.Regions))
	if err = errors.Join(l.everywhere(func(i int, client spender) (err error) {
		alone[i], err = client.untilSlow(ctx)
		return err
	}), <-applied); err != nil {
		return nil, err
	}
	pause(ctx, forgottenAfter)
	if err = l.everywhere(func(i int, client spender) error {
		for n, a := range alone[i] {
			if err := client.empty(ctx, a, "alone", n); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	_, err = l.applyRules(ctx, RulesYAML, 60)
	return []Result{
		atMost("gain over the worst interval, an override of a strict limit ends", shared.gain(), 1),
		atMost("gain over the worst interval, an override of an independent limit ends", worst(ending), 1),
		atMost("gain over the worst interval, a rule is slowed", worst(slices.Concat(alone...)), 1),
	}, err
}

func worst(accounts []*account) (gain float64) {
	for _, a := range accounts {
		gain = max(gain, a.gain())
	}
	return gain
}

// everywhere does something in every region at once.
func (l *Cluster) everywhere(do func(int, spender) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(l.Regions))
	for i, r := range l.Regions {
		all.Go(func() { errs[i] = do(i, l.spender(r)) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// spender is a client of one region.
type spender struct {
	aliquotv1connect.LimiterServiceClient
}

func (l *Cluster) spender(r *Region) spender {
	return spender{aliquotv1connect.NewLimiterServiceClient(l.http, rpc.BaseURL(r.Address))}
}

// spend asks for a cost under a plan as one of some clients, and enters what was admitted.
func (c spender) spend(ctx context.Context, in *account, plan string, number int, cost int64) (*aliquotv1.CheckResponse, error) {
	sent := time.Now()
	answer, err := c.Check(ctx, &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": plan, "api_key": slowedClient(number)}, Cost: &cost})
	if err == nil && answer.Allowed {
		in.enter(spending{sent: sent, answered: time.Now(), tokens: cost})
	}
	return answer, err
}

// empty spends until it is denied.
func (c spender) empty(ctx context.Context, in *account, plan string, number int) error {
	for {
		if answer, err := c.spend(ctx, in, plan, number, spendCost); err != nil || !answer.Allowed {
			return err
		}
	}
}

// untilSlow empties one client's bucket after the other until an answer shows the slow rate. It
// does not touch the others again, whose records are kept for as long as the fast one takes.
func (c spender) untilSlow(ctx context.Context) (out []*account, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for slow := false; !slow; pause(ctx, drainEvery) {
		a := &account{}
		answer, err := c.spend(ctx, a, "alone", len(out), slowedBurst)
		if err != nil {
			return nil, err
		}
		slow, out = answer.ResetAfter.AsDuration() > time.Minute, append(out, a)
	}
	for _, a := range out {
		a.change = time.Now()
	}
	return out, nil
}

// slowedClient is the API key of a client; that of the first one has the override.
func slowedClient(number int) string { return fmt.Sprintf("slowed-%d", number) }

// spending is what one check was admitted, by the client's clock.
type spending struct {
	sent, answered time.Time
	tokens         int64
}

// account is what clients were given of one bucket that becomes slow at a time, at the latest.
// It is safe for concurrent use but for change.
type account struct {
	change time.Time
	mu     sync.Mutex
	spent  []spending
}

func (a *account) enter(s spending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent = append(a.spent, s)
}

// gain is the largest part that was given, in any interval, of what one bucket admits in it.
func (a *account) gain() (most float64) {
	for _, first := range a.spent {
		for _, last := range a.spent {
			sum := 0.
			for _, s := range a.spent {
				if !s.sent.Before(first.sent) && !s.answered.After(last.answered) {
					sum += float64(s.tokens)
				}
			}
			most = max(most, sum/(slowedBurst+a.earned(first.sent, last.answered)))
		}
	}
	return most
}

// earned is what the bucket earns from one time to another.
func (a *account) earned(from, to time.Time) float64 {
	fast := min(to.Sub(from), a.change.Sub(from))
	slow := min(to.Sub(from), to.Sub(a.change))
	return fastRate*max(0, fast.Seconds()) + slowRate*max(0, slow.Seconds())
}
