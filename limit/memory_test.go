package limit

import "testing"

// remembering is a view of a limit of 100 tokens, or rights, whose record the store has lost.
func remembering(a Algorithm, m Memory) View {
	v := View{Algorithm: a, Phase: Live, Until: MaxExact, Stamp: 7, Birth: 500 * million, Floor: Bucket{Cap: 100 * Token}, Memory: &m}
	if a.Counts() {
		v.Window = 60 * million
		return v
	}
	v.Floor.Rate.Micro = int64(Token)
	return v
}

// left is what a record holds under a view.
func left(r Record, v View, now int64) Tokens {
	out := make([]Outcome, 1)
	Take([]Record{r}, []View{v}, 1000*Token, now, out)
	return out[0].Tokens / Token
}

// TestMemoryStandsForALostRecord: at once, whatever the contents began; but not for a record of the present contents.
func TestMemoryStandsForALostRecord(t *testing.T) {
	const now = 510 * million // of the window from 480 s on
	for name, is := range map[string]struct {
		view View
		left Tokens
	}{
		"bucket":              {remembering(TokenBucket, Memory{Tokens: 60 * Token}), 60},
		"full":                {remembering(TokenBucket, Memory{Tokens: 900 * Token}), 100},
		"owed":                {remembering(TokenBucket, Memory{Tokens: -5 * Token}), -5},
		"fixed":               {remembering(FixedWindow, Memory{Used: 40 * Token, Rights: 100 * Token, At: 490 * million}), 60},
		"share that grew":     {remembering(FixedWindow, Memory{Used: 40 * Token, Rights: 50 * Token, At: 490 * million}), 10},
		"window before":       {remembering(FixedWindow, Memory{Used: 40 * Token, Rights: 50 * Token, At: 470 * million}), 100},
		"window to come":      {remembering(FixedWindow, Memory{At: 541 * million}), -MaxTokens / Token},
		"counter":             {remembering(SlidingCounter, Memory{Used: 40 * Token, At: 490 * million}), 60},
		"counter, half of it": {remembering(SlidingCounter, Memory{Used: 40 * Token, At: 470 * million}), 80},
		"log":                 {remembering(SlidingLog, Memory{Used: 40 * Token, At: 490 * million}), 60},
		"log, a window later": {remembering(SlidingLog, Memory{Used: 40 * Token, At: 450 * million}), 100},
		"counter, both windows": {remembering(SlidingCounter, Memory{
			Used: 20 * Token, At: 490 * million, Earlier: []DatedUse{{40 * Token, 470 * million}},
		}), 60},
		"log, admitted at several times": {remembering(SlidingLog, Memory{
			Used: 20 * Token, At: 490 * million, Earlier: []DatedUse{{30 * Token, 440 * million}, {10 * Token, 460 * million}},
		}), 70},
		"slots":                   {remembering(Concurrency, Memory{Used: 40 * Token, At: 490 * million}), 60},
		"nothing known, a bucket": {View{Phase: Live, Until: MaxExact, Stamp: 7, Birth: 500 * million, Floor: Bucket{Cap: 100 * Token, Rate: Rate{Micro: int64(Token)}}}, 10},
	} {
		for what, lost := range map[string]Record{"absent": {}, "of other contents": {Stamp: 6, Tokens: 5 * Token, At: 509 * million}} {
			if n := left(lost, is.view, now); n != is.left {
				t.Errorf("%s, %s: %d left, want %d", name, what, n, is.left)
			}
		}
		if is.view.Memory == nil || is.view.Algorithm.Counts() {
			continue
		}
		if n := left(Record{Stamp: 7, Tokens: 3 * Token, At: now}, is.view, now); n != 3 {
			t.Errorf("%s, with a record: %d left, want 3", name, n)
		}
	}
}

// TestUseByAClockThatWasAhead: a store lost its contents, and its clock is behind that of before. What was in use counts
// for a window from now on, and not until a window after that clock's time.
func TestUseByAClockThatWasAhead(t *testing.T) {
	const now = 510 * million
	for _, a := range []Algorithm{SlidingLog, Concurrency} {
		v := remembering(a, Memory{Used: 40 * Token, At: now + 3600*million, Earlier: []DatedUse{{10 * Token, now + 1800*million}}})
		r, _, _ := Settle(Record{}, v, now)
		for later, want := range map[int64]Tokens{0: 50, 60*million - 1: 50, 60 * million: 100} {
			if n := left(r, v, now+later); n != want {
				t.Errorf("%v, %d s later: %d left, want %d", a, later/million, n, want)
			}
		}
	}
}

// TestMemoryOfAHotKey: it has the share that its caller knows, nothing was lost, and the session goes on.
func TestMemoryOfAHotKey(t *testing.T) {
	v := remembering(TokenBucket, Memory{Tokens: 40 * Token, Extra: 20 * Token})
	v.Hot, v.Gen, v.Share, v.Extra = true, 3, Bucket{Cap: 30 * Token}, 10*Token
	r, in, amnesia := Settle(Record{}, v, 510*million)
	if amnesia || in != v.Share || r.Gen != 3 || !r.Hot || r.Tokens != 30*Token || r.Extra != 10*Token || r.Lent != 0 {
		t.Errorf("%+v under %+v, amnesia %v", r, in, amnesia)
	}
	v.Phase = Limbo // the smaller of share and floor
	v.Floor.Cap = 20 * Token
	if r, _, _ := Settle(Record{}, v, 510*million); r.Tokens != 20*Token {
		t.Errorf("in limbo: %+v", r)
	}
}

// TestOneWindowIsTooShortForACounter: of a minute's limit of 100 all was admitted just after 60 s, and the record
// was lost. A minute later most of it counts still. A region that did not know that and waited for a minute alone
// would have 97 in use beside the 100 that it admits then.
func TestOneWindowIsTooShortForACounter(t *testing.T) {
	v := remembering(SlidingCounter, Memory{})
	v.Memory, v.Birth = nil, 61*million
	record := make([]Record, 1)
	out := make([]Outcome, 1)
	known := v
	known.Birth = 0
	if !Take(record, []View{known}, 100*Token, 61*million, out) {
		t.Fatal("the first 100 are denied")
	}
	const later = 122 * million // in the window from 120 s on
	if n := left(record[0], known, later); n > 4 {
		t.Errorf("%d are left a window later by the record", n)
	}
	if n := left(Record{}, v, later); n > 0 {
		t.Errorf("%d are left a window later without the record", n)
	}
}
