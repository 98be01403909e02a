package compare

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// bucket is one exact token bucket, with the arithmetic of the shipped one. The zero
// value is not usable.
type bucket struct {
	record [1]limit.Record
	view   [1]limit.View
	out    [1]limit.Outcome
	debt   limit.Tokens // used elsewhere, and paid before anything is admitted here
}

// newBucket is a full bucket of part/of of a limit.
func newBucket(l limit.Limit, part, of int64) *bucket {
	b := &bucket{}
	b.view[0] = limit.View{Phase: limit.Live, Until: limit.MaxExact, Floor: l.Part(unit(part, of), unit(part, of))}
	return b
}

// unit is part/of of a limit as a share.
func unit(part, of int64) int32 { return int32(part * budget.Unit / of) }

// take asks for one token up to n times, until it is denied, and returns how many
// were there.
func (b *bucket) take(n int, now time.Duration) int {
	for taken := range n {
		b.payDebt(now)
		if !limit.Take(b.record[:], b.view[:], limit.Token, b.micros(now), b.out[:]) {
			return taken
		}
	}
	return n
}

// payDebt settles as much of the debt as there are tokens.
func (b *bucket) payDebt(now time.Duration) {
	if b.debt == 0 {
		return
	}
	limit.Take(b.record[:], b.view[:], 0, b.micros(now), b.out[:])
	b.view[0].Debit = min(b.debt, max(0, b.out[0].Tokens))
	limit.Take(b.record[:], b.view[:], 0, b.micros(now), b.out[:])
	b.debt -= b.view[0].Debit
	b.view[0].Debit = 0
}

// debit takes off what was used elsewhere, below zero if need be.
func (b *bucket) debit(tokens int, now time.Duration) {
	b.debt += limit.Token * limit.Tokens(tokens)
	b.payDebt(now)
}

// forget loses the contents: the bucket is full again.
func (b *bucket) forget() { b.record[0], b.debt = limit.Record{}, 0 }

// micros is a time of the world on the bucket's clock, which starts above 0: a
// record touched at 0 counts as absent.
func (b *bucket) micros(t time.Duration) int64 { return t.Microseconds() + 1 }
