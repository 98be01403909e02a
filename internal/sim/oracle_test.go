package sim

import (
	"testing"

	"aliquot/limit"
)

// TestClockIsSetWhileTokensAreOut: a store whose clock is set forward fills its bucket, and
// forgets what it had lent, which a daemon still has. Both may be spent, and no more.
func TestClockIsSetWhileTokensAreOut(t *testing.T) {
	const whole, used, out = 1000 * limit.Token, 500 * limit.Token, 499 * limit.Token
	full := newIdeal(limit.Limit{Algorithm: limit.TokenBucket, Capacity: whole, Rate: limit.Rate{Micro: int64(whole)}}, 0, 1, 1, 0)
	if !full.spend(used, 0) {
		t.Fatal("half of a full bucket is more than it has")
	}
	full.lent(out, 0, second)
	full.give(whole, 0)
	if !full.spend(out, 0) || !full.spend(whole, 0) {
		t.Error("what was out, and then the bucket, are more than it has")
	}
	if full.spend(limit.Token, 0) {
		t.Error("one token more than both was there")
	}
}
