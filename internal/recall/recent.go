package recall

import (
	"math"
	"math/bits"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// recent is what the store has admitted by this daemon's calls of a log or a sliding counter, by the time
// at which it was. The store says how much is in use, and not since when. What recent does not explain of
// that counts as admitted at the store's latest answer.
//
// A part is a quarter of a log's window, or a counter's whole one, by the store's clock. The zero value
// explains nothing.
//
// Worked number: of a log of 100 a minute the store says at 50 s that 60 are in use. This daemon's calls
// were admitted 20 between 30 s and 45 s, and 10 since. So 20 count until 105 s, and 40 until 110 s.
type recent struct {
	// length is how long a part is, in milliseconds. By other rules it may be another one.
	length uint32
	// parts[0] was admitted in the part of the store's latest answer, parts[1] in the one before, and so
	// on: in thousandths of a token, rounded down.
	parts [recentParts]uint32
}

const (
	recentParts = limit.MaxEarlier
	recentUnit  = limit.Token / 1000
)

// partLength returns how long a part of a limit's window is, in milliseconds; 0: it has none, or one
// that cannot be told so.
func partLength(l *limit.Limit) uint32 {
	length := time.Duration(0)
	switch {
	case l.Algorithm == limit.Concurrency: // slots are remembered one by one
	case l.Algorithm.Logs():
		length = (l.Window / recentParts).Truncate(time.Millisecond) // so none of them is over in part
	case l.Algorithm.SeesPrevious() && l.Window%time.Millisecond == 0:
		length = l.Window
	}
	if ms := length.Milliseconds(); ms <= math.MaxUint32 {
		return uint32(ms)
	}
	return 0
}

// micros is the length of a part in microseconds.
func (r *recent) micros() int64 { return int64(r.length) * 1000 }

// roll brings the parts from the store's latest answer to a later one. An earlier one is by another clock.
func (r *recent) roll(l *limit.Limit, from, to int64) {
	length := partLength(l)
	if r.length != length || to < from {
		*r = recent{length: length}
	}
	if length == 0 {
		return
	}
	for n := min(to/r.micros()-from/r.micros(), recentParts); n > 0; n-- {
		copy(r.parts[1:], r.parts[:])
		r.parts[0] = 0
	}
}

// add counts what the store admitted at a time before its latest answer.
func (r *recent) add(cost limit.Tokens, at, latest int64) {
	if r.length == 0 || at > latest {
		return
	}
	if ago := latest/r.micros() - at/r.micros(); ago < recentParts {
		r.parts[ago] = uint32(min(limit.Tokens(r.parts[ago])+cost/recentUnit, math.MaxUint32))
	}
}

// split returns what was in use at the store's latest answer by when it was admitted, the oldest first.
// rest is what was admitted in the same part as the answer, or is not explained.
func (r *recent) split(l *limit.Limit, used limit.Tokens, latest int64) (earlier []limit.DatedUse, rest limit.Tokens) {
	rest = used
	if r.length == 0 || r.length != partLength(l) {
		return nil, used
	}
	window := l.Window.Microseconds()
	for i := int64(recentParts) - 1; i > 0; i-- {
		begins := (latest/r.micros() - i) * r.micros()
		admitted, counts := limit.Tokens(r.parts[i])*recentUnit, limit.Tokens(0)
		switch {
		case l.Algorithm.Logs():
			counts = admitted
		case l.Algorithm.SeesPrevious() && i == 1:
			counts = partDown(admitted, l.Overlap(latest), window)
		}
		if counts > rest {
			return nil, used // the store counts otherwise
		}
		if counts > 0 {
			earlier, rest = append(earlier, limit.DatedUse{Used: admitted, At: begins + r.micros() - 1}), rest-counts
		}
	}
	return earlier, rest
}

// partDown returns a part of an amount, rounded down. part is at most whole.
func partDown(of limit.Tokens, part, whole int64) limit.Tokens {
	hi, lo := bits.Mul64(uint64(of), uint64(part))
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return limit.Tokens(q)
}

// Undate records that a call gives back a part of what was admitted of a key. From now on it is not known
// when what is in use was admitted.
func (t *Table) Undate(key budget.KeyID) {
	if e, known := t.keys.get(key); known && e.counts {
		e.recent = recent{}
		t.keys.put(key, e)
	}
}

// usedBy returns what the store reported to be in use of a charge's key, by when it was admitted, the
// oldest first. rest is what may have been admitted at the report's time.
func (t *Table) usedBy(c *Charge, e *entry, now budget.Instant) (earlier []limit.DatedUse, rest limit.Tokens) {
	used := min(limit.Tokens(e.basis), limit.MaxTokens)
	tail := c.Limit.Tail()
	if c.From != 0 && now < c.From.Add(tail+tail/2) {
		return nil, used // another daemon may have given back what this one was admitted
	}
	return e.recent.split(&c.Limit, used, e.stamp)
}
