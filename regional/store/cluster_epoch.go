package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aliquot/lua"
)

const (
	// learnWithin bounds learning, with the creation of a new epoch for all slots.
	learnWithin = 30 * time.Second
	// createWithin is how long a new epoch may reach no further slot. After that the daemon that writes
	// it counts as gone, and another daemon creates its own.
	createWithin = 2 * time.Second
	// learnedFor is how long the result of learning is kept for callers that have stopped to wait.
	learnedFor = 2 * time.Second
	// failedFor is how long a learning that failed stands: each costs the nodes a reading of all slots.
	failedFor = 500 * time.Millisecond
	// learnPause is the minimum pause between looks at an epoch that another daemon is writing.
	learnPause = 20 * time.Millisecond
)

// learning is one reading of the contents of all slots. All callers meanwhile wait for its result.
type learning struct {
	done  chan struct{}
	epoch string
	err   error
	ended time.Time
}

// stands reports whether the result is still that of the next caller.
func (l *learning) stands() bool {
	if l == nil {
		return false
	}
	age := time.Since(l.ended)
	return age < failedFor || l.err == nil && age < learnedFor
}

// Epoch returns the epoch of the contents, which is the same in all slots. It creates a new one if
// something was lost: a slot has no epoch or another one, a node is another process than before, or a
// node is new. Learning goes on when ctx ends, and the next caller gets its result. So it may take
// longer than any caller can wait. A failure is the answer for failedFor.
func (s *Cluster) Epoch(ctx context.Context) (string, error) {
	s.mu.Lock()
	l := s.learning
	if l == nil && s.learned.stands() {
		l = s.learned
	}
	if l == nil {
		l = &learning{done: make(chan struct{})}
		s.learning = l
		s.background.Go(func() { s.learn(l) })
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("store: learn the Redis Cluster's contents: %w", ctx.Err())
	case <-l.done:
		s.mu.Lock()
		if s.learned == l && l.err == nil {
			s.learned = nil // the next caller needs a new look
		}
		s.mu.Unlock()
		return l.epoch, l.err
	}
}

func (s *Cluster) learn(l *learning) {
	ctx, cancel := context.WithTimeout(s.ctx, learnWithin)
	defer cancel()
	l.err = safely(s.log, "learn the contents", func() (err error) {
		l.epoch, err = s.learnEpoch(ctx)
		return err
	})
	l.ended = time.Now()
	s.mu.Lock()
	s.learning, s.learned = nil, l
	before := s.lastEpoch
	if l.err == nil {
		s.lastEpoch = l.epoch
	}
	check := l.err == nil && !s.policyChecked
	s.policyChecked = s.policyChecked || check
	s.mu.Unlock()
	if l.err == nil && before != "" && before != l.epoch {
		s.log.Warn("the contents of the redis cluster have changed: this daemon writes what it remembers of a key when a request names the key; keys that it does not remember start empty", "epoch", l.epoch, "before", before)
		if s.onEpoch != nil {
			s.onEpoch(l.epoch)
		}
	}
	close(l.done)
	if check {
		s.warnOfEviction(ctx)
	}
}

func (s *Cluster) learnEpoch(ctx context.Context) (string, error) {
	for {
		started := time.Now()
		now, err := s.survey(ctx)
		if err != nil {
			return "", err
		}
		took := time.Since(started)
		epoch := now.epochs[homeSlot]
		s.propagation.observe(now)
		switch {
		case now.uniform() && now.hasName(epoch):
			s.nodes.vouch(now.vouched())
			return epoch, nil
		case now.hasName(epoch) && !s.propagation.ended(now):
			// Another daemon is writing the epoch.
		default:
			epoch, err = s.createEpoch(ctx, now)
			if err != nil {
				return "", err
			}
			if epoch != "" {
				s.nodes.vouch(now.vouched())
				return epoch, nil
			}
		}
		// Surveys take at most half of the nodes' time. The other half is for waiting callers.
		if err := pause(ctx, max(learnPause, took)); err != nil {
			return "", err
		}
	}
}

// createEpoch creates a new epoch and writes it to all slots. It returns an empty epoch if another
// daemon was faster, or if something was lost meanwhile. If two daemons create an epoch at once, the
// home slot decides. The loser does not help the winner, because the contents that it saw may be gone.
func (s *Cluster) createEpoch(ctx context.Context, was *contents) (string, error) {
	nonce := lua.NewNonce()
	home := &job{slot: homeSlot, query: true,
		call: s.scripts.MintCall(s.epochs[homeSlot], was.epochs[homeSlot], nonce, lua.Name(was.epochs[homeSlot], was.servers(), was.named))}
	s.run(ctx, []*job{home})
	if home.err != nil {
		return "", fmt.Errorf("store: create an epoch for the Redis Cluster: %w", home.err)
	}
	epoch, _ := home.reply.(string)
	if !strings.HasPrefix(epoch, nonce+":") {
		return "", nil
	}
	s.propagation.failed = epoch // until the epoch is in every slot
	// Each node gets one call first. Then all nodes know the script, and the other calls are short.
	var first, rest []*job
	knows := map[*node]bool{}
	for slot := range lua.Slots {
		if slot == homeSlot {
			continue
		}
		j := &job{slot: slot, query: true, call: s.scripts.SpreadCall(s.epochs[slot], was.epochs[slot], epoch)}
		if owner := s.nodes.owners[slot].Load(); !knows[owner] {
			knows[owner] = true
			first = append(first, j)
		} else {
			rest = append(rest, j)
		}
	}
	for _, jobs := range [][]*job{first, rest} {
		s.run(ctx, jobs)
		for _, j := range jobs {
			if j.err != nil {
				return "", fmt.Errorf("store: give slot %d its epoch: %w", j.slot, j.err)
			}
			if j.reply != any(epoch) {
				return "", nil
			}
		}
	}
	// Another daemon may have taken this one for gone and written its own epoch to the home slot.
	home = &job{slot: homeSlot, query: true, plain: []any{"get", s.epochs[homeSlot]}}
	s.run(ctx, []*job{home})
	if home.err != nil {
		return "", fmt.Errorf("store: check that the new epoch is in force: %w", home.err)
	}
	if home.reply != any(epoch) {
		return "", nil
	}
	s.propagation = propagation{epoch: epoch, slots: lua.Slots, grewAt: was.now}
	return epoch, nil
}

// warnOfEviction warns of every node that may evict keys; see Redis.Epoch.
func (s *Cluster) warnOfEviction(ctx context.Context) {
	for owner := range s.nodes.primaries() {
		warnOfEviction(ctx, owner.queries, s.log.With("node", owner.addr))
	}
}
