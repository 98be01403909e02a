package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aliquot/lua"
)

const (
	// learnWithin bounds learning, minting for all slots included, whoever waits for it.
	learnWithin = 30 * time.Second
	// mintWithin is how long no slot may get a new epoch before the daemon that gives it is
	// taken for gone, and another one mints its own.
	mintWithin = 2 * time.Second
	// learnedFor is how long what was learned is kept for whoever stopped waiting for it.
	learnedFor = 2 * time.Second
	// learnPause spaces looks at a mint that another daemon makes, at least.
	learnPause = 20 * time.Millisecond
)

// learning is one look at the contents, which everybody who asks meanwhile waits for.
type learning struct {
	done  chan struct{}
	epoch string
	err   error
	ended time.Time
}

// Epoch learns the epoch of the contents, one for all slots, or mints it: where a slot has
// none or another one, something was lost, and likewise where a node is not the process
// that it was, or one more. Learning goes on when ctx ends; whoever asks next finds it done,
// however long it takes beside what callers have time for.
func (s *Cluster) Epoch(ctx context.Context) (string, error) {
	s.mu.Lock()
	l := s.learning
	if l == nil && s.learned != nil && time.Since(s.learned.ended) < learnedFor {
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
		if s.learned == l {
			s.learned = nil // the next one wants to know anew
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
	s.learning = nil
	before := s.seen
	if l.err == nil {
		s.learned, s.seen = l, l.epoch
	}
	check := l.err == nil && !s.policyChecked
	s.policyChecked = s.policyChecked || check
	s.mu.Unlock()
	if l.err == nil && before != "" && before != l.epoch {
		s.log.Warn("the redis cluster has other contents than before: shares start empty", "epoch", l.epoch, "before", before)
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
		s.spread.look(now)
		switch {
		case now.uniform() && now.names(epoch):
			s.nodes.vouch(now.processes)
			return epoch, nil
		case now.names(epoch) && !s.spread.over(now):
			// Somebody is at it.
		default:
			epoch, err = s.mint(ctx, now)
			if err != nil {
				return "", err
			}
			if epoch != "" {
				s.nodes.vouch(now.processes)
				return epoch, nil
			}
		}
		// Half of the nodes' time, at most, is for those who wait.
		if err := pause(ctx, max(learnPause, took)); err != nil {
			return "", err
		}
	}
}

// mint makes a new epoch and gives it to all slots; empty if another daemon was faster, or
// if something was lost meanwhile. Of two that mint at once, the home slot decides. The
// one that lost does not help: what it saw may be gone by now.
func (s *Cluster) mint(ctx context.Context, was *contents) (string, error) {
	nonce := newNonce()
	home := &job{slot: homeSlot, asks: true,
		call: s.scripts.MintCall(s.epochs[homeSlot], was.epochs[homeSlot], nonce, was.servers()+strings.Join(was.promotions, ""))}
	s.run(ctx, []*job{home})
	if home.err != nil {
		return "", fmt.Errorf("store: mint an epoch for the Redis Cluster: %w", home.err)
	}
	epoch, _ := home.reply.(string)
	if !strings.HasPrefix(epoch, nonce+":") {
		return "", nil
	}
	s.spread.failed = epoch // until it stands everywhere
	// One call for each node first: then all know the script, and the others are short.
	var first, rest []*job
	knows := map[*node]bool{}
	for slot := range lua.Slots {
		if slot == homeSlot {
			continue
		}
		j := &job{slot: slot, asks: true, call: s.scripts.SpreadCall(s.epochs[slot], was.epochs[slot], epoch)}
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
	// Another daemon may have taken this one for gone, and given the home slot its own.
	home = &job{slot: homeSlot, asks: true, plain: []any{"get", s.epochs[homeSlot]}}
	s.run(ctx, []*job{home})
	if home.err != nil {
		return "", fmt.Errorf("store: look whether an epoch stands: %w", home.err)
	}
	if home.reply != any(epoch) {
		return "", nil
	}
	s.spread = spread{epoch: epoch, slots: lua.Slots, grown: was.now}
	return epoch, nil
}

// warnOfEviction is Redis.warnOfEviction for every node.
func (s *Cluster) warnOfEviction(ctx context.Context) {
	for owner := range s.nodes.masters() {
		warnOfEviction(ctx, owner.asks, s.log.With("node", owner.addr))
	}
}
