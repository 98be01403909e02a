package lua

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"aliquot/limit"
)

func TestKey(t *testing.T) {
	suffixes := map[limit.Algorithm]string{
		limit.TokenBucket: "b", limit.LeakyBucket: "q", limit.FixedWindow: "f", limit.SlidingCounter: "c",
		limit.SlidingLog: "l", limit.Concurrency: "s",
	}
	for _, a := range limit.Algorithms() {
		if got, want := Key(a, 42, [16]byte{0xff, 15: 1}), "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:"+suffixes[a]; got != want {
			t.Errorf("%v: %s, want %s", a, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom(limit.Algorithms()).Draw(t, "algorithm")
		rule := rapid.Uint32().Draw(t, "rule")
		hash := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
		gotAlgorithm, gotRule, gotHash, ok := ParseKey(Key(algorithm, rule, hash))
		if !ok || gotAlgorithm != algorithm || gotRule != rule || gotHash != hash {
			t.Fatal(gotAlgorithm, gotRule, gotHash, ok)
		}
	})
	for _, bad := range []string{
		"", EpochKey, "aq:{}:1:b", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:x", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:bb", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:42", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}::b",
		"aq:{_wAAAAAAAAAAAAAAAAAAAQ}:+4:b", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:042:b", "aq:{_wAAAAAAAAAAAAAAAAAAAQ}:4294967296:b",
		"aq:{_wAAAAAAAAAAAAAAAAAAAR}:42:b", "aq:{_wAAAAAAAAAAAA\nAAAAAAAQ}:42:b", "xq:{_wAAAAAAAAAAAAAAAAAAAQ}:42:b",
	} {
		if _, _, _, ok := ParseKey(bad); ok {
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
		"c 0000000a -5 2 3":          {Stamp: 10, Tokens: -5, At: 2, Carry: 3},
		"h 0000000a 1 2 3 4 5 6 7 8": {Hot: true, Stamp: 10, Tokens: 1, At: 2, Carry: 3, Gen: 4, Share: share, Extra: 8},
	} {
		if got := FormatRecord(limit.TokenBucket, r); got != text {
			t.Errorf("%+v is written as %q", r, got)
		}
		if got, ok := ParseRecord(limit.TokenBucket, text); !ok || got != r {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	for _, bad := range []string{"", "c", "c a 1 2 3", "c 0000000a 1 2", "c 0000000a 1 -2 3", "c 0000000a --1 2 3", "c 0000000a -1000000000000001 2 3", "c 0000000a 1 2 1000000",
		"c 0000000a 1 9007199254740992 3", "h 0000000a 1 2 3 4", "h 0000000a 1 2 3 4 5 6 7 ",
		"h 0000000a 1 2 3 4 5 6 7 1000000000000001", "h 0000000a 1 2 3 4 5 6 7 8 9", "c 0000000a 1 2 3 4 5", "x 0000000a 1 2 3"} {
		if got, ok := ParseRecord(limit.TokenBucket, bad); ok || got != limit.Untrusted() || got.Absent() {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func TestCountedRecordText(t *testing.T) {
	window := func(u limit.Use) *limit.Use {
		u.Window, u.Label = 60, 200/60+1
		return &u
	}
	log := func(free int64, entries ...limit.Entry) *limit.Use { return &limit.Use{Free: free, Entries: entries} }
	share := limit.Bucket{Cap: 9}
	for _, x := range []struct {
		a    limit.Algorithm
		text string
		r    limit.Record
	}{
		{limit.FixedWindow, "c 0000000a 200", limit.Record{Stamp: 10, At: 200}},
		{limit.FixedWindow, "c 0000000a 200 60", limit.Record{Stamp: 10, At: 200, Use: window(limit.Use{})}},
		{limit.SlidingCounter, "c 0000000a 200 60 5 6", limit.Record{Stamp: 10, At: 200, Use: window(limit.Use{Cur: 5, Prev: 6})}},
		{limit.SlidingCounter, "h 0000000a 200 60 5 0 7 9", limit.Record{Hot: true, Stamp: 10, At: 200, Gen: 7, Share: share, Use: window(limit.Use{Cur: 5})}},
		{limit.FixedWindow, "h 0000000a 200 60 5 0 7 9 300 1", limit.Record{Hot: true, Stamp: 10, At: 200, Gen: 7, Share: share, Use: window(limit.Use{Cur: 5, Free: 300, HeldLabel: 4})}},
		{limit.FixedWindow, "c 0000000a 200 0 0 0 0 0 300", limit.Record{Stamp: 10, At: 200, Use: &limit.Use{Free: 300}}},
		{limit.SlidingLog, "c 0000000a 200 1 1000000;260", limit.Record{Stamp: 10, At: 200, Use: log(0, limit.Entry{Until: 260, Cost: limit.Token})}},
		{limit.SlidingLog, "c 0000000a 200 2 1000005 3 4 0 300;260:5 3", limit.Record{Stamp: 10, At: 200, Gen: 4, Use: log(300, limit.Entry{Until: 260, Cost: 5}, limit.Entry{Until: 263, Cost: limit.Token})}},
		{limit.Concurrency, "h 0000000a 200 2 2000000 0 7 9;260:1000000:8 0:1000000:9", limit.Record{Hot: true, Stamp: 10, At: 200, Gen: 7, Share: share,
			Use: log(0, limit.Entry{Until: 260, Cost: limit.Token, Slot: 8}, limit.Entry{Until: 260, Cost: limit.Token, Slot: 9})}},
	} {
		if got := FormatRecord(x.a, x.r); got != x.text {
			t.Errorf("%+v is written as %q, want %q", x.r, got, x.text)
		}
		if got, ok := ParseRecord(x.a, x.text); !ok || !reflect.DeepEqual(got, x.r) {
			t.Errorf("%q is read as %+v", x.text, got)
		}
	}
	for a, texts := range badCounted {
		for _, bad := range texts {
			if got, ok := ParseRecord(a, bad); ok || got != limit.Untrusted() {
				t.Errorf("%v: %q is read as %+v", a, bad, got)
			}
		}
	}
}

// badCounted are texts that no record has. The scripts read the entries of a log only as
// far as they need to, so these are wrong at the beginning.
var badCounted = map[limit.Algorithm][]string{
	limit.FixedWindow: {"", "c", "c 0000000a", "c 0000000a ", "c 0000000a  1", "c 0000000a 1 ", "c 0000000a 1 2 3 4 5 6 7 8 9", "x 0000000a 1",
		"c 0000000a 1 0 1", "c 0000000a 1 0 0 1", "c 0000000a 1 0 0 0 0 0 0 1", "c 0000000a 9007199254740992", "c 0000000a 1 5 2000000000000001",
		"c 0000000a 1 4000000000000001", "c 0000000a 1 60 -1", "c 0000000a 1 60 1:2", "c 0000000a 1;5"},
	limit.SlidingLog: {"", "c", "c 0000000a", "c 0000000a 1 1 1000000", "c 0000000a 1;1", "c 0000000a 1 1 1000000;", "c 0000000a 1 0 0;1",
		"c 0000000a 1 1 1000000 0 0 0 0 0;1", "c 0000000a 1 1 1000000;x", "c 0000000a  1", "c 0000000a 1 1 1000000 ;1"},
}
