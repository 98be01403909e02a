package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"aliquot/limit"
	"aliquot/lua"
)

// A script in one slot cannot read a mark in another slot, and to mark all slots with every lease
// would be too much. So the mark of when the region was heard is in a few slots. A daemon writes it
// to most of them and reads it from most of them. So a reader always meets the latest mark, and one
// lost node stops no daemon. The mark is read before the scripts that need it, not in them:
//
//   - Such a script has a deadline heardLag after the reading. If it runs later, it decides
//     nothing.
//   - A daemon that takes a lease waits heardLag after it wrote the mark, so a script that read
//     before the mark is over by then. It does not wait if its previous mark is younger than
//     heardGap: the reader met that mark, and counts heardGap + heardLag more to its wait.
const (
	heardLag = 250 * time.Millisecond
	// heardGap is well above one second, the interval at which a region is marked again.
	heardGap = 3 * time.Second
	// heardCopies is the number of copies. They are in slots as far apart as possible, which are of
	// different nodes as a rule.
	heardCopies = 3
	heardMost   = heardCopies/2 + 1
)

// homeSlot is the slot where a new epoch is created, and the slot of calls without a key.
const homeSlot = 0

// errHeard is wrapped by the error of a call that could not reach most copies of the mark.
var errHeard = errors.New("store: too few copies of the time when the region was last heard could be reached")

// heardMarks holds the keys of the marks, and when this process last wrote them. mu guards last.
type heardMarks struct {
	keys map[int]string // by slot

	mu   sync.Mutex
	last time.Time // when the write of the latest complete mark began
}

func heardKeys() map[int]string {
	all := lua.SlotKeys(lua.HeardKey)
	keys := map[int]string{}
	for i := range heardCopies {
		// The middle of each third. Clusters of three nodes are divided so that the borders of the
		// thirds may belong to either neighbour.
		slot := (2*i + 1) * lua.Slots / (2 * heardCopies)
		keys[slot] = all[slot]
	}
	return keys
}

// markHeard records in the cluster that the region was heard, for every daemon that asks.
func (s *Cluster) markHeard(ctx context.Context) error {
	_, most, known := s.nodes.clocks()
	if !known {
		return fmt.Errorf("%w: no clock was read yet", errHeard)
	}
	began := time.Now()
	at := s.nodes.local() + most
	if err := s.askMarks(ctx, func(key string) []any {
		return []any{"set", key, at, "px", lua.HeardTTL.Milliseconds()}
	}, func(any) {}); err != nil {
		return err
	}
	s.heard.mu.Lock()
	recent := began.Sub(s.heard.last) < heardGap
	s.heard.mu.Unlock()
	if !recent {
		if err := pause(ctx, heardLag); err != nil {
			return err
		}
	}
	s.heard.mu.Lock()
	s.heard.last = began
	s.heard.mu.Unlock()
	return nil
}

// lastHeard returns when the region was last heard by the latest of all clocks, or 0 for never.
// That time includes what a reader must wait longer for the reading's age. until is up to when, by
// the earliest of the clocks, the answer holds. If the marks cannot be read, both results are the
// largest instant: the region counts as heard now.
func (s *Cluster) lastHeard(ctx context.Context) (heard, until int64) {
	began := s.nodes.local()
	never := int64(limit.MaxExact)
	err := s.askMarks(ctx, func(key string) []any { return []any{"get", key} }, func(reply any) {
		text, ok := reply.(string)
		if reply == nil {
			return
		}
		at, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil || at < 1 || at > limit.MaxExact {
			at = never // the text is no time: some daemon was heard, at an unknown time
		}
		heard = max(heard, at)
	})
	least, most, known := s.nodes.clocks()
	if err != nil || !known {
		return never, never
	}
	if heard > 0 && heard < never {
		heard += (heardLag + heardGap).Microseconds() + most - least
	}
	return heard, began + least + heardLag.Microseconds()
}

// askMarks sends a command for each copy of the mark. It fails unless most copies answer.
func (s *Cluster) askMarks(ctx context.Context, words func(key string) []any, read func(reply any)) error {
	var jobs []*job
	for slot, key := range s.heard.keys {
		jobs = append(jobs, &job{slot: slot, plain: words(key)})
	}
	s.run(ctx, jobs)
	reached := 0
	var failed error
	for _, j := range jobs {
		if j.err != nil {
			failed = j.err
			continue
		}
		reached++
		read(j.reply)
	}
	if reached < heardMost {
		return fmt.Errorf("%w: %w", errHeard, failed)
	}
	return nil
}
