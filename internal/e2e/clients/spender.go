package clients

import (
	"context"
	"fmt"
	"sync"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// SlowedBurst is the capacity of the rules that are slowed. FastRate and SlowRate are their rates a second, before
	// and after the change.
	SlowedBurst, FastRate, SlowRate = 500, 1000., .001
	// SpendCost is the cost of each check with which Empty empties a bucket. DrainEvery is the pause between two
	// clients that empty theirs with one check.
	SpendCost, DrainEvery = 10, 10 * time.Millisecond
)

// Everywhere calls do for every region at once, and returns the first error.
func Everywhere(l *e2e.Cluster, do func(int, Spender) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(l.Regions))
	for i, r := range l.Regions {
		all.Go(func() { errs[i] = do(i, newSpender(l, r)) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Spender is a client of one region.
type Spender struct {
	aliquotv1connect.LimiterServiceClient
}

func newSpender(l *e2e.Cluster, r *e2e.Region) Spender {
	return Spender{aliquotv1connect.NewLimiterServiceClient(l.HTTP, rpc.BaseURL(r.Address))}
}

// Spend sends a check with a cost as the client of a plan with a number. It enters what was admitted into an account.
func (c Spender) Spend(ctx context.Context, in *Account, plan string, number int, cost int64) (*aliquotv1.CheckResponse, error) {
	sent := time.Now()
	answer, err := c.Check(ctx, &aliquotv1.CheckRequest{Attributes: map[string]string{"plan": plan, "api_key": SlowedClient(number)}, Cost: &cost})
	if err == nil && answer.Allowed {
		in.enter(spending{sent: sent, answered: time.Now(), Tokens: cost})
	}
	return answer, err
}

// Empty spends until it is denied.
func (c Spender) Empty(ctx context.Context, in *Account, plan string, number int) error {
	for {
		if answer, err := c.Spend(ctx, in, plan, number, SpendCost); err != nil || !answer.Allowed {
			return err
		}
	}
}

// UntilSlow empties the buckets of new clients, one after the other, until an answer shows the slow rate. It does not
// ask for the earlier clients again, so the store drops their records after the time of the fast rate.
func (c Spender) UntilSlow(ctx context.Context) (out []*Account, err error) {
	ctx, cancel := context.WithTimeout(ctx, e2e.ReadyWithin)
	defer cancel()
	for slow := false; !slow; e2e.Pause(ctx, DrainEvery) {
		a := &Account{}
		answer, err := c.Spend(ctx, a, "alone", len(out), SlowedBurst)
		if err != nil {
			return nil, err
		}
		slow, out = answer.ResetAfter.AsDuration() > time.Minute, append(out, a)
	}
	for _, a := range out {
		a.Change = time.Now()
	}
	return out, nil
}

// SlowedClient returns the API key of a client. That with number 0 has the override.
func SlowedClient(number int) string { return fmt.Sprintf("slowed-%d", number) }

// spending is one check that was admitted, with its times by the client's clock.
type spending struct {
	sent, answered time.Time
	Tokens         int64
}

// Account is what clients got of one bucket, which becomes slow at Change at the latest. It is safe for concurrent use,
// except for Change.
type Account struct {
	Change time.Time
	mu     sync.Mutex
	Spent  []spending
}

func (a *Account) enter(s spending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Spent = append(a.Spent, s)
}

// Gain returns the largest part that clients got in any interval of what one bucket admits in it.
func (a *Account) Gain() (most float64) {
	for _, first := range a.Spent {
		for _, last := range a.Spent {
			sum := 0.
			for _, s := range a.Spent {
				if !s.sent.Before(first.sent) && !s.answered.After(last.answered) {
					sum += float64(s.Tokens)
				}
			}
			most = max(most, sum/(SlowedBurst+a.earned(first.sent, last.answered)))
		}
	}
	return most
}

// earned returns what the bucket earns between two times.
func (a *Account) earned(from, to time.Time) float64 {
	fast := min(to.Sub(from), a.Change.Sub(from))
	slow := min(to.Sub(from), to.Sub(a.Change))
	return FastRate*max(0, fast.Seconds()) + SlowRate*max(0, slow.Seconds())
}
