package limit

import "testing"

// TestWhatALeaseCovers: another daemon of the region may have applied a later share than the caller's. Under the caller's
// lease it counts whole only if the leader of the caller's session sent it, after everything that the caller was told, and
// if the record was used a moment ago and since the limit changed. Otherwise the caller spends at most its own share.
func TestWhatALeaseCovers(t *testing.T) {
	gen := func(epoch, counter uint64) uint64 { return epoch<<epochBits | counter }
	const now, just = 70 * tick, 70*tick - tick/2
	view := View{
		Hot: true, Gen: gen(7, 2), Share: of(5, 1), Floor: of(3, 1), Phase: Live,
		Since: 50 * tick, Until: MaxExact, Stamp: testStamp,
	}
	for _, c := range []struct {
		name     string
		known, g uint64
		used     int64
		changed  int64 // the limit
		want     Bucket
	}{
		{"in this session: another call is ahead of the caller", gen(7, 8), gen(7, 9), just, 0, of(10, 2)},
		{"before this session, by the same leader", gen(7, 9), gen(7, 9), just, 0, of(5, 1)},
		{"before this session, by an earlier leader", gen(8, 1), gen(7, 9), just, 0, of(5, 1)},
		{"by a later leader, which did not renew the lease", gen(7, 8), gen(8, 1), just, 0, of(5, 1)},
		{"used since the limit changed", gen(7, 8), gen(7, 9), just, just, of(10, 2)},
		{"of the limit before", gen(7, 8), gen(7, 9), just, just + 1, of(5, 1)},
		{"used a second ago", gen(7, 8), gen(7, 9), now - sharesLast, 0, of(10, 2)},
		{"not used for more than a second: the limit may be another one since", gen(7, 8), gen(7, 9), now - sharesLast - 1, 0, of(5, 1)},
	} {
		v := view
		v.Known, v.RuleSince, v.Slow = c.known, c.changed, Rate{Micro: 2_000_000}
		r := Record{Hot: true, Gen: c.g, Share: of(10, 2), Stamp: testStamp, Tokens: Token, At: c.used}
		if _, in, amnesia := Settle(r, v, now); in != c.want || amnesia {
			t.Errorf("%s: %+v, amnesia %v; want %+v", c.name, in, amnesia, c.want)
		}
	}
	limbo := view
	limbo.Phase = Limbo
	if _, in, _ := Settle(Record{Hot: true, Gen: gen(8, 1), Share: of(10, 2), Stamp: testStamp, At: just}, limbo, now); in != of(3, 1) {
		t.Errorf("without a lease: %+v, want the floor", in)
	}
}
