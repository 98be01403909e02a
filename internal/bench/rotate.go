package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/internal/bench/latency"
)

const (
	// warmUp is the time a client has for its burst and for the budgets to find
	// it, before its steady state is measured.
	warmUp = time.Second
	// maxAdmissions bounds the memory for the intervals' check (24 bytes each).
	// Beyond, the run goes on and the report says that the check is missing.
	maxAdmissions = 8_000_000
	// errorPause keeps a region that refuses connections from being asked in a
	// busy loop.
	errorPause = 10 * time.Millisecond
)

// Rotate runs the configured load until its duration is over or ctx ends, and
// reports. Calls that fail are counted, not returned; an error means that the run
// could not begin.
func Rotate(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Run == "" {
		c.Run = newRunName()
	}
	targets, err := dialTargets(&c)
	if err != nil {
		return nil, err
	}
	defer closeTargets(targets)
	what := given(&c)
	if !c.Limit.known() {
		if what, err = ask(ctx, &c, targets); err != nil {
			return nil, err
		}
	}
	return drive(ctx, &c, targets, what), nil
}

// drive runs the load and judges it by what the limit promises.
func drive(ctx context.Context, c *Config, targets []*target, what promise) *Report {
	r := &run{config: c, targets: targets, promise: what, start: time.Now()}
	if c.Rest > 0 {
		r.rests = make([]rest, c.Clients)
	}
	return r.report(r.drive(ctx))
}

func newRunName() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// run is one run under way.
type run struct {
	config  *Config
	targets []*target
	promise promise
	start   time.Time
	kept    atomic.Int64 // admissions recorded by all workers
	rests   []rest       // by client; none if nobody rests
	rested  atomic.Int64
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// drive runs all workers to the end of the run.
func (r *run) drive(ctx context.Context) []*worker {
	ctx, cancel := context.WithTimeout(ctx, r.config.Duration)
	defer cancel()
	var (
		workers []*worker
		wg      sync.WaitGroup
	)
	for _, lanes := range plan(r.config, r.config.Run) {
		w := &worker{run: r, lanes: lanes, regions: make([]regionCount, len(r.targets)), rng: mathrand.New(mathrand.NewPCG(mathrand.Uint64(), 0))}
		workers = append(workers, w)
		wg.Go(func() { w.drive(ctx) })
	}
	wg.Wait()
	return workers
}

// worker sends the calls of its lanes, one at a time.
type worker struct {
	run        *run
	lanes      []*lane
	rng        *mathrand.Rand
	regions    []regionCount
	latency    latency.Histogram
	admissions []admission
	dropped    bool // admissions beyond maxAdmissions were not recorded
	called     bool
}

// drive sends calls until ctx ends. It sends the first one that is due even if that begins late.
func (w *worker) drive(ctx context.Context) {
	for ctx.Err() == nil || !w.called {
		for _, l := range w.lanes {
			d := max(l.due, w.run.restsUntil(l)) - w.run.now()
			if !w.wait(ctx, d) && (w.called || d > 0) {
				return
			}
			w.called = true
			if !w.call(l) && !w.wait(ctx, errorPause) {
				return
			}
			l.advance(w.run.now())
		}
	}
}

// wait lets d pass and reports whether the run goes on.
func (w *worker) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// call sends the lane's requests once and counts the answers. It is given its own
// deadline, so that the end of the run does not turn calls into failures.
func (w *worker) call(l *lane) (ok bool) {
	sent := w.run.now()
	region := l.region(w.run.config, sent, w.rng)
	ctx, cancel := context.WithTimeout(context.Background(), w.run.config.Timeout)
	answers, err := w.run.targets[region].send(ctx, l.requests)
	cancel()
	received := w.run.now()
	count := &w.regions[region]
	at := count.bucket(int(received / w.run.config.Bucket))
	if err != nil {
		count.fail(kind(err), int64(len(l.requests)), err)
		at.Errors += int64(len(l.requests))
		return false
	}
	w.latency.Add(received - sent)
	for i, answer := range answers {
		w.count(l.slots[i], answer.Allowed, sent, received)
		w.run.rest(l.slots[i].client, answer.Allowed, received)
		at.Offered++
		count.mode(answer.Mode)
		if answer.Allowed {
			at.Admitted++
		}
	}
	return true
}

// count books one answer for its client.
func (w *worker) count(s *slot, allowed bool, sent, received time.Duration) {
	if s.answered == 0 {
		s.firstSent = sent
	}
	s.answered++
	s.lastReceived = received
	late := sent >= warmUp
	if late {
		s.lateAnswered++
	}
	if !allowed {
		return
	}
	s.admitted++
	if late {
		s.lateAdmitted++
	}
	if w.dropped = w.dropped || w.run.kept.Add(1) > maxAdmissions; !w.dropped {
		w.admissions = append(w.admissions, admission{client: s.client, sent: sent, received: received})
	}
}

// regionCount is what one worker saw of one region.
type regionCount struct {
	series  []Bucket
	modes   map[string]int64
	errors  map[string]int64
	example map[string]string // an error message of each kind
}

func (c *regionCount) bucket(i int) *Bucket {
	for len(c.series) <= i {
		c.series = append(c.series, Bucket{})
	}
	return &c.series[i]
}

func (c *regionCount) mode(m string) {
	if c.modes == nil {
		c.modes = map[string]int64{}
	}
	c.modes[m]++
}

func (c *regionCount) fail(kind string, n int64, err error) {
	if c.errors == nil {
		c.errors, c.example = map[string]int64{}, map[string]string{}
	}
	c.errors[kind] += n
	c.example[kind] = err.Error()
}
