package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"aliquot/internal/hashslot"
	"aliquot/lua"
)

// trialInterval is the pause between trials of a node that failed, until its breaker opens. So the
// breaker opens within half a second if the node is lost, even if few callers use it.
const trialInterval = 50 * time.Millisecond

// Unreached returns the slots whose server gets no calls because it does not answer: the store can
// decide and change nothing in them. It returns nil if there are none. The set belongs to the caller.
func (s *Cluster) Unreached() *hashslot.Set {
	lost := s.nodes.unreachable()
	if len(lost) == 0 {
		return nil
	}
	var out *hashslot.Set
	for slot := range s.nodes.owners {
		if !lost[s.nodes.owners[slot].Load()] {
			continue
		}
		if out == nil {
			out = &hashslot.Set{}
		}
		out.Add(slot)
	}
	return out
}

// unreachable returns the servers whose breaker is open.
func (n *nodes) unreachable() map[*node]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	lost := map[*node]bool{}
	for _, one := range n.known {
		if one.breaker.Open() {
			lost[one] = true
		}
	}
	return lost
}

// tryUntilWell makes trials of a node that failed until it answers, in at most one goroutine for each
// node. While the breaker of the node is open, no other call reaches it.
func (s *Cluster) tryUntilWell(to *node) {
	if !to.trying.CompareAndSwap(false, true) {
		return
	}
	s.background.Go(func() {
		defer to.trying.Store(false)
		for pause(s.ctx, max(trialInterval, to.breaker.TrialIn(time.Now()))) == nil {
			well := false
			if safely(s.log, "a trial of a node", func() error { well = s.answers(to); return nil }) == nil && well {
				return
			}
		}
	})
}

// answers reports whether a node answers a command that writes. A node that is full or cannot save
// refuses only such commands. A node that has lost all its slots no longer matters: it counts as answering, and
// its clock as not known, because nobody reads it any more. An importer has no slot to write to, so any answer will do.
func (s *Cluster) answers(to *node) bool {
	slot := s.nodes.slotOf(to)
	if slot < 0 && !to.imports.Load() {
		to.clock.forget()
		if to.breaker.Reset() && s.onCircuit != nil {
			s.onCircuit(to.addr, false, nil)
		}
		return true
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.callTimeout)
	defer cancel()
	j := &job{trial: true, plain: []any{"ping"}}
	if slot >= 0 {
		key := trialKey + strings.TrimPrefix(s.epochs[slot], lua.EpochKey)
		j.plain = []any{"set", key, 1, "px", trialTTL.Milliseconds()}
	}
	s.sendTo(ctx, to, false, []*job{j})
	_, failed := errors.AsType[*NodeError](j.err)
	return !failed
}

const (
	// trialKey is the key that a trial writes. It expires after trialTTL.
	trialKey = "aq:asked"
	trialTTL = time.Second
)

// slotOf returns the first slot of a server, or -1 if it has none.
func (n *nodes) slotOf(owner *node) int {
	for slot := range n.owners {
		if n.owners[slot].Load() == owner {
			return slot
		}
	}
	return -1
}
