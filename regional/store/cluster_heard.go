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

// A script in one slot cannot look at a mark in another, and marking all slots with every
// lease would be too much. So the mark of when the region was heard stands in a few slots:
// it is written to most of them and read from most of them, so that whoever reads meets the
// latest, and one lost node stops nobody. It is read before the scripts that ask for it,
// not in them:
//
//   - Such a script has a deadline heardLag after the reading. One that runs later decides
//     nothing.
//   - Whoever takes a lease waits heardLag after the mark, unless its last mark is younger
//     than heardGap: a script that read before the mark is over then. With a younger mark
//     there is none, for the reader met that one, and what it waits for is counted
//     heardGap + heardLag longer.
const (
	heardLag = 250 * time.Millisecond
	// heardGap is well above the second after which a region is marked again.
	heardGap = 3 * time.Second
	// heardCopies are in slots as far from each other as can be, of different nodes then
	// as a rule.
	heardCopies = 3
	heardMost   = heardCopies/2 + 1
)

// homeSlot is the slot where a new epoch is minted, and that of calls without a key.
const homeSlot = 0

// errHeard is wrapped where too few of the marks could be reached.
var errHeard = errors.New("store: too few copies of when the region was heard could be reached")

// heardMarks is what this process knows of its marks.
type heardMarks struct {
	keys map[int]string // by slot

	mu   sync.Mutex
	last time.Time // when it last began to write a mark that stands
}

func heardKeys() map[int]string {
	all := lua.SlotKeys(lua.HeardKey)
	keys := map[int]string{}
	for i := range heardCopies {
		// The middle of each third: clusters of three are dealt so that the borders of the
		// thirds may be anybody's.
		slot := (2*i + 1) * lua.Slots / (2 * heardCopies)
		keys[slot] = all[slot]
	}
	return keys
}

// markHeard remembers that the region was heard, for every daemon that asks.
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

// lastHeard is when the region was heard last, with what has to be waited longer for the
// reading's age, by the latest of all clocks (0: never), and until when of the earliest of
// them that may be relied on. If it cannot be found out, that is: now.
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
			at = never // nonsense: somebody was heard, who knows when
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

// askMarks sends a command for each copy; most of them have to answer.
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
