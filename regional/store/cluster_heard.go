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

// The mark of when the region was last heard is in a few slots: a script in one slot cannot read a
// mark in another, and a mark in every slot would cost too much with each lease. A daemon writes the
// mark to a majority of these slots, and reads it from a majority. So a reader always meets the latest
// mark, and one lost node stops no daemon. A caller reads the mark before the scripts that need it:
//
//   - Such a script has a deadline heardLag after the reading. If it runs later, it decides
//     nothing.
//   - A daemon that takes a lease waits heardLag after it wrote the mark. By then each script whose
//     caller read before the mark is over. The daemon does not wait if its previous mark is younger
//     than heardGap: a reader met that mark, and adds heardGap + heardLag to its wait.
const (
	heardLag = 250 * time.Millisecond
	// heardGap is well above one second, the interval at which a region is marked again.
	heardGap = 3 * time.Second
	// heardCopies is the number of copies. They are in slots as far apart as possible, which are of
	// different nodes as a rule.
	heardCopies = 3
	heardQuorum = heardCopies/2 + 1
)

// homeSlot is the slot where a new epoch is created, and the slot of calls without a key.
const homeSlot = 0

// errHeard is wrapped by the error of a call that could not reach a majority of the marks.
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
	_, ahead, known := s.nodes.clockBounds()
	if !known {
		return fmt.Errorf("%w: no clock was read yet", errHeard)
	}
	began := time.Now()
	at := s.nodes.localTime() + ahead
	if err := s.queryMarks(ctx, func(key string) []any {
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

// lastHeard returns when the region was last heard, by the latest of all clocks; 0: never. That
// instant is later than the mark by what a reader must add to its wait. until is how long the answer
// holds, by the earliest of the clocks. If the marks cannot be read, both results are the largest
// instant: the region counts as heard now.
func (s *Cluster) lastHeard(ctx context.Context) (heard, until int64) {
	began := s.nodes.localTime()
	never := int64(limit.MaxExact)
	err := s.queryMarks(ctx, func(key string) []any { return []any{"get", key} }, func(reply any) {
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
	low, high, known := s.nodes.clockBounds()
	if err != nil || !known {
		return never, never
	}
	if heard > 0 && heard < never {
		heard += (heardLag + heardGap).Microseconds() + high - low
	}
	return heard, began + low + heardLag.Microseconds()
}

// queryMarks sends a command for each copy of the mark, and gives the replies to read. It fails unless
// a majority of the copies answer.
func (s *Cluster) queryMarks(ctx context.Context, command func(key string) []any, read func(reply any)) error {
	var jobs []*job
	for slot, key := range s.heard.keys {
		jobs = append(jobs, &job{slot: slot, plain: command(key)})
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
	if reached < heardQuorum {
		return fmt.Errorf("%w: %w", errHeard, failed)
	}
	return nil
}
