package limit

import "testing"

// A share that came in an earlier session, without the caller hearing of it, is cut to
// the caller's in the next one: told by the time at which the record was touched, and
// by its generation where the store's clock was set back meanwhile.
func TestALaterShareOfAnEarlierSessionIsNotSpent(t *testing.T) {
	view := View{Hot: true, Gen: 2, Share: of(5, 1), Floor: of(3, 1), Phase: Live, Since: 50 * tick, Until: MaxExact, Stamp: testStamp}
	for _, c := range []struct {
		name    string
		touched int64
		known   uint64
		want    Bucket
	}{
		{"before the lease", 40 * tick, 0, of(5, 1)},
		{"before the session, by a clock that was set back", 60 * tick, 9, of(5, 1)},
		{"in this session: another call is ahead of the caller", 60 * tick, 8, of(10, 2)},
	} {
		v := view
		v.Known = c.known
		r := Record{Hot: true, Gen: 9, Share: of(10, 2), Stamp: testStamp, Tokens: Token, At: c.touched}
		if _, in, amnesia := Settle(r, v, 70*tick); in != c.want || amnesia {
			t.Errorf("%s: %+v, amnesia %v; want %+v", c.name, in, amnesia, c.want)
		}
	}
}
