package storeguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aliquot/internal/stack"
	"aliquot/lua"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
)

var (
	// ErrBusy: maxCalls calls are under way.
	ErrBusy = errors.New("regional: too many calls of the store are under way")
	// errQueued: no call had room for the groups within maxQueueWait.
	errQueued = errors.New("regional: the check waited too long for its turn at the store")
	// ErrBroken: a call failed by a bug. The store may still have decided the groups.
	ErrBroken = errors.New("regional: a call of the store failed by a bug of the daemon")
)

// Batcher lets concurrent checks share store calls. With one call for each check, Redis and this
// process would spend their time on calls. While no call is under way, a check is sent at once.
// Otherwise checks wait in the order of their arrival. The next call begins when one ends, when
// the queue fills a call, or callSpacing after the latest one began, and takes as many groups as
// it holds. So groups of one key reach the store in the order of their arrival. Only calls under
// way at the same time may overtake each other, as their checks might have without a batcher.
// Safe for concurrent use. It has no goroutine while it has nothing to do.
type Batcher struct {
	// Send makes one call to the store, with at most GroupsPerCall groups.
	Send func(ctx context.Context, groups []*charge.Transaction) error
	// Refused is called with the error of groups that were turned away or gave up waiting.
	Refused func(error)
	// Caught is called with the cause of each call that panicked; not nil.
	Caught func(cause any)

	mu      sync.Mutex
	queue   []*waiter
	queued  int // groups in queue, also those of callers that left
	running int // calls under way
	workers int // those of the running calls that take batches
	// lastCall is when the latest call of a batch began.
	lastCall time.Time
	// spacing starts another call if the queue still waits callSpacing after lastCall; nil: no check
	// has had to wait yet. spaced: it is set, and has not fired.
	spacing *time.Timer
	spaced  bool
	// waiters holds waiters for the next callers.
	waiters sync.Pool
	// lastReply is when the store last answered, or when the first of the calls under way began.
	lastReply time.Time
}

// waiter is one caller's groups, at most GroupsPerCall. The batcher's mu guards the fields that
// change.
type waiter struct {
	groups  []*charge.Transaction
	arrived time.Time
	done    chan error // has room for one error
	sent    bool       // the groups are or were in a call
	left    bool       // the caller no longer waits

	patience *time.Timer // of the caller
}

// waiter returns a waiter for a caller that arrives now.
func (b *Batcher) waiter(groups []*charge.Transaction) *waiter {
	w, _ := b.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{done: make(chan error, 1), patience: time.NewTimer(maxQueueWait)}
	}
	w.groups, w.arrived, w.sent, w.left = groups, time.Now(), false, false
	return w
}

// release takes back a waiter that has its answer. Nothing else refers to it after that.
func (b *Batcher) release(w *waiter) {
	w.patience.Stop()
	w.groups = nil
	b.waiters.Put(w)
}

// Decide decides groups by a call that other callers share. After charge.ErrGone, ErrGivenUp and
// ErrBroken the groups may still be in use, or half decided. After any other error nothing was
// admitted, and the groups belong to the caller again.
func (b *Batcher) Decide(ctx context.Context, groups []*charge.Transaction) error {
	w := b.waiter(groups)
	return b.wait(ctx, w, b.enqueue(w))
}

// wait waits for a waiter's answer: at first as long as wait, then for each extension.
func (b *Batcher) wait(ctx context.Context, w *waiter, wait time.Duration) error {
	due := w.arrived.Add(wait)
	w.patience.Reset(wait)
	for {
		select {
		case err := <-w.done:
			b.release(w)
			return err
		case <-ctx.Done():
			w.patience.Stop()
			b.leave(w)
			return fmt.Errorf("%w: %w", charge.ErrGone, ctx.Err())
		case <-w.patience.C:
			if wait = b.extension(w, due); wait == 0 {
				return b.giveUp(w)
			}
			due = time.Now().Add(wait)
			w.patience.Reset(wait)
		}
	}
}

// enqueue adds w, and starts a call if one more may be under way. It returns how long to wait at
// first.
func (b *Batcher) enqueue(w *waiter) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = b.firstWaitLocked(w.arrived)
	b.queue = append(b.queue, w)
	b.queued += len(w.groups)
	b.startLocked(w.arrived)
	return wait
}

// startLocked starts a call for the queue, or sees to it that one starts later. The caller holds mu.
func (b *Batcher) startLocked(now time.Time) {
	if b.workers == BatchCalls {
		return
	}
	wait := callSpacing - now.Sub(b.lastCall)
	if b.workers > 0 && b.queued < GroupsPerCall && wait > 0 {
		b.startAfterLocked(wait)
		return
	}
	b.workers++
	b.running++
	b.lastCall = now
	go b.work()
}

// startAfterLocked has startAgain called after wait, unless it will be already. The caller holds mu.
func (b *Batcher) startAfterLocked(wait time.Duration) {
	switch {
	case b.spaced:
		return
	case b.spacing == nil:
		b.spacing = time.AfterFunc(wait, b.startAgain)
	default:
		b.spacing.Reset(wait)
	}
	b.spaced = true
}

// startAgain starts a call if the queue still waits for one.
func (b *Batcher) startAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spaced = false
	if b.queued > 0 {
		b.startLocked(time.Now())
	}
}

// firstWaitLocked returns how long a caller that arrives now waits at first. The caller holds mu, and
// makes sure that a call is under way.
func (b *Batcher) firstWaitLocked(came time.Time) time.Duration {
	wait := b.patienceLocked(came)
	if b.running == 0 {
		b.lastReply = came
	}
	return wait
}

// leave records that w's caller no longer waits, and reports whether w was still in the queue. If
// so, the store never gets its groups.
func (b *Batcher) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.left = true
	return !w.sent
}

// work makes one call after the other until nothing waits.
func (b *Batcher) work() {
	stack.Grow()
	for {
		began := time.Now()
		waiters, groups := b.next(began)
		if len(waiters) == 0 {
			return
		}
		b.serve(began, waiters, groups)
	}
}

// next takes the waiters of a call that begins now from the queue. If there are none, the worker ends.
func (b *Batcher) next(now time.Time) (waiters []*waiter, groups []*charge.Transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := min(b.queued, GroupsPerCall); room > 0 {
		waiters, groups = make([]*waiter, 0, min(len(b.queue), room)), make([]*charge.Transaction, 0, room)
	}
	for len(b.queue) > 0 {
		w := b.queue[0]
		if !w.left && len(groups)+len(w.groups) > GroupsPerCall {
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
		return nil, nil
	}
	b.lastCall = now
	return waiters, groups
}

// serve makes one call and gives each caller the result. If a bug makes groups that the store
// cannot count with, the call fails before anything is charged. Then each caller gets a call of its
// own, so that the bug harms no other caller. After a panic it is unknown what was charged, so
// nothing is sent again.
func (b *Batcher) serve(began time.Time, waiters []*waiter, groups []*charge.Transaction) {
	err := b.call(groups)
	b.recordReply(began, err)
	separately := len(waiters) > 1 && errors.Is(err, lua.ErrInvalid)
	for _, w := range waiters {
		if separately {
			err = b.call(w.groups)
		}
		w.done <- err
	}
}

// call sends groups to the store. A panic becomes ErrBroken for all callers that wait for the call,
// and their rules' on_redis_failure decides. The panic belongs to no single caller, so it must end
// neither their calls nor the process.
func (b *Batcher) call(groups []*charge.Transaction) error {
	err := b.sendCaught(groups)
	if bug, ok := errors.AsType[*background.PanicError](err); ok {
		b.Caught(bug.Error())
		return ErrBroken
	}
	return err
}

// sendCaught is Send, with a panic as an error.
func (b *Batcher) sendCaught(groups []*charge.Transaction) (err error) {
	defer background.Recover(&err)
	return b.Send(context.Background(), groups)
}

// Unsettled reports whether groups may be in use, or half decided, after an error of their call. A
// caller that goes on must do so with other groups in their place.
func Unsettled(err error) bool { return errors.Is(err, ErrGivenUp) || errors.Is(err, ErrBroken) }

// Unbatched makes a call that no other caller shares, and waits for it no longer than for a shared
// one. After charge.ErrGone and ErrGivenUp the call goes on, so its arguments are still in use.
func (b *Batcher) Unbatched(ctx context.Context, call func(context.Context) error) error {
	w := b.waiter(nil)
	w.sent = true
	b.mu.Lock()
	wait := b.firstWaitLocked(w.arrived)
	b.running++
	b.mu.Unlock()
	go func() {
		began := time.Now()
		err := background.Catch(func() error { return call(context.WithoutCancel(ctx)) })
		b.recordReply(began, err)
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
		w.done <- err
	}()
	err := b.wait(ctx, w, wait)
	background.Rethrow(err)
	return err
}
