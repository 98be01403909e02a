package storeguard

import (
	"errors"
	"time"
)

var (
	// errStalled: the store is silent, and this caller's groups were not sent to it.
	errStalled = errors.New("regional: the store has not answered for a while")
	// ErrGivenUp: the store is silent. It may have the caller's groups and may still decide them.
	ErrGivenUp = errors.New("regional: the store did not answer in time")
)

// patience returns how long a caller that comes now waits at first. The time is short if calls are
// under way and the store has answered none of them for CallerPatience: then the next call is not
// worth waiting for. The caller holds mu.
func (b *Batcher) patience(now time.Time) time.Duration {
	if b.running > 0 && now.Sub(b.lastReply) >= CallerPatience {
		return SilentPatience
	}
	return CallerPatience
}

// sign records the end of a call as a sign of life of the store, if it is one. A timeout is none.
// An error that came at once is one, provided that the store was asked at all.
func (b *Batcher) sign(began time.Time, err error) {
	now := time.Now()
	if IsOpen(err) || errors.Is(err, ErrBusy) || !answered(err) && now.Sub(began) >= CallerPatience {
		return
	}
	b.mu.Lock()
	b.lastReply = now
	b.mu.Unlock()
}

// longer returns how much longer a caller waits that should have looked at due; 0 means that it
// gives up. A caller that looks late does not give up: this process had no CPU to wake it, and so
// perhaps none to read an answer.
func (b *Batcher) longer(w *waiter, due time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case !w.sent && now.Sub(w.came) >= queueFor:
		return 0
	case now.Sub(b.lastReply) < aliveFor, now.Sub(due) >= lookAgain:
		return lookAgain
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
		if err = errStalled; time.Since(w.came) >= queueFor {
			err = errQueued
		}
	}
	b.Refused(err)
	return err
}
