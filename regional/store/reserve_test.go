package store

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store/memory"
)

var reservationKey = lua.ReservationKey([16]byte{7})

// aReservation is of a bucket of 100 tokens without a rate, a log of 10 and 2 slots, each
// charged with its own cost.
func aReservation(epoch string, slot uint64) ([]Group, lua.Reservation) {
	var hash [16]byte
	binary.BigEndian.PutUint64(hash[8:], 5)
	views := []lua.KeyView{
		{Key: lua.Key(limit.TokenBucket, 1, hash), View: coldView(epoch, bucket(100, 0))},
		{Key: lua.Key(limit.SlidingLog, 2, hash), View: coldView(epoch, bucket(10, 0))},
		{Key: lua.Key(limit.Concurrency, 3, hash), View: coldView(epoch, bucket(2, 0))},
	}
	views[0].View.Cost = 40 * limit.Token
	views[1].View.Algorithm, views[1].View.Window, views[1].View.Cost = limit.SlidingLog, 600_000_000, 3*limit.Token
	views[2].View.Algorithm, views[2].View.Window, views[2].View.Cost = limit.Concurrency, 600_000_000, limit.Token
	views[2].View.Slot = slot
	return []Group{{Cost: limit.Token, Limits: views}}, lua.Reservation{Key: reservationKey, Text: "mine", Keep: time.Minute, Decided: true}
}

// endOf settles what aReservation made: so much of the bucket and of the log was used.
func endOf(groups []Group, kept *lua.Kept, tokens, entries int64) lua.Settlement {
	end := lua.Settlement{Key: reservationKey, Was: kept, Ends: limit.MaxExact, Note: "done"}
	for i, used := range []int64{tokens, entries, 1} {
		v := groups[0].Limits[i]
		end.Parts = append(end.Parts, lua.Part{Key: v.Key, Adjustment: limit.Adjustment{
			View: v.View, At: kept.At, Window: v.View.Window, Reserved: v.View.Cost,
			Used: limit.Tokens(used) * limit.Token, Debt: v.View.Floor.Cap,
		}})
	}
	return end
}

func mustReserve(t *testing.T, s anyStore, epoch string, groups []Group, r lua.Reservation) lua.Reserved {
	t.Helper()
	out, _, err := s.Reserve(t.Context(), epoch, groups, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustSettle(t *testing.T, s anyStore, epoch string, end lua.Settlement) lua.Settled {
	t.Helper()
	out, _, err := s.Settle(t.Context(), epoch, end)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func keptIn(t *testing.T, s anyStore) *lua.Kept {
	t.Helper()
	kept, err := s.Reservation(t.Context(), reservationKey)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// lefts is what the three limits have left.
func lefts(t *testing.T, s anyStore, epoch string, groups []Group) (left [3]int64) {
	t.Helper()
	for i, l := range groups[0].Limits {
		l.View.Cost, l.View.Slot = limit.MaxExact, 0 // charges nothing
		got, _, err := s.Take(t.Context(), epoch, []Group{{Limits: []KeyView{l}}})
		if err != nil {
			t.Fatal(err)
		}
		left[i] = int64(got[0].Limits[0].Tokens / limit.Token)
	}
	return left
}

// TestAdjust: what was used is charged though it is not there, as far below nothing as the debt allows.
func TestAdjust(t *testing.T) {
	onBoth(t, func(t *testing.T, a, b anyStore, epoch string, _ func()) {
		groups, _ := aReservation(epoch, 0)
		parts := func(tokens, entries int64) []lua.Part {
			out := endOf(groups, &lua.Kept{}, tokens, entries).Parts[:2]
			for i := range out {
				out[i].Reserved, out[i].View.Cost, out[i].At, out[i].Window = 0, 0, 0, 0
			}
			return out
		}
		for _, c := range []struct {
			store           anyStore
			tokens, entries int64
			charged         [2]int64
			left            [3]int64
		}{
			{a, 60, 4, [2]int64{60, 4}, [3]int64{40, 6, 2}},
			{b, 90, 9, [2]int64{90, 9}, [3]int64{-50, -3, 2}},   // 50 and 3 are owed
			{a, 90, 9, [2]int64{50, 7}, [3]int64{-100, -10, 2}}, // no more than 100 and 10
		} {
			out, err := c.store.Adjust(t.Context(), epoch, parts(c.tokens, c.entries))
			if err != nil || out[0].Charged != limit.Tokens(c.charged[0])*limit.Token || out[1].Charged != limit.Tokens(c.charged[1])*limit.Token {
				t.Errorf("%d and %d: %+v, %v, want %v", c.tokens, c.entries, out, err, c.charged)
			}
			if got := lefts(t, a, epoch, groups); got != c.left {
				t.Errorf("%d and %d: left %v, want %v", c.tokens, c.entries, got, c.left)
			}
		}
	})
}

// TestReserveAndSettle: all of the request's limits are charged at once, once by a name,
// and settled once, by whichever daemon.
func TestReserveAndSettle(t *testing.T) {
	onBoth(t, func(t *testing.T, a, b anyStore, epoch string, _ func()) {
		groups, r := aReservation(epoch, 1)
		first := mustReserve(t, a, epoch, groups, r)
		if first.Earlier != nil || !first.Results[0].Allowed {
			t.Fatalf("%+v", first)
		}
		if got := lefts(t, a, epoch, groups); got != [3]int64{60, 7, 1} {
			t.Fatalf("left %v", got)
		}
		again := mustReserve(t, b, epoch, groups, r)
		if again.Earlier == nil || again.Earlier.Text != "mine" || again.Earlier.Settled {
			t.Fatalf("%+v", again)
		}
		results, err := again.Earlier.Results(groups)
		if err != nil || !reflect.DeepEqual(results, first.Results) {
			t.Errorf("the repeated call was answered %+v, the first %+v (%v)", results, first.Results, err)
		}
		kept := keptIn(t, b)
		out := mustSettle(t, b, epoch, endOf(groups, kept, 15, 1))
		if out.Changed || out.Expired || out.Adjusted[0].Refunded != 25*limit.Token || out.Adjusted[1].Refunded != 2*limit.Token || out.Adjusted[2].Refunded != limit.Token {
			t.Fatalf("%+v", out)
		}
		if got := lefts(t, a, epoch, groups); got != [3]int64{85, 9, 2} {
			t.Errorf("left %v", got)
		}
		if twice := mustSettle(t, a, epoch, endOf(groups, kept, 0, 0)); !twice.Changed || twice.Adjusted != nil {
			t.Errorf("settled twice: %+v", twice)
		}
		ended := keptIn(t, a)
		if !ended.Settled || ended.Note != "done" || !reflect.DeepEqual(ended.Adjusted, out.Adjusted) || ended.Is(kept) {
			t.Errorf("kept: %+v", ended)
		}
		if late := mustReserve(t, a, epoch, groups, r); late.Earlier == nil || !late.Earlier.Settled {
			t.Errorf("reserved again: %+v", late)
		}
		if got := lefts(t, a, epoch, groups); got != [3]int64{85, 9, 2} {
			t.Errorf("left %v", got)
		}
	})
}

// TestOverrunIsADebt that is bounded, and denies until it is paid.
func TestOverrunIsADebt(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		groups, r := aReservation(epoch, 1)
		mustReserve(t, s, epoch, groups, r)
		out := mustSettle(t, s, epoch, endOf(groups, keptIn(t, s), 1000, 3))
		if a := out.Adjusted[0]; a.Charged != 160*limit.Token || a.Tokens != -100*limit.Token {
			t.Fatalf("%+v; 60 were left, and 100 may be owed", a)
		}
		if got := lefts(t, s, epoch, groups); got != [3]int64{-100, 7, 2} {
			t.Errorf("left %v", got)
		}
	})
}

// TestReserveIsAllOrNothing: what one limit denies is charged nowhere and not remembered.
func TestReserveIsAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		groups, r := aReservation(epoch, 1)
		groups[0].Limits[1].View.Cost = 11 * limit.Token
		if out := mustReserve(t, s, epoch, groups, r); out.Earlier != nil || out.Results[0].Allowed {
			t.Fatalf("%+v", out)
		}
		if got := lefts(t, s, epoch, groups); got != [3]int64{100, 10, 2} || keptIn(t, s) != nil {
			t.Errorf("left %v, kept %+v", got, keptIn(t, s))
		}
	})
}

// TestReserveWithoutLimits is remembered, and settled with nothing.
func TestReserveWithoutLimits(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		r := lua.Reservation{Key: reservationKey, Text: "mine", Keep: time.Minute}
		if out := mustReserve(t, s, epoch, nil, r); out.Earlier != nil || len(out.Results) != 0 {
			t.Fatalf("%+v", out)
		}
		out := mustSettle(t, s, epoch, lua.Settlement{Key: reservationKey, Was: keptIn(t, s), Ends: limit.MaxExact})
		if out.Changed || out.Expired || len(out.Adjusted) != 0 || !keptIn(t, s).Settled {
			t.Errorf("%+v", out)
		}
	})
}

// TestSettleAfterTheEnd changes nothing.
func TestSettleAfterTheEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, pass func()) {
		groups, r := aReservation(epoch, 1)
		mustReserve(t, s, epoch, groups, r)
		end := endOf(groups, keptIn(t, s), 0, 0)
		end.Ends = end.Was.At
		pass()
		if out := mustSettle(t, s, epoch, end); !out.Expired || out.Adjusted != nil {
			t.Errorf("%+v", out)
		}
		if got := lefts(t, s, epoch, groups); got != [3]int64{60, 7, 1} || keptIn(t, s).Settled {
			t.Errorf("left %v", got)
		}
	})
}

// TestReservationsOfOtherContents: neither is made nor settled.
func TestReservationsOfOtherContents(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		groups, r := aReservation(epoch, 1)
		mustReserve(t, s, epoch, groups, r)
		end := endOf(groups, keptIn(t, s), 0, 0)
		var other *EpochError
		if _, _, err := s.Reserve(t.Context(), "another", groups, r); !errors.As(err, &other) || other.Actual != epoch {
			if !errors.Is(err, ErrInvalid) { // its views are of the contents' stamp
				t.Errorf("reserve: %v", err)
			}
		}
		groups, _ = aReservation("another", 1)
		for i := range end.Parts {
			end.Parts[i].View = groups[0].Limits[i].View
		}
		if _, _, err := s.Settle(t.Context(), "another", end); !errors.As(err, &other) || other.Actual != epoch {
			t.Errorf("settle: %v", err)
		}
	})
}

func TestReserveRefusesNonsense(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		groups, good := aReservation(epoch, 1)
		for name, edit := range map[string]func(*lua.Reservation){
			"two lines":        func(r *lua.Reservation) { r.Text = "a\nb" },
			"a long text":      func(r *lua.Reservation) { r.Text = string(make([]byte, lua.MaxReservationBytes+1)) },
			"kept for no time": func(r *lua.Reservation) { r.Keep = 0 },
		} {
			r := good
			edit(&r)
			if _, _, err := s.Reserve(t.Context(), epoch, groups, r); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := s.Reserve(t.Context(), epoch, nil, good); !errors.Is(err, ErrInvalid) {
			t.Errorf("decided by no group: %v", err)
		}
		mustReserve(t, s, epoch, groups, good)
		for name, edit := range map[string]func(*lua.Settlement){
			"of nothing":    func(s *lua.Settlement) { s.Was = nil },
			"two lines":     func(s *lua.Settlement) { s.Note = "a\nb" },
			"negative use":  func(s *lua.Settlement) { s.Parts[0].Used = -1 },
			"a large debt":  func(s *lua.Settlement) { s.Parts[0].Debt = limit.MaxTokens + 1 },
			"another store": func(s *lua.Settlement) { s.Parts[0].View.Stamp++ },
		} {
			end := endOf(groups, keptIn(t, s), 0, 0)
			edit(&end)
			if _, _, err := s.Settle(t.Context(), epoch, end); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := lefts(t, s, epoch, groups); got != [3]int64{60, 7, 1} {
			t.Errorf("left %v", got)
		}
	})
}

// TestMemoryBoundsReservations: with no room nothing is charged, and what has expired
// makes room.
func TestMemoryBoundsReservations(t *testing.T) {
	c := &clock{}
	c.us.Store(1000 * second)
	m, err := memory.New(memory.Config{MaxReservations: 2, Clock: c.us.Load})
	if err != nil {
		t.Fatal(err)
	}
	epoch, _ := m.Epoch(t.Context())
	groups, r := aReservation(epoch, 0)
	groups[0].Limits = groups[0].Limits[:1]
	for i := range 2 {
		r.Key = lua.ReservationKey([16]byte{byte(i)})
		mustReserve(t, m, epoch, groups, r)
	}
	r.Key = lua.ReservationKey([16]byte{9})
	if _, _, err := m.Reserve(t.Context(), epoch, groups, r); !errors.Is(err, lua.ErrNoRoom) {
		t.Fatal(err)
	}
	if _, out := takeOne(t, m, epoch, groups[0].Limits[0].Key, 1, coldView(epoch, bucket(100, 0))); out.Tokens != 19*limit.Token {
		t.Errorf("%d left, want 100 - 40 - 40 - 1", out.Tokens/limit.Token)
	}
	c.us.Add(60 * second)
	groups[0].Limits[0].View.Cost = limit.Token
	if out := mustReserve(t, m, epoch, groups, r); out.Earlier != nil || !out.Results[0].Allowed {
		t.Errorf("%+v", out)
	}
	if kept, _ := m.Reservation(t.Context(), lua.ReservationKey([16]byte{0})); kept != nil {
		t.Errorf("kept after its time: %+v", kept)
	}
}
