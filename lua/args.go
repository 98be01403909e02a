package lua

import (
	"fmt"

	"aliquot/limit"
)

// The order of KEYS and ARGV, as prelude.lua states it.

const (
	// firstKey is where the first record's key stands in a call: after run's two
	// places, the number of keys, and EpochKey.
	firstKey = 4
	// headerArgs is how many of ARGV all scripts share.
	headerArgs = 10
	// takeNumbers is the most that a limit of a take has, a bucket without low, with a
	// cost of its own.
	takeNumbers = 12
	// applyNumbers is the most that a change has, without low.
	applyNumbers = 16
)

// newArgs starts a call: two places for run, one for the number of keys, the first
// key. It has room for so many records and numbers after the header.
func newArgs(records, numbers int) []any {
	args := make([]any, 0, firstKey+records+1+headerArgs+numbers)
	return append(args, nil, nil, nil, EpochKey)
}

// append ends the keys, with HeardKey if the script is to use it, and writes the
// header.
func (h *header) append(args []any, epoch string, withHeard bool) []any {
	if withHeard {
		args = append(args, HeardKey)
	}
	args[2] = len(args) - firstKey + 1
	wait := int64(0)
	switch {
	case h.buckets && h.phase == limit.Floor && h.heardWait > 0:
		wait = h.heardWait
	case h.asksHeard:
		wait = -1
	}
	return append(args, epoch, fmt.Sprintf("%08x", h.stamp), int(h.phase),
		bounded(h.since), bounded(h.until), bounded(h.birth), h.floorSince, wait, bit(h.blind), int64(h.known))
}

// bounded brings an instant into what Lua counts exactly; beyond either end it
// compares with the clock as before.
func bounded(at int64) int64 { return min(max(at, 0), limit.MaxExact) }

// lowNumbers is how many numbers a view's Low and LimboFloor take.
func (h *header) lowNumbers() int {
	n := 0
	if h.floorSince != 0 {
		n += 3
	}
	if h.blind {
		n += 3
	}
	return n
}

func (h *header) appendView(args []any, v *limit.View, shareAlways bool) []any {
	gen := int64(v.Gen)
	if !v.Hot {
		gen = -gen
	}
	args = append(args, gen)
	if v.Hot || shareAlways {
		args = appendBucket(args, v.Share)
	}
	args = appendBucket(args, v.Floor)
	// A record holds at most two full buckets: share and extra.
	args = append(args, int64(min(v.Debit, 2*limit.MaxTokens)), int64(v.Extra))
	if h.floorSince != 0 {
		args = appendBucket(args, v.Low)
	}
	if h.blind {
		args = appendBucket(args, v.LimboFloor)
	}
	return args
}

// appendCounted writes the view of a limit that counts, in the order of counted.lua.
func appendCounted(args []any, v *limit.View, shareAlways bool) []any {
	gen, wait, limbo := int64(v.Gen), int64(0), int64(-1)
	if !v.Hot {
		gen = -gen
	}
	args = append(args, gen)
	if v.Hot || shareAlways {
		args = append(args, int64(v.Share.Cap))
	}
	if asksHeard(v) {
		wait = v.HeardWait
	}
	if blind(v) {
		limbo = int64(v.LimboFloor.Cap)
	}
	return append(args, int64(v.Floor.Cap), int64(min(v.Debit, limit.MaxExact)), v.Window,
		int(v.Phase), bounded(v.Since), bounded(v.Birth), wait, limbo)
}

func appendBucket(args []any, b limit.Bucket) []any {
	return append(args, int64(b.Cap), b.Rate.Micro, b.Rate.Frac)
}
