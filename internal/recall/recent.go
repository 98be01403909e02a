package recall

import (
	"math/bits"

	"aliquot/budget"
	"aliquot/limit"
)

// recent is what the store has admitted by this daemon's calls of a log or a sliding counter lately, by
// the time at which it was. The store says how much is in use, and not since when. What recent does not
// explain of that counts as admitted at the store's latest answer.
//
// A part is a quarter of a log's window, or a counter's whole one, by the store's clock. The zero value
// explains nothing.
//
// Worked number: of a log of 100 a minute the store says at 50 s that 60 are in use. This daemon's calls
// were admitted 20 between 30 s and 45 s, and 10 since. So the other 30 count until 110 s, 10 more until
// then, and 20 until 105 s.
type recent struct {
	// parts[0] was admitted in the part of that number, parts[1] in the one before, and so on. Each part is
	// length microseconds long.
	parts        [recentParts]limit.Tokens
	part, length int64
}

const recentParts = limit.MaxEarlier

// partLength returns how long a part of a limit's window is, in microseconds; 0: it has none.
func partLength(l *limit.Limit) int64 {
	switch window := l.Window.Microseconds(); l.Algorithm {
	case limit.SlidingLog:
		return (window + recentParts - 1) / recentParts
	case limit.SlidingCounter:
		return window
	default:
		return 0
	}
}

// add counts what the store has admitted at a time of its clock.
func (r *recent) add(l *limit.Limit, cost limit.Tokens, at int64) {
	length := partLength(l)
	if length == 0 || cost == 0 {
		return
	}
	part := at / length
	if r.length != length || r.part+recentParts <= part {
		*r = recent{part: part, length: length}
	}
	for ; r.part < part; r.part++ {
		copy(r.parts[1:], r.parts[:])
		r.parts[0] = 0
	}
	if ago := r.part - part; ago < recentParts {
		r.parts[ago] += cost
	}
}

// split returns what was in use at a time of the store's clock by when it was admitted, the oldest
// first. The last part is what is not explained, at that time.
func (r *recent) split(l *limit.Limit, used limit.Tokens, at int64) (earlier []limit.DatedUse, rest limit.Tokens) {
	length, rest := partLength(l), used
	if length == 0 || r.length != length {
		return nil, used
	}
	window := l.Window.Microseconds()
	for i := recentParts - 1; i >= 0; i-- {
		part := r.part - int64(i)
		begins, last := part*length, (part+1)*length-1
		admitted, counts := r.parts[i], limit.Tokens(0)
		switch {
		case admitted == 0 || last >= at:
			continue
		case l.Algorithm == limit.SlidingLog:
			if begins > at-window {
				counts = admitted
			}
		case part == at/window-1:
			counts = partDown(admitted, window-at%window, window)
		}
		if counts == 0 {
			continue
		}
		if counts > rest {
			return nil, used // the store counts otherwise
		}
		earlier, rest = append(earlier, limit.DatedUse{Used: admitted, At: last}), rest-counts
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
	if e, known := t.keys[key]; known && e.counts {
		e.recent = recent{}
		t.keys[key] = e
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
