package limit

import "testing"

// TestALeaseCoversWhatItsLeaderSent: another daemon of the region may have applied a later share than the caller's.
// Under the caller's lease it counts whole only if the leader of the caller's session sent it, after everything that
// the caller was told. Otherwise the caller spends at most its own share. When the record was last used does not
// matter, because the store's clock may have been set back.
func TestALeaseCoversWhatItsLeaderSent(t *testing.T) {
	gen := func(epoch, counter uint64) uint64 { return epoch<<epochBits | counter }
	view := View{
		Hot: true, Gen: gen(7, 2), Share: of(5, 1), Floor: of(3, 1), Phase: Live,
		Since: 50 * tick, Until: MaxExact, Stamp: testStamp,
	}
	for _, c := range []struct {
		name     string
		known, g uint64
		want     Bucket
	}{
		{"in this session: another call is ahead of the caller", gen(7, 8), gen(7, 9), of(10, 2)},
		{"before this session, by the same leader", gen(7, 9), gen(7, 9), of(5, 1)},
		{"before this session, by an earlier leader", gen(8, 1), gen(7, 9), of(5, 1)},
		{"by a later leader, which did not renew the lease", gen(7, 8), gen(8, 1), of(5, 1)},
	} {
		for _, touched := range []int64{40 * tick, 60 * tick} {
			v := view
			v.Known = c.known
			r := Record{Hot: true, Gen: c.g, Share: of(10, 2), Stamp: testStamp, Tokens: Token, At: touched}
			if _, in, amnesia := Settle(r, v, 70*tick); in != c.want || amnesia {
				t.Errorf("%s, used at %d: %+v, amnesia %v; want %+v", c.name, touched, in, amnesia, c.want)
			}
		}
	}
	limbo := view
	limbo.Phase = Limbo
	if _, in, _ := Settle(Record{Hot: true, Gen: gen(8, 1), Share: of(10, 2), Stamp: testStamp, At: 60 * tick}, limbo, 70*tick); in != of(3, 1) {
		t.Errorf("without a lease: %+v, want the floor", in)
	}
}
