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
	// countedNumbers is the most that a limit that counts says of itself in a take.
	countedNumbers = 17
	// applyNumbers is the most that a change has, without low and what has changed.
	applyNumbers = 19
)

// words are the arguments of one call. Numbers stand in an array of their own, which the
// arguments point into: each number in an argument would be an allocation. Those of a take
// are packed.
type words struct {
	args    []any
	numbers []int64
	packed  []byte
	shapes  []shape
	of      []int64 // the numbers of the limits' shapes
}

// newWords starts a call: two places for run, one for the number of keys, the first
// key. It has room for so many records and numbers after the header.
func newWords(records, numbers int) words {
	var w words
	w.start(records, numbers)
	return w
}

// start is newWords in the memory of an earlier call that is over.
func (w *words) start(records, numbers int) {
	args, numbers := firstKey+records+1+headerArgs+numbers, headerArgs+numbers
	if cap(w.args) < args || cap(w.numbers) < numbers {
		w.args, w.numbers = make([]any, 0, args), make([]int64, 0, numbers)
	}
	w.args, w.numbers, w.packed = append(w.args[:0], nil, nil, nil, EpochKey), w.numbers[:0], w.packed[:0]
}

// key adds a key, which stays where it is.
func (w *words) key(name *string) { w.args = append(w.args, name) }

func (w *words) add(numbers ...int64) {
	for _, n := range numbers {
		w.numbers = append(w.numbers, n)
		w.args = append(w.args, &w.numbers[len(w.numbers)-1])
	}
}

func (w *words) bucket(b limit.Bucket) { w.add(int64(b.Cap), b.Rate.Micro, b.Rate.Frac) }

// pack is add for what is packed.
func (w *words) pack(numbers ...int64) { w.packed = pack(w.packed, numbers...) }

func (w *words) packBucket(b limit.Bucket) { w.pack(int64(b.Cap), b.Rate.Micro, b.Rate.Frac) }

// header ends the keys, with HeardKey if the script is to use it, and writes what the
// views of the call share.
func (w *words) header(h *header, epoch string, withHeard bool) {
	if withHeard {
		w.args = append(w.args, HeardKey)
	}
	w.args[2] = len(w.args) - firstKey + 1
	wait := int64(0)
	switch {
	case h.buckets && h.phase == limit.Floor && h.heardWait > 0:
		wait = h.heardWait
	case h.asksHeard:
		wait = -1
	}
	w.args = append(w.args, epoch, fmt.Sprintf("%08x", h.stamp))
	w.add(int64(h.phase), bounded(h.since), bounded(h.until), bounded(h.birth), h.floorSince, wait, bit(h.blind)+2*bit(h.changes)+4*bit(h.remembers), int64(h.known))
}

// bounded brings an instant into what Lua counts exactly; beyond either end it
// compares with the clock as before.
func bounded(at int64) int64 { return min(max(at, 0), limit.MaxExact) }

// lowNumbers is how many numbers a view's Low and LimboFloor, and a change of its limit, take.
func (h *header) lowNumbers() int {
	n := 0
	if h.floorSince != 0 {
		n += 3
	}
	if h.blind {
		n += 3
	}
	if h.changes {
		n += 6
	}
	if h.remembers {
		n += 4
	}
	return n
}

// view writes the view of a bucket that is changed, or adjusted.
func (w *words) view(h *header, v *limit.View) {
	w.add(generation(v))
	w.bucket(v.Share)
	w.bucket(v.Floor)
	w.add(debit(v), int64(v.Extra))
	if h.floorSince != 0 {
		w.bucket(v.Low)
	}
	if h.blind {
		w.bucket(v.LimboFloor)
	}
	if h.changes {
		w.add(bounded(v.RuleSince), v.Slow.Micro, v.Slow.Frac)
		w.bucket(v.Before)
	}
	if h.remembers {
		m := memory(v)
		w.add(m[:3]...)
	}
}

// memory is what is remembered of a record as numbers: whether anything is, then of a bucket tokens and
// extra, and of a limit that counts what was in use, the rights and when.
func memory(v *limit.View) [4]int64 {
	m := v.Memory
	switch {
	case m == nil:
		return [4]int64{}
	case v.Algorithm.Counts():
		return [4]int64{1, int64(m.Used), int64(m.Rights), m.At}
	default:
		return [4]int64{1, int64(m.Tokens), int64(m.Extra)}
	}
}

// debit is what of a bucket's debit can be in its record: that holds at most two full
// buckets, share and extra.
func debit(v *limit.View) int64 { return int64(min(v.Debit, 2*limit.MaxTokens)) }

// generation is below 0 for a cold key.
func generation(v *limit.View) int64 {
	if !v.Hot {
		return -int64(v.Gen)
	}
	return int64(v.Gen)
}

// counted writes the view of a limit that counts, in the order of counted.lua.
func (w *words) counted(h *header, v *limit.View, shareAlways bool) {
	wait, limbo := int64(0), int64(-1)
	w.add(generation(v))
	if v.Hot || shareAlways {
		w.add(int64(v.Share.Cap))
	}
	if asksHeard(v) {
		wait = v.HeardWait
	}
	if blind(v) {
		limbo = int64(v.LimboFloor.Cap)
	}
	w.add(int64(v.Floor.Cap), int64(min(v.Debit, limit.MaxExact)), v.Window,
		int64(v.Phase), bounded(v.Since), bounded(v.Birth), wait, limbo)
	if h.changes {
		w.add(bounded(v.RuleSince), int64(v.Before.Cap))
	}
	if h.remembers {
		m := memory(v)
		w.add(m[:]...)
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
