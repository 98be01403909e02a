package storeguard

import (
	"errors"
	"time"
)

var (
	// errStalled: the store is silent, and it has not got this caller's groups.
	errStalled = errors.New("regional: the store has not answered for a while")
	// ErrGivenUp: the store is silent. It may have the caller's groups and may still decide them.
	ErrGivenUp = errors.New("regional: the store did not answer in time")
)

// patienceLocked returns how long a caller that comes now waits at first. The time is short if calls
// are under way and the store has answered none for CallerPatience: then the next call is hardly
// worth a wait. The caller holds mu.
func (b *Batcher) patienceLocked(now time.Time) time.Duration {
	if b.running > 0 && now.Sub(b.lastReply) >= CallerPatience {
		return SilentPatience
	}
	return CallerPatience
}

// recordReply records the end of a call as a reply of the store, if it is one. A timeout is none. An
// early error counts as one, unless the store never got the call.
func (b *Batcher) recordReply(began time.Time, err error) {
	now := time.Now()
	if IsOpen(err) || errors.Is(err, ErrBusy) || !answered(err) && now.Sub(began) >= CallerPatience {
		return
	}
	b.mu.Lock()
	b.lastReply = now
	b.mu.Unlock()
}

// extension returns how much longer a caller waits whose wait ended at due; 0 means that it gives
// up. A caller that wakes late does not give up: this process had no CPU to wake it, and so perhaps
// none to read an answer.
func (b *Batcher) extension(w *waiter, due time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case !w.sent && now.Sub(w.arrived) >= maxQueueWait:
		return 0
	case now.Sub(b.lastReply) < aliveWithin, now.Sub(due) >= checkEvery:
		return checkEvery
	}
	return 0
}

// giveUp ends a caller's wait, and returns the answer if it has arrived by now.
func (b *Batcher) giveUp(w *waiter) error {
	select {
	case err := <-w.done:
		return err
	default:
	}
	err := ErrGivenUp
	if b.leave(w) {
		if err = errStalled; time.Since(w.arrived) >= maxQueueWait {
			err = errQueued
		}
	}
	b.Refused(err)
	return err
}
