package oracle

import (
	"testing"

	"aliquot/internal/prefetch"
	"aliquot/limit"
)

// TestClockIsSetWhileTokensAreOut: a store whose clock is set forward fills its bucket, and
// forgets what it had lent, which a daemon still has. Both may be spent, and no more.
func TestClockIsSetWhileTokensAreOut(t *testing.T) {
	const whole, used, out = 1000 * limit.Token, 500 * limit.Token, 499 * limit.Token
	full := NewBucket(limit.Limit{Algorithm: limit.TokenBucket, Capacity: whole, Rate: limit.Rate{Micro: int64(whole)}}, 0, 1, 1, 0)
	if !full.Spend(used, 0) {
		t.Fatal("half of a full bucket is more than it has")
	}
	full.lend(out, 0, second)
	full.Give(whole, 0)
	if !full.Spend(out, 0) || !full.Spend(whole, 0) {
		t.Error("what was out, and then the bucket, are more than it has")
	}
	if full.Spend(limit.Token, 0) {
		t.Error("one token more than both was there")
	}
}

// A chunk that a store lent a moment ago may still be out; an earlier one is over.
func TestTheOracleCountsLoansByItself(t *testing.T) {
	b := NewBucket(limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 10_000_000}}, 0, 2, 1, 0)
	b.Borrowed(0, 20*limit.Token, 0)
	b.Borrowed(1, 30*limit.Token, 0)
	if got := b.outOf(0, int64(prefetch.Life)); got != 20*limit.Token {
		t.Errorf("%d are out", got)
	}
	b.Borrowed(0, 90*limit.Token, int64(prefetch.Life))
	if got := b.outOf(0, int64(prefetch.Life)); got != 100*limit.Token {
		t.Errorf("%d are out of a bucket of 100", got)
	}
	if got := b.outOf(1, loanLasts+1); got != 0 {
		t.Errorf("%d are out after their time", got)
	}
}
