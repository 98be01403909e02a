package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"aliquot/limit"
	"aliquot/lua"
)

const (
	// learnWithin bounds learning, minting for all slots included, whoever waits for it.
	learnWithin = 30 * time.Second
	// mintWithin is how long no slot may get a new epoch before the daemon that gives it is
	// taken for gone, and another one mints its own.
	mintWithin = 2 * time.Second
	// learnPause spaces looks at a mint that another daemon makes, at least.
	learnPause = 20 * time.Millisecond
)

// learning is one look at the contents, which everybody who asks meanwhile waits for.
type learning struct {
	done  chan struct{}
	epoch string
	err   error
}

// Epoch learns the epoch of the contents, one for all slots, or mints it: where a slot has
// none or another one, something was lost, and likewise where a node is not the process
// that it was, or one more. Minting goes on when ctx ends; whoever asks next finds it done.
func (s *Cluster) Epoch(ctx context.Context) (string, error) {
	s.mu.Lock()
	l := s.learning
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
		return l.epoch, l.err
	}
}

func (s *Cluster) learn(l *learning) {
	ctx, cancel := context.WithTimeout(s.ctx, learnWithin)
	defer cancel()
	l.epoch, l.err = s.learnEpoch(ctx)
	s.mu.Lock()
	s.learning = nil
	before := s.seen
	if l.err == nil {
		s.seen = l.epoch
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
	var seen spread
	for {
		started := time.Now()
		now, err := s.survey(ctx)
		if err != nil {
			return "", err
		}
		took := time.Since(started)
		epoch := now.epochs[homeSlot]
		seen.look(now)
		switch {
		case now.uniform() && now.names(epoch):
			s.nodes.vouch(now.processes)
			return epoch, nil
		case now.names(epoch) && !seen.over(now):
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

// contents are what a look at all slots found.
type contents struct {
	epochs    [lua.Slots]string
	processes []string // run ids of the owners of slots, sorted
	now       int64    // the latest clock
}

// servers names a set of processes.
func (c *contents) servers() string {
	sum := sha256.Sum256([]byte(strings.Join(c.processes, " ")))
	return hex.EncodeToString(sum[:8])
}

// names tells whether an epoch is of these processes.
func (c *contents) names(epoch string) bool {
	_, ok := limit.EpochBirth(epoch)
	return ok && strings.Split(epoch, ":")[1] == c.servers()
}

func (c *contents) uniform() bool {
	for _, epoch := range c.epochs {
		if epoch != c.epochs[homeSlot] {
			return false
		}
	}
	return true
}

// spread is what one daemon sees of an epoch that another one gives to the slots. However
// slow that is, it is not disturbed while it goes on: two that take turns in minting would
// never end. The zero value has seen nothing.
type spread struct {
	epoch string
	slots int   // that had it when last looked at
	grown int64 // when more had it than before, or its birth, in microseconds of the nodes' clocks
}

func (s *spread) look(now *contents) {
	epoch, slots := now.epochs[homeSlot], 0
	for _, other := range now.epochs {
		if other == epoch {
			slots++
		}
	}
	switch {
	case epoch != s.epoch:
		birth, _ := limit.EpochBirth(epoch)
		*s = spread{epoch: epoch, slots: slots, grown: birth}
	case slots > s.slots:
		s.slots, s.grown = slots, now.now
	}
}

// over tells that the epoch stands in every slot by now or will not: something was lost, or
// whoever gave it is gone.
func (s *spread) over(now *contents) bool {
	return now.now-s.grown > mintWithin.Microseconds() || now.now < s.grown
}

// survey asks all slots for their epoch, and all their owners who they are.
func (s *Cluster) survey(ctx context.Context) (*contents, error) {
	if err := s.nodes.refresh(ctx); err != nil {
		return nil, err
	}
	found := &contents{}
	for owner := range s.nodes.masters() {
		info, err := owner.asks.Info(ctx, "server").Result()
		if err != nil {
			return nil, fmt.Errorf("store: ask node %s what it is: %w", owner.addr, err)
		}
		id := lua.RunID(info)
		if id == "" {
			return nil, fmt.Errorf("store: node %s names no run_id; is this a Redis server?", owner.addr)
		}
		sent := s.nodes.local()
		clock, err := owner.asks.Time(ctx).Result()
		if err != nil {
			return nil, fmt.Errorf("store: ask node %s for its clock: %w", owner.addr, err)
		}
		owner.clock.add(clock.UnixMicro(), sent, s.nodes.local())
		found.now = max(found.now, clock.UnixMicro())
		found.processes = append(found.processes, id)
	}
	slices.Sort(found.processes)
	jobs := make([]*job, lua.Slots)
	for slot := range jobs {
		jobs[slot] = &job{slot: slot, asks: true, plain: []any{"get", s.epochs[slot]}}
	}
	s.run(ctx, jobs)
	for slot, j := range jobs {
		if j.err != nil {
			return nil, fmt.Errorf("store: ask slot %d for its epoch: %w", slot, j.err)
		}
		found.epochs[slot], _ = j.reply.(string)
	}
	return found, nil
}

// mint makes a new epoch and gives it to all slots; empty if another daemon was faster, or
// if something was lost meanwhile. Of two that mint at once, the home slot decides. The
// one that lost does not help: what it saw may be gone by now.
func (s *Cluster) mint(ctx context.Context, was *contents) (string, error) {
	nonce := newNonce()
	home := &job{slot: homeSlot, asks: true,
		call: s.scripts.MintCall(s.epochs[homeSlot], was.epochs[homeSlot], nonce, was.servers())}
	s.run(ctx, []*job{home})
	if home.err != nil {
		return "", fmt.Errorf("store: mint an epoch for the Redis Cluster: %w", home.err)
	}
	epoch, _ := home.reply.(string)
	if !strings.HasPrefix(epoch, nonce+":") {
		return "", nil
	}
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
	return epoch, nil
}

// warnOfEviction is Redis.warnOfEviction for every node.
func (s *Cluster) warnOfEviction(ctx context.Context) {
	for owner := range s.nodes.masters() {
		warnOfEviction(ctx, owner.asks, s.log.With("node", owner.addr))
	}
}
