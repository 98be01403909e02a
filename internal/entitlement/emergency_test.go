package entitlement_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
)

// TestBucketWithoutTheStore: the region's part of a limit, of an elastic one's cold key the whole
// capacity, but nothing of a region that has nothing. It earns no more by a clock that is fast.
func TestBucketWithoutTheStore(t *testing.T) {
	cold := budget.Right{Floor: third, Phase: budget.Live, Until: 95e9}
	hot := budget.Right{Hot: true, Share: third, Floor: third, Phase: budget.Live, Until: 95e9}
	none := budget.Right{Phase: budget.Live, Until: 95e9}
	part := entitlement.Bucket(bucket, third).Cap
	for _, c := range []struct {
		what    string
		right   budget.Right
		limit   limit.Limit
		elastic bool
		cap     limit.Tokens
	}{
		{"a cold key", cold, bucket, false, part},
		{"an elastic limit's cold key", cold, bucket, true, bucket.Capacity},
		{"an elastic limit's hot key", hot, bucket, true, part},
		{"an elastic limit's cold key of a region without a floor", none, bucket, true, 0},
		{"a cold key of a counting limit", cold, window, true, entitlement.Bucket(window, third).Cap},
	} {
		if b := entitlement.WithoutStore(c.right, c.limit, c.elastic, 20_000); b.Cap != c.cap {
			t.Errorf("%s: %d of %d tokens, want %d", c.what, b.Cap, c.limit.Capacity, c.cap)
		}
	}
	fast := entitlement.WithoutStore(cold, bucket, false, 20_000).Rate.Micro
	if exact := entitlement.Bucket(bucket, third).Rate.Micro; fast*102 > exact*100 || fast*102 < exact*100-102 {
		t.Errorf("it earns %d by a clock that may be 2 %% fast, of %d", fast, exact)
	}
}

// TestTimeUntilADebtIsOver: a cold bucket of 100 at 33 a second is full after 3 s, a whole elastic one
// of 300 after 9 s. One of 700 a week is full after a week, and one that earns nothing is full after 100 years, as the
// store keeps their records. A limit that counts fills in no way.
func TestTimeUntilADebtIsOver(t *testing.T) {
	cold := budget.Right{Floor: third}
	const years = 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		what    string
		right   budget.Right
		elastic bool
		after   time.Duration
	}{
		{"a cold key", cold, false, 3 * time.Second},
		{"an elastic limit's cold key", cold, true, 9 * time.Second},
		{"a hot key with a larger and slower share", budget.Right{Hot: true, Floor: third,
			Share: budget.Share{Rate: budget.Unit / 6, Burst: budget.Unit}}, false, 18 * time.Second},
		{"a key that earns nothing", budget.Right{Floor: budget.Share{Burst: budget.Unit}}, false, years},
	} {
		full := entitlement.TimeToFull(c.right, bucket, c.elastic)
		if full < c.after || full > c.after+c.after/40+time.Second {
			t.Errorf("%s: it is full after %v, want %v and a little more", c.what, full, c.after)
		}
	}
	week := limit.Limit{Capacity: 700 * limit.Token, Rate: limit.Rate{Micro: 1157, Frac: 407_407}}
	if full := entitlement.TimeToFull(entitlement.Whole(cold), week, false); full < 7*24*time.Hour || full > 8*24*time.Hour {
		t.Errorf("700 a week are there after %v", full)
	}
	counts := limit.Limit{Algorithm: limit.FixedWindow, Capacity: 700 * limit.Token, Window: time.Minute}
	if full := entitlement.TimeToFull(entitlement.Whole(cold), counts, false); full > 25*time.Hour {
		t.Errorf("use in minutes matters for %v", full)
	}
}

// TestReturning: a daemon that has come back, and was not told yet which keys are hot, remembers by the floor that it was
// told. Any other right is its own.
func TestReturning(t *testing.T) {
	floor, limbo := budget.Share{Rate: 500, Burst: 600}, budget.Share{Rate: 10, Burst: 10}
	blind := budget.Right{Floor: limbo, Told: floor, Low: limbo, FloorSince: 7, Phase: budget.Limbo, Blind: true, Since: 5}
	if got := entitlement.Returning(blind); got.Effective() != floor || got.Blind || got.Low != limbo || got.FloorSince != 7 {
		t.Errorf("%+v", got)
	}
	for _, other := range []budget.Right{{Floor: floor, Phase: budget.CutOff, Blind: true}, {Floor: limbo, Told: floor, Phase: budget.Limbo}, {Hot: true, Share: floor}} {
		if got := entitlement.Returning(other); got != other {
			t.Errorf("%+v becomes %+v", other, got)
		}
	}
}
