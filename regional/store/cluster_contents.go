package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"aliquot/limit"
	"aliquot/lua"
)

// contents are what a look at all slots found.
type contents struct {
	epochs    [lua.Slots]string
	processes []string // run ids of the owners of slots, sorted
	// promotions are those of the owners that were replicas, sorted; see lua.Promotion.
	promotions []string
	now        int64 // the latest clock
}

// servers names a set of processes.
func (c *contents) servers() string {
	sum := sha256.Sum256([]byte(strings.Join(c.processes, " ")))
	return hex.EncodeToString(sum[:8])
}

// names tells whether an epoch is of these processes, as they were last promoted.
func (c *contents) names(epoch string) bool {
	return lua.Names(epoch, c.servers(), c.promotions...)
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
	slots int // that had it when last looked at
	// grown is when more had it than before, or its birth if nobody can be at it any more, in
	// microseconds of the nodes' clocks.
	grown int64
	// failed is an epoch that this daemon gave itself, and not to every slot.
	failed string
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
		grown, _ := limit.EpochBirth(epoch)
		if now.now-grown < learnWithin.Microseconds() && !now.uniform() {
			grown = now.now // somebody may be at it still
		}
		*s = spread{epoch: epoch, slots: slots, grown: grown, failed: s.failed}
	case slots > s.slots:
		s.slots, s.grown = slots, now.now
	}
}

// over tells that the epoch stands in every slot by now or will not: something was lost, or
// whoever gave it is gone.
func (s *spread) over(now *contents) bool {
	return s.epoch == s.failed || now.now-s.grown > mintWithin.Microseconds() || now.now < s.grown
}

// survey asks all owners of slots who they are, all slots for their epoch, and then for the
// time.
func (s *Cluster) survey(ctx context.Context) (*contents, error) {
	if err := s.nodes.refresh(ctx); err != nil {
		return nil, err
	}
	found := &contents{}
	for owner := range s.nodes.masters() {
		process, promotion, err := lua.Server(ctx, owner.asks)
		if err != nil {
			return nil, fmt.Errorf("store: ask node %s what it is: %w", owner.addr, err)
		}
		found.processes = append(found.processes, process)
		if promotion != "" {
			found.promotions = append(found.promotions, promotion)
		}
	}
	slices.Sort(found.processes)
	slices.Sort(found.promotions)
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
	// After the slots: of what was found there nothing is younger than this.
	for owner := range s.nodes.masters() {
		sent := s.nodes.local()
		clock, err := owner.asks.Time(ctx).Result()
		if err != nil {
			return nil, fmt.Errorf("store: ask node %s for its clock: %w", owner.addr, err)
		}
		owner.clock.add(clock.UnixMicro(), sent, s.nodes.local())
		found.now = max(found.now, clock.UnixMicro())
	}
	return found, nil
}
