package sim

import (
	"reflect"
	"testing"

	"aliquot/internal/sim/faults"
	"aliquot/limit"
)

// A failure is reduced to the little trouble that it takes, and replays with that
// alone.
func TestViolationsAreShortened(t *testing.T) {
	opts := Options{faults: []faults.Kind{faults.CutBothWays}, Regions: 3, Keys: 1, Algorithms: []limit.Algorithm{limit.TokenBucket}}
	opts.spoil = func(v *limit.View) { // floors are taken back as soon as leases end
		if v.Phase == limit.Limbo {
			v.Phase = limit.Floor
		}
	}
	seed := uint64(0)
	for ; One(seed, opts) == nil; seed++ {
		if seed == 50 {
			t.Fatal("not caught")
		}
	}
	v := Shorten(seed, opts)
	t.Logf("%v\n%d of %d: %v", v.What, v.Enough.Len(), v.Of, v.Faults)
	if v.Of < 5 || 3*v.Enough.Len() > v.Of {
		t.Errorf("%v is enough, of %d", v.Enough, v.Of)
	}
	only, err := faults.ParseSelection(v.Enough.String())
	if err != nil {
		t.Fatal(err)
	}
	opts.Only = only
	again := One(seed, opts)
	if again == nil || again.At != v.At || again.What != v.What || !reflect.DeepEqual(again.Trace, v.Trace) {
		t.Errorf("with %v alone: %+v", only, again)
	}
	opts.spoil = nil
	if whole := One(seed, opts); whole != nil {
		t.Errorf("without the bug: %v", whole)
	}
	if v := Shorten(seed, opts); v != nil {
		t.Errorf("nothing to shorten, and yet %v", v)
	}
}
