package limits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"aliquot/internal/e2e"
	"aliquot/internal/e2e/promise"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// blocksHold: keys are blocked before, during and after an apply of rules, while a version is staged, after a rollback,
// and after the leader was killed. Each block then holds in every region: through all of these changes, and through a
// restart of a regional daemon without any coordinator.
func blocksHold(ctx context.Context, l *e2e.Cluster, _ promise.Scale) (out []promise.Result, err error) {
	w := watchBlocks(ctx, l)
	defer w.stop()
	changed := strings.Replace(e2e.RulesYAML, "capacity: 60,", "capacity: 61,", 1)
	victim := l.Regions[1]
	var slowest time.Duration
	block := func(name string) error {
		took, err := w.block(ctx, name)
		slowest = max(slowest, took)
		return err
	}
	applyWhileBlocking := func() error {
		applied := make(chan error, 1)
		go func() {
			_, err := l.ApplyRules(ctx, changed, 61)
			applied <- err
		}()
		return errors.Join(block("during an apply"), <-applied)
	}
	killLeader := func() error {
		leader, err := l.SomeLeader(ctx)
		if err != nil {
			return err
		}
		if err := leader.Kill9(); err != nil {
			return err
		}
		_, err = w.block(ctx, "without the leader there was") // at the next leader
		return errors.Join(err, leader.Start(), l.AwaitAllCoordinators(ctx))
	}
	for _, step := range []func() error{
		func() error { return block("before") },
		applyWhileBlocking,
		func() error { return block("after an apply") },
		func() error { return l.Stage(ctx, e2e.RulesYAML, l.Regions[0].Name) },
		func() error { return block("while a version is staged") },
		func() error { return l.Promote(ctx) },
		func() error { return l.Stage(ctx, changed, l.Regions[2].Name) },
		func() error { return block("while another one is staged") },
		func() error { return l.Abort(ctx) },
		func() error { return l.Rollback(ctx, 1) },
		func() error { return block("after a rollback") },
		killLeader,
		func() error {
			return errors.Join(l.KillCoordinators(), victim.Kill9(), victim.Start(), l.AwaitRules(ctx, victim))
		},
		func() error { return w.probe(ctx) },
		func() error { _, err := l.RestartCoordinators(ctx); return err },
		func() error { return w.probe(ctx) },
	} {
		if err := step(); err != nil {
			return nil, l.WithLogs(err)
		}
	}
	w.stop()
	answers, passed := w.result()
	var left []string
	for _, name := range w.names() {
		if err := w.unlist(ctx, name); err != nil {
			left = append(left, fmt.Sprintf("%s: %v", name, err))
		}
	}
	_, err = l.ApplyRules(ctx, e2e.RulesYAML, 60)
	return []promise.Result{
		promise.None("answers of blocked keys that passed", int64(len(passed)), passed),
		promise.AtLeast("answers of blocked keys", float64(answers), 500),
		promise.AtMost("seconds until a block is in force everywhere, at most", slowest.Seconds(), 2),
		promise.None("blocks that could not be taken away", int64(len(left)), left),
	}, err
}

// blockWatch asks every region for every blocked key, every e2e.PollEvery.
type blockWatch struct {
	cluster *e2e.Cluster
	end     context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	blocked []string
	answers int
	passed  []string
}

func watchBlocks(ctx context.Context, l *e2e.Cluster) *blockWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &blockWatch{cluster: l, end: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(e2e.PollEvery)
		defer tick.Stop()
		for {
			_ = w.probe(ctx) // a daemon may be down
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

func (w *blockWatch) stop() {
	w.end()
	<-w.done
}

func (w *blockWatch) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.blocked...)
}

func (w *blockWatch) result() (answers int, passed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers, w.passed
}

// probe asks every region once for every blocked key. It is an error if a region does not answer.
func (w *blockWatch) probe(ctx context.Context) error {
	for _, r := range w.cluster.Regions {
		for _, name := range w.names() {
			answer, err := w.ask(ctx, r, name)
			if err != nil {
				return err
			}
			w.mu.Lock()
			if w.answers++; answer.GetMode() != "block_list" {
				w.passed = append(w.passed, fmt.Sprintf("%s in %s by %s", name, r.Name, answer.GetMode()))
			}
			w.mu.Unlock()
		}
	}
	return nil
}

func (w *blockWatch) ask(ctx context.Context, r *e2e.Region, name string) (*aliquotv1.CheckResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, e2e.CallWithin)
	defer cancel()
	return aliquotv1connect.NewLimiterServiceClient(w.cluster.HTTP, rpc.BaseURL(r.Address)).Check(ctx, &aliquotv1.CheckRequest{
		Attributes: map[string]string{"plan": "small", "api_key": name},
	})
}

// block blocks a key and returns how long it took until every region denied it. Then it adds the key to those that are
// watched.
func (w *blockWatch) block(ctx context.Context, name string) (time.Duration, error) {
	client, err := w.cluster.AnyRules(ctx)
	if err != nil {
		return 0, err
	}
	// A call without an answer may have been carried out. To repeat it does no harm.
	err = e2e.Until(ctx, e2e.ReadyWithin, "blocked", func() error {
		_, err := client.EditRules(ctx, &aliquotv1.EditRulesRequest{Author: "e2e", Edit: &aliquotv1.EditRulesRequest_Block{Block: &aliquotv1.ListEdit{Pattern: name}}})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("block %q: %w", name, err)
	}
	began := time.Now()
	for _, r := range w.cluster.Regions {
		err := e2e.Until(ctx, e2e.ReadyWithin, name+" blocked in "+r.Name, func() error {
			answer, err := w.ask(ctx, r, name)
			if err == nil && answer.GetMode() != "block_list" {
				err = fmt.Errorf("decided by %s", answer.GetMode())
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked = append(w.blocked, name)
	return time.Since(began), nil
}

func (w *blockWatch) unlist(ctx context.Context, name string) error {
	client, err := w.cluster.AnyRules(ctx)
	if err != nil {
		return err
	}
	return e2e.WhenLed(ctx, func() error {
		_, err := client.EditRules(ctx, &aliquotv1.EditRulesRequest{Author: "e2e", Edit: &aliquotv1.EditRulesRequest_Unlist{Unlist: name}})
		return err
	})
}
