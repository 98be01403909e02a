package lua

import (
	"fmt"

	"aliquot/limit"
)

// The order of KEYS and ARGV, as prelude.lua states it.

const (
	// firstKey is the index of the first record's key in a call. Before it are the two places for
	// run, the number of keys, and EpochKey.
	firstKey = 4
	// headerArgs is how many entries of ARGV all scripts share.
	headerArgs = 10
	// countedNumbers is the most numbers of a counting limit in a take, without slots that are held.
	countedNumbers = 18
	// applyNumbers is the most numbers of a change, without low, without a change of the limit and without
	// slots that are held.
	applyNumbers = 19
)

// words are the arguments of one call. The arguments point to numbers in a separate array, because
// a number in an argument would be an allocation. The numbers of a take are packed.
type words struct {
	args    []any
	numbers []int64
	packed  []byte
	shapes  []shape
	of      []int64 // the numbers of the limits' shapes
}

// newWords starts a call: two places for run, one for the number of keys, and the first key. It
// reserves memory for the given records, and for the given numbers after the header.
func newWords(records, numbers int) words {
	var w words
	w.start(records, numbers)
	return w
}

// start is newWords in the memory of an earlier call that has ended.
func (w *words) start(records, numbers int) {
	args, numbers := firstKey+records+1+headerArgs+numbers, headerArgs+numbers
	if cap(w.args) < args || cap(w.numbers) < numbers {
		w.args, w.numbers = make([]any, 0, args), make([]int64, 0, numbers)
	}
	w.args, w.numbers, w.packed = append(w.args[:0], nil, nil, nil, EpochKey), w.numbers[:0], w.packed[:0]
}

// key adds a key. The name must stay where it is in memory.
func (w *words) key(name *string) { w.args = append(w.args, name) }

func (w *words) add(numbers ...int64) {
	for _, n := range numbers {
		w.numbers = append(w.numbers, n)
		w.args = append(w.args, &w.numbers[len(w.numbers)-1])
	}
}

func (w *words) bucket(b limit.Bucket) { w.add(int64(b.Cap), b.Rate.Micro, b.Rate.Frac) }

// pack is add for packed numbers.
func (w *words) pack(numbers ...int64) { w.packed = pack(w.packed, numbers...) }

func (w *words) packBucket(b limit.Bucket) { w.pack(int64(b.Cap), b.Rate.Micro, b.Rate.Frac) }

// header ends the keys and writes what the views of the call share. HeardKey is added if the script
// uses it.
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

// bounded limits an instant to what Lua counts exactly. Beyond either end it compares with the
// clock as before.
func bounded(at int64) int64 { return min(max(at, 0), limit.MaxExact) }

// lowNumbers returns how many numbers a view's Low, LimboFloor and change of limit take.
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

// view writes the view of a bucket for a change or an adjustment.
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
		m := memory(v.Memory)
		w.add(m[:]...)
	}
}

// memory returns what is remembered of a bucket: 1 if it is, tokens and extra.
func memory(m *limit.Memory) [3]int64 {
	if m == nil {
		return [3]int64{}
	}
	return [3]int64{1, int64(m.Tokens), int64(m.Extra)}
}

// use writes what is remembered of a counting limit: how many parts, and if any, the rights and each
// part with when it was admitted, the oldest first.
func (w *words) use(m *limit.Memory) {
	if m == nil {
		w.add(0)
		return
	}
	w.add(int64(len(m.Earlier))+1, int64(m.Rights))
	for _, d := range m.Earlier {
		w.add(int64(d.Used), d.At)
	}
	w.add(int64(m.Used), m.At)
}

// debit returns the part of a bucket's debit that its record can hold: at most two full buckets,
// share and extra.
func debit(v *limit.View) int64 { return int64(min(v.Debit, 2*limit.MaxTokens)) }

// generation returns the view's generation, below 0 for a cold key.
func generation(v *limit.View) int64 {
	if !v.Hot {
		return -int64(v.Gen)
	}
	return int64(v.Gen)
}

// counted writes the view of a counting limit, in the order of counted.lua.
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
		w.use(v.Memory)
	}
	if v.Algorithm == limit.Concurrency {
		w.add(int64(len(v.Held)))
		for _, s := range v.Held {
			w.add(int64(s.Slot), int64(s.Cost), s.Lasts)
		}
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
