package recall

import (
	"testing"

	"aliquot/limit"
)

// TestAnOlderAnswerWhileAShareChanges: two calls are under way. The answer to the later one comes first: 50 are used.
// Then a share change leaves for the store, and the answer to the earlier call comes: 11 were used. That says nothing
// new, also if the change is never answered.
func TestAnOlderAnswerWhileAShareChanges(t *testing.T) {
	for _, l := range []limit.Limit{counting, bucket} {
		table, now := New(10, 0), hour
		c := charge(l, 1, 1, now)
		var first, later Ticket
		table.Sent(&first, &c, now)
		table.Sent(&later, &c, now)
		out := func(left int) limit.Outcome {
			return limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: limit.Bucket{Cap: 100 * limit.Token}, Reset: 1}
		}
		table.Answered(&later, &c, true, out(50), Debt{}, int64(now)/1000+2, now+second)
		table.Forget(c.Key, now+second)
		table.Answered(&first, &c, true, out(89), Debt{}, int64(now)/1000+1, now+second)
		if left := table.look(&c, now+second).Tokens / limit.Token; left > 50 {
			t.Errorf("%v: %d left, want 50 at most", l.Algorithm, left)
		}
	}
}
