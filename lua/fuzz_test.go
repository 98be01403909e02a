package lua

import (
	"testing"

	"aliquot/limit"
)

// recordAlgorithms have a form of record each.
var recordAlgorithms = limit.Algorithms()

// FuzzRecord: a record that no script wrote is read as one that may have been spent from, or as what its text says;
// nothing that is decided by it admits more than the limit.
func FuzzRecord(f *testing.F) {
	for i, text := range []string{
		"c 00000000 5000000 1000 0", "h 00000000 -5 1000 999999 7 100000000 1000000 1 3", "l 5 9 c 0000000a 1 2 3",
		"c 00000000 60000000 60000000 5000000 1", "c 00000000 1000", "h 00000000 1000 2 3000000 600 7 9000000;2000:1000000:5 600:2000000",
	} {
		f.Add(text, byte(i), int64(2000))
	}
	f.Fuzz(func(t *testing.T, text string, kind byte, now int64) {
		a := recordAlgorithms[int(kind)%len(recordAlgorithms)]
		r, ok := ParseRecord(a, text)
		if ok {
			if again, ok := ParseRecord(a, FormatRecord(a, r)); !ok || FormatRecord(a, again) != FormatRecord(a, r) {
				t.Errorf("%q is read as %+v, and that as %+v", text, r, again)
			}
		}
		v := limit.View{
			Algorithm: a, Floor: limit.Bucket{Cap: 100 * limit.Token, Rate: limit.Rate{Micro: 1_000_000}},
			Phase: limit.Live, Until: limit.MaxExact, Window: 60_000_000,
		}
		if a.Counts() {
			v.Floor.Rate = limit.Rate{}
		}
		settled, bucket, _ := limit.Settle(r, v, min(max(now, 0), limit.MaxExact))
		if bucket.Cap > v.Floor.Cap || !a.Counts() && settled.Tokens > v.Floor.Cap+settled.Extra {
			t.Errorf("%q: settled as %+v with %+v", text, settled, bucket)
		}
	})
}

// FuzzKept: what a store keeps of a reservation is refused, or is read as it was written.
func FuzzKept(f *testing.F) {
	for _, text := range []string{
		"00000000 1\nmine", "0000000a 5 1 1000000 2000000 3 4 0\nmine", "0000000a 5 1 1 2 3 4 0\nmine\n9 1 2 3 4 0\nnote", "zz 1\n", "0 1 1 2\nnull\n3\n[]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kept, err := ParseKept(text)
		if err != nil {
			return
		}
		if again, err := ParseKept(kept.Stored()); err != nil || !again.Is(kept) {
			t.Errorf("%q is read as %+v, and that as %+v, %v", text, kept, again, err)
		}
		for _, a := range recordAlgorithms {
			for limits := range 3 {
				group := Group{Limits: make([]KeyView, limits)}
				for i := range group.Limits {
					group.Limits[i].View.Algorithm = a
				}
				_, _ = kept.Results([]Group{group})
			}
		}
		if !kept.Settled {
			kept.Ended(1, kept.Adjusted, "note")
		}
	})
}
