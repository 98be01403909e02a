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
	// SlowedBurst is the capacity of the rules that are slowed, FastRate and SlowRate their rates a
	// second before and after.
	SlowedBurst, FastRate, SlowRate = 500, 1000., .001
	// SpendCost is the cost of one of many checks that empty a bucket, and DrainEvery the pause
	// between two clients that empty theirs at once.
	SpendCost, DrainEvery = 10, 10 * time.Millisecond
)

// Everywhere does something in every region at once.
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

// Spend asks for a cost under a plan as one of some clients, and enters what was admitted.
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

// UntilSlow empties one client's bucket after the other until an answer shows the slow rate. It
// does not touch the others again, whose records are kept for as long as the fast one takes.
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

// SlowedClient is the API key of a client; that of the first one has the override.
func SlowedClient(number int) string { return fmt.Sprintf("slowed-%d", number) }

// spending is what one check was admitted, by the client's clock.
type spending struct {
	sent, answered time.Time
	Tokens         int64
}

// Account is what clients were given of one bucket that becomes slow at a time, at the latest.
// It is safe for concurrent use but for change.
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

// Gain is the largest part that was given, in any interval, of what one bucket admits in it.
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

// earned is what the bucket earns from one time to another.
func (a *Account) earned(from, to time.Time) float64 {
	fast := min(to.Sub(from), a.Change.Sub(from))
	slow := min(to.Sub(from), to.Sub(a.Change))
	return FastRate*max(0, fast.Seconds()) + SlowRate*max(0, slow.Seconds())
}
