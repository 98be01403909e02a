package regional

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aliquot/lua"
)

const (
	// groupsPerCall bounds one store call, so that a large one does not hold Redis
	// up for the others: 64 groups take it about a quarter of a millisecond.
	groupsPerCall = lua.TakeChunk
	// batchCalls is how many of a batcher's calls are under way at once. Redis runs
	// one at a time; the others travel. More would only be smaller calls, and a call
	// costs this process and Redis as much as many groups do. Measured with 128
	// callers, 2 to 4 do the same.
	batchCalls = 4
	// queueFor bounds the wait for a call of a store that answers others, the call itself
	// not included; then the rule's fallback decides. For a silent one nobody waits so long:
	// callerPatience.
	queueFor = 250 * time.Millisecond
	// maxQueued bounds the groups that wait: what Redis decides in queueFor at the
	// 64,000 a second that it does in calls of one.
	maxQueued = 16_384
)

var (
	// errBusy: so many groups wait that this one would not be served in time.
	errBusy = errors.New("regional: too many checks wait for the store")
	// errQueued: no call had room for the groups within queueFor.
	errQueued = errors.New("regional: the check waited too long for its turn at the store")
	// errBroken: a call failed by a bug. The store may have decided the groups all the same.
	errBroken = errors.New("regional: a call of the store failed by a bug of the daemon")
	// errGone is wrapped with the cause when a caller's context ended first.
	errGone = errors.New("the caller did not wait for the decision")
)

// batcher lets concurrent checks share store calls: with one call for each, the
// calls are what Redis and this process spend their time on. While fewer than
// batchCalls are under way a check is sent at once; while they are, checks wait in
// the order they came, and the next call takes as many as it holds. Groups of one
// key therefore reach the store in the order of their arrival, except that calls
// under way at the same time may overtake each other, as the checks in them might.
// Safe for concurrent use; it has no goroutine while it has nothing to do.
type batcher struct {
	ask func(ctx context.Context, groups []*group) error
	// refused is told of groups that were turned away or gave up waiting.
	refused func(error)
	// caught is told of calls that panicked; not nil.
	caught func(cause any)

	mu      sync.Mutex
	queue   []*waiter
	queued  int // groups in queue, those of callers that left included
	running int // calls under way
	workers int // of them those that batches are made for
	// waiters are kept for the next callers.
	waiters sync.Pool
	// heard is the store's last sign of life, or when the first of the calls under way began.
	heard time.Time
}

// waiter is one caller's groups, at most groupsPerCall. The batcher's mu guards what
// changes.
type waiter struct {
	groups []*group
	came   time.Time
	done   chan error // room for one
	sent   bool       // the groups are in a call, or were
	left   bool       // the caller does not wait any more

	patience *time.Timer // of the caller
}

// waiter is one for a caller that comes now.
func (b *batcher) waiter(groups []*group) *waiter {
	w, _ := b.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{done: make(chan error, 1), patience: time.NewTimer(queueFor)}
	}
	w.groups, w.came, w.sent, w.left = groups, time.Now(), false, false
	return w
}

// over takes back a waiter that has got its answer: nobody else looks at it after that.
func (b *batcher) over(w *waiter) {
	w.patience.Stop()
	w.groups = nil
	b.waiters.Put(w)
}

// decide has groups decided in a call shared with others. After an error other than
// errGone, errGivenUp and errBroken nothing was admitted and the groups are the caller's
// again; after these they may still be in use, or half decided.
func (b *batcher) decide(ctx context.Context, groups []*group) error {
	w := b.waiter(groups)
	wait, ok := b.enqueue(w)
	if !ok {
		b.refused(errBusy)
		return errBusy
	}
	return b.wait(ctx, w, wait)
}

// wait waits for a waiter's answer, as long as it has patience: at first so long.
func (b *batcher) wait(ctx context.Context, w *waiter, wait time.Duration) error {
	due := w.came.Add(wait)
	w.patience.Reset(wait)
	for {
		select {
		case err := <-w.done:
			b.over(w)
			return err
		case <-ctx.Done():
			w.patience.Stop()
			b.leave(w)
			return fmt.Errorf("%w: %w", errGone, ctx.Err())
		case <-w.patience.C:
			if wait = b.longer(w, due); wait == 0 {
				return b.giveUp(w)
			}
			due = time.Now().Add(wait)
			w.patience.Reset(wait)
		}
	}
}

// enqueue adds w, and starts a call if one more may be under way. It returns how long to
// wait at first, or false when the queue is full.
func (b *batcher) enqueue(w *waiter) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queued+len(w.groups) > maxQueued {
		return 0, false
	}
	wait = b.first(w.came)
	b.queue = append(b.queue, w)
	b.queued += len(w.groups)
	if b.workers < batchCalls {
		b.workers++
		b.running++
		go b.work()
	}
	return wait, true
}

// first is how long a caller that comes now waits at first. The caller holds mu, and sees
// to it that a call is under way.
func (b *batcher) first(came time.Time) time.Duration {
	wait := b.patience(came)
	if b.running == 0 {
		b.heard = came
	}
	return wait
}

// leave takes w out of the queue and reports whether it was still in it: if so the
// store will not hear of its groups.
func (b *batcher) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.left = true
	return !w.sent
}

// work makes one call after the other until nothing waits.
func (b *batcher) work() {
	for {
		waiters, groups := b.next()
		if len(waiters) == 0 {
			return
		}
		b.serve(waiters, groups)
	}
}

// next takes what the next call holds from the queue. Nothing to take ends the
// worker.
func (b *batcher) next() (waiters []*waiter, groups []*group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if most := min(b.queued, groupsPerCall); most > 0 {
		waiters, groups = make([]*waiter, 0, min(len(b.queue), most)), make([]*group, 0, most)
	}
	for len(b.queue) > 0 {
		w := b.queue[0]
		if !w.left && len(groups)+len(w.groups) > groupsPerCall {
			break
		}
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.queued -= len(w.groups)
		if w.left {
			continue
		}
		w.sent = true
		waiters, groups = append(waiters, w), append(groups, w.groups...)
		w.groups = groups[len(groups)-len(w.groups):] // a caller that gives up changes its own slice
	}
	if len(waiters) == 0 {
		b.workers--
		b.running--
	}
	return waiters, groups
}

// serve makes one call and tells its callers. Groups that the store cannot count
// with, which takes a bug, spoil a call before anything is charged; then each caller
// gets a call of its own, so that the bug harms nobody else. After a panic nobody knows
// what was charged, and nothing is asked again.
func (b *batcher) serve(waiters []*waiter, groups []*group) {
	began := time.Now()
	err := b.call(groups)
	b.sign(began, err)
	alone := len(waiters) == 1 || !errors.Is(err, lua.ErrInvalid)
	for _, w := range waiters {
		if !alone {
			err = b.call(w.groups)
		}
		w.done <- err
	}
}

// call puts groups to the store. A panic is errBroken to those who wait for it, whose rules'
// fallbacks decide: it is no caller's own, so it must end neither their calls nor the
// process.
func (b *batcher) call(groups []*group) error {
	err := caughtIn(func() error { return b.ask(context.Background(), groups) })
	if bug, ok := errors.AsType[*panicError](err); ok {
		b.caught(bug.Error())
		return errBroken
	}
	return err
}

// unsettled tells whether groups may be in use, or half decided, after an error of their
// call: whoever goes on with them takes others in their place.
func unsettled(err error) bool { return errors.Is(err, errGivenUp) || errors.Is(err, errBroken) }
