package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"aliquot/internal/hashslot"
	"aliquot/lua"
)

// askAgain is how soon a node that failed is asked again, until its breaker opens: it is known
// by then within half a second whether the node is lost, also where few callers ask it.
const askAgain = 50 * time.Millisecond

// Unreached are the slots whose server is left alone because it does not answer: nothing in
// them can be decided or changed. Nil if there are none. The set belongs to the caller.
func (s *Cluster) Unreached() *hashslot.Set {
	lost := s.nodes.lost()
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

// lost are the servers whose breaker is open.
func (n *nodes) lost() map[*node]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lost map[*node]bool
	for _, one := range n.known {
		if one.breaker.open() {
			if lost == nil {
				lost = map[*node]bool{}
			}
			lost[one] = true
		}
	}
	return lost
}

// askUntilWell asks a node that failed until it answers, one at a time for a node. Nobody
// else asks it while its breaker is open.
func (s *Cluster) askUntilWell(to *node) {
	if !to.asked.CompareAndSwap(false, true) {
		return
	}
	s.background.Go(func() {
		defer to.asked.Store(false)
		for pause(s.ctx, max(askAgain, to.breaker.trialIn(time.Now()))) == nil {
			well := false
			if safely(s.log, "a trial of a node", func() error { well = s.answers(to); return nil }) == nil && well {
				return
			}
		}
	})
}

// answers reports whether a node answers a command that writes, for one that is full or
// cannot save refuses these alone. One that has no slots any more is nobody's concern.
func (s *Cluster) answers(to *node) bool {
	slot := s.nodes.slotOf(to)
	if slot < 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.callTimeout)
	defer cancel()
	key := askedKey + strings.TrimPrefix(s.epochs[slot], lua.EpochKey)
	j := &job{slot: slot, trial: true, plain: []any{"set", key, 1, "px", askedTTL.Milliseconds()}}
	s.sendTo(ctx, to, false, []*job{j})
	_, failed := errors.AsType[*NodeError](j.err)
	return !failed
}

const (
	// askedKey is written to find out whether a node answers, and is gone after askedTTL.
	askedKey = "aq:asked"
	askedTTL = time.Second
)

// slotOf is the first slot of a server, -1 if it has none.
func (n *nodes) slotOf(owner *node) int {
	for slot := range n.owners {
		if n.owners[slot].Load() == owner {
			return slot
		}
	}
	return -1
}
