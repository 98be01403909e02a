package promise

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"aliquot/internal/e2e"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// sampleEvery is how often all coordinators are asked for a budget.
const sampleEvery = 100 * time.Millisecond

// Watch samples the budgets of keys and the regions' floors at all coordinators, until done is closed.
func Watch(ctx context.Context, l *e2e.Cluster, done <-chan struct{}, keys ...map[string]string) *Watched {
	w := &Watched{last: map[string]string{}}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, key := range keys {
				w.sample(ctx, l, key)
			}
			w.sampleFloors(ctx, l)
		case <-done:
			return w
		}
	}
}

// Watched is what the samples showed: of which kind how many were, and an example.
type Watched struct {
	samples, compared, changes, over, differed, failed int64
	worst, difference, failure                         string
	last                                               map[string]string // shares by API key
}

// Results are the promises about the samples.
func (w *Watched) Results(s Scale) []Result {
	return []Result{
		None("questions about budgets without an answer", w.failed, w.failure),
		None("samples whose shares and pool add up to more than 1", w.over, w.worst),
		None("coordinators that differed at the same Raft index", w.differed, w.difference),
		AtLeast("comparisons at the same Raft index, of each sample", float64(w.compared)/float64(max(w.samples, 1)), 1),
		AtLeast("share changes seen", float64(w.changes), float64(s.ShareChanges)),
	}
}

// sample asks all coordinators at once.
func (w *Watched) sample(ctx context.Context, l *e2e.Cluster, key map[string]string) {
	answers := make([]*aliquotv1.Budget, len(l.Coordinators))
	errs := make([]error, len(l.Coordinators))
	var all sync.WaitGroup
	for i, c := range l.Coordinators {
		all.Go(func() { answers[i], errs[i] = l.Budget(ctx, c, e2e.BigRule, key) })
	}
	all.Wait()
	w.samples++
	byIndex := map[uint64]string{} // shares by Raft index
	for i, b := range answers {
		if errs[i] != nil {
			w.fail(errs[i])
			continue
		}
		w.addUp(b)
		shares := SharesOf(b)
		if other, ok := byIndex[b.AppliedIndex]; ok {
			w.compared++
			if other != shares {
				w.differed++
				w.difference = other + " / " + shares
			}
		}
		byIndex[b.AppliedIndex] = shares
		if id := key["api_key"]; i == 0 && shares != w.last[id] {
			w.changes++
			w.last[id] = shares
		}
	}
}

func (w *Watched) fail(err error) {
	w.failed++
	w.failure = err.Error()
}

// sampleFloors adds up the largest floors that the regions could be enforcing, as each coordinator shows them.
func (w *Watched) sampleFloors(ctx context.Context, l *e2e.Cluster) {
	for _, c := range l.Coordinators {
		regions, err := l.Declared(ctx, c)
		if err != nil {
			w.fail(err)
			continue
		}
		sum := 0.
		for _, r := range regions {
			sum += max(r.Floor, r.FloorBound)
		}
		if sum > full {
			w.over++
			w.worst = fmt.Sprint(regions)
		}
	}
}

// full is the whole limit, plus the rounding error of a sum.
const full = 1 + 1e-9

// addUp counts a budget whose shares and pool add up to more than the limit.
func (w *Watched) addUp(b *aliquotv1.Budget) {
	rate, burst := b.PoolShare, 0.
	for _, r := range b.Regions {
		rate += r.Share
		burst += r.BurstShare
	}
	if rate > full || burst > full {
		w.over++
		w.worst = SharesOf(b)
	}
}

// SharesOf returns the shares of a budget as text, to compare it with another.
func SharesOf(b *aliquotv1.Budget) string {
	var out strings.Builder
	for _, r := range b.GetRegions() {
		fmt.Fprintf(&out, "%s=%.6f/%.6f ", r.Region, r.Share, r.BurstShare)
	}
	fmt.Fprintf(&out, "pool=%.6f", b.GetPoolShare())
	return out.String()
}
