package sim

import (
	"testing"
	"time"

	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// TestALossIsForgivenOnce: a region's daemon and store are lost together, and a client that has used its
// limit goes on. A rule that forgives gives it one whole limit more, and not another one; a rule that
// denies gives a limit that counts nothing for two windows, and a bucket what it earns.
func TestALossIsForgivenOnce(t *testing.T) {
	for _, l := range []limit.Limit{
		of(300, 1), {Algorithm: limit.FixedWindow, Capacity: 300 * limit.Token, Window: 10 * time.Minute},
		{Algorithm: limit.SlidingCounter, Capacity: 300 * limit.Token, Window: 10 * time.Minute},
		{Algorithm: limit.SlidingLog, Capacity: 300 * limit.Token, Window: 10 * time.Minute},
	} {
		for _, forgives := range []bool{false, true} {
			before, after := lossOfBoth(t, l, forgives)
			least, most := 0, 0
			if forgives {
				least, most = 297, 300
			}
			if bucket := l.Rate.Micro > 0; bucket {
				// A minute earns 60. A bucket is as full as the region may have it before it has a session.
				least, most = least*2/3, most+63
			}
			if before < 290 || after > most || after < least {
				t.Errorf("%v, forgives %v: %d and then %d admitted, want 300 and %d to %d", l.Algorithm, forgives, before, after, least, most)
			}
		}
	}
}

// lossOfBoth returns what a client in one of three regions gets until its region's store and daemon are
// lost together, and in the minute after that.
func lossOfBoth(t *testing.T, l limit.Limit, forgives bool) (before, after int) {
	t.Helper()
	d := NewDriven(DriveOptions{
		Seed: 1, RTTs: []time.Duration{40 * time.Millisecond, 40 * time.Millisecond, 40 * time.Millisecond}, Quorum: 10 * time.Millisecond,
		Keys: []DrivenKey{{Limit: l, Elastic: true, Forgives: forgives}},
	})
	var ask func()
	ask = func() {
		d.Ask(0, 0, 3, limit.Token, func(site.Decided) {})
		d.After(20*time.Millisecond, ask)
	}
	d.After(5*time.Second, ask)
	const lossAt = 20 * time.Second
	d.After(lossAt, func() {
		before = int(d.w.Rules[0].Got[0] / limit.Token)
		d.Flush(0)
		d.w.Replace(d.w.NodeOf(0), 100*milli)
	})
	if broken := d.Run(lossAt + time.Minute); broken != nil {
		t.Fatal(broken)
	}
	return before, int(d.w.Rules[0].Got[0]/limit.Token) - before
}
