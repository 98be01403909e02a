package lua

import (
	"testing"

	"pgregory.net/rapid"

	"aliquot/limit"
)

func TestKey(t *testing.T) {
	if got := Key(42, [16]byte{0xff, 15: 1}); got != "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:b" {
		t.Fatal(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.Uint32().Draw(t, "rule")
		hash := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
		gotRule, gotHash, ok := ParseKey(Key(rule, hash))
		if !ok || gotRule != rule || gotHash != hash {
			t.Fatal(gotRule, gotHash, ok)
		}
	})
	for _, bad := range []string{
		"", EpochKey, "aq:{}:1:b", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:q", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}::b",
		"aq:{_wAAAAAAAAAAAAAAAAAAAQ}:+4:b", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:042:b", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:4294967296:b",
		"aq:{_wAAAAAAAAAAAAAAAAAAAR}:42:b", "aq:{_wAAAAAAAAAAAA\nAAAAAAAQ}:42:b", "xq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:b",
	} {
		if _, _, ok := ParseKey(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestRecordText(t *testing.T) {
	share := limit.Bucket{Cap: 5, Rate: limit.Rate{Micro: 6, Frac: 7}}
	for text, r := range map[string]limit.Record{
		"c 0000000a 1 2 3":           {Stamp: 10, Tokens: 1, At: 2, Carry: 3},
		"c 0000000a 1 2 3 4":         {Stamp: 10, Tokens: 1, At: 2, Carry: 3, Gen: 4},
		"h 0000000a 1 2 3 4 5 6 7":   {Hot: true, Stamp: 10, Tokens: 1, At: 2, Carry: 3, Gen: 4, Share: share},
		"h 0000000a 1 2 3 4 5 6 7 8": {Hot: true, Stamp: 10, Tokens: 1, At: 2, Carry: 3, Gen: 4, Share: share, Extra: 8},
	} {
		if got := FormatRecord(r); got != text {
			t.Errorf("%+v is written as %q", r, got)
		}
		if got, ok := ParseRecord(text); !ok || got != r {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	for _, bad := range []string{"", "c", "c a 1 2 3", "c 0000000a 1 2", "c 0000000a -1 2 3", "c 0000000a 1 2 1000000",
		"c 0000000a 1 9007199254740992 3", "h 0000000a 1 2 3 4", "h 0000000a 1 2 3 4 5 6 7 ",
		"h 0000000a 1 2 3 4 5 6 7 1000000000000001", "h 0000000a 1 2 3 4 5 6 7 8 9", "c 0000000a 1 2 3 4 5", "x 0000000a 1 2 3"} {
		if got, ok := ParseRecord(bad); ok || got != limit.Untrusted() || got.Absent() {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
