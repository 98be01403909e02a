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

// contents holds the findings of one survey of all slots.
type contents struct {
	epochs    [lua.Slots]string
	processes []string // run ids of the owners of slots, sorted
	importers []string // those of servers without a slot that a slot is on its way to
	// named identify what the epoch must name besides, sorted: the promotions of servers that were
	// replicas, see lua.Promotion, and the importers. It may name more.
	named []string
	now   int64 // the latest clock
}

// servers returns a short name for the set of processes.
func (c *contents) servers() string {
	sum := sha256.Sum256([]byte(strings.Join(c.processes, " ")))
	return hex.EncodeToString(sum[:8])
}

// hasName reports whether an epoch belongs to these processes, as they were last promoted. A daemon to which
// no answer named an importer does not know of it. So an epoch may name importers that a daemon does not know;
// see lua.Name.
func (c *contents) hasName(epoch string) bool {
	return lua.Names(epoch, c.servers(), c.named...)
}

// vouched returns the run ids of the processes whose contents belong to the epoch.
func (c *contents) vouched() []string { return slices.Concat(c.processes, c.importers) }

func (c *contents) uniform() bool {
	for _, epoch := range c.epochs {
		if epoch != c.epochs[homeSlot] {
			return false
		}
	}
	return true
}

// propagation is how many slots have an epoch that another daemon writes, as one daemon sees it. While
// their number grows, this daemon creates no epoch of its own: two daemons that create epochs in turns
// would never end. The zero value has seen nothing.
type propagation struct {
	epoch string
	slots int // how many slots had it at the latest look
	// grewAt is when more slots had it than before, in microseconds of the nodes' clocks. It is the
	// epoch's birth if no daemon can still be writing the epoch.
	grewAt int64
	// failed is an epoch that this daemon created and did not write to every slot.
	failed string
}

func (s *propagation) observe(now *contents) {
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
			grown = now.now // another daemon may still be writing it
		}
		*s = propagation{epoch: epoch, slots: slots, grewAt: grown, failed: s.failed}
	case slots > s.slots:
		s.slots, s.grewAt = slots, now.now
	}
}

// ended reports whether no daemon writes the epoch any more: it is in every slot, something was lost
// meanwhile, or its daemon is gone.
func (s *propagation) ended(now *contents) bool {
	return s.epoch == s.failed || now.now-s.grewAt > createWithin.Microseconds() || now.now < s.grewAt
}

// survey asks all owners of slots for their identity, all slots for their epoch, and then all
// owners for the time.
func (s *Cluster) survey(ctx context.Context) (*contents, error) {
	if err := s.nodes.refresh(ctx); err != nil {
		return nil, err
	}
	found := &contents{}
	for owner := range s.nodes.primaries() {
		process, promotion, err := lua.Server(ctx, owner.queries)
		if err != nil {
			return nil, fmt.Errorf("store: ask node %s what it is: %w", owner.addr, err)
		}
		found.processes = append(found.processes, process)
		if promotion != "" {
			found.named = append(found.named, promotion)
		}
	}
	s.askImporters(ctx, found)
	slices.Sort(found.processes)
	slices.Sort(found.named)
	jobs := make([]*job, lua.Slots)
	for slot := range jobs {
		jobs[slot] = &job{slot: slot, query: true, plain: []any{"get", s.epochs[slot]}}
	}
	s.run(ctx, jobs)
	for slot, j := range jobs {
		if j.err != nil {
			return nil, fmt.Errorf("store: ask slot %d for its epoch: %w", slot, j.err)
		}
		found.epochs[slot], _ = j.reply.(string)
	}
	// The clocks are read after the slots, so nothing found in the slots is younger than they are.
	for owner := range s.nodes.primaries() {
		clock, err := s.askClock(ctx, owner)
		if err != nil {
			return nil, fmt.Errorf("store: ask node %s for its clock: %w", owner.addr, err)
		}
		found.now = max(found.now, clock)
	}
	return found, nil
}

// askImporters asks the servers without a slot that a slot is on its way to for their identity. The keys that
// have moved already are lost if such a process restarts. One that does not answer in its own time is not vouched.
func (s *Cluster) askImporters(ctx context.Context, found *contents) {
	for _, one := range s.nodes.importers() {
		each, cancel := context.WithTimeout(ctx, s.callTimeout)
		process, promotion, err := lua.Server(each, one.queries)
		cancel()
		if err != nil {
			continue
		}
		found.importers = append(found.importers, process)
		found.named = append(found.named, "-"+process[:min(8, len(process))])
		if promotion != "" {
			found.named = append(found.named, promotion)
		}
	}
}
