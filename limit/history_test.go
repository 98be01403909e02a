package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestHistory plays one key's life in one region: requests, leases that lapse and
// come back, being cut off, shares that grow and shrink, limits that change, the
// way to hot and back. Beside it runs an ideal bucket, exact and settled at every
// event, that knows what the region is entitled to at each instant. The record, which
// is settled only when it is touched, must never hold more than the ideal does:
// then neither can it admit more, in any interval.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{T: t, now: 1000 * tick, floor: of(30, 3)}
		h.view = View{Floor: h.floor, Phase: Live, Until: 1 << 52, Stamp: 7}
		h.ideal = new(big.Int).Set(scaled(h.floor.Cap, 0))
		t.Repeat(map[string]func(*rapid.T){
			"":       h.check,
			"wait":   h.wait,
			"take":   h.take,
			"phase":  h.phase,
			"apply":  h.apply,
			"forget": h.forget,
			"rules":  h.rules,
		})
	})
}

type history struct {
	*rapid.T
	now    int64
	floor  Bucket
	view   View // the daemon's, accurate
	record Record
	gen    uint64
	ideal  *big.Int // in the unit of exactly
}

// entitled is what the region may enforce at this instant.
func (h *history) entitled() Bucket {
	if !h.view.Hot {
		return h.view.Floor
	}
	return under(h.view.Phase, h.view.Share, h.view.Floor)
}

// settleIdeal voids what is above the entitlement, as its every change does.
func (h *history) settleIdeal() {
	if most := scaled(h.entitled().Cap, 0); h.ideal.Cmp(most) > 0 {
		h.ideal.Set(most)
	}
}

func (h *history) check(t *rapid.T) {
	if h.record.Absent() {
		return
	}
	// A look at the record costs nothing.
	r, enforced, _ := Settle(h.record, h.view, h.now)
	if scaled(r.Tokens, r.Carry).Cmp(h.ideal) > 0 {
		t.Fatalf("holds %d+%d, entitled to %v of %+v\nview %+v\nrecord %+v\nnow %d",
			r.Tokens, r.Carry, h.ideal, h.entitled(), h.view, h.record, h.now)
	}
	e := h.entitled()
	if enforced.Cap > e.Cap || e.Rate.Min(enforced.Rate) != enforced.Rate {
		t.Fatalf("enforces %+v, entitled to %+v", enforced, e)
	}
}

func (h *history) wait(t *rapid.T) {
	d := rapid.Int64Range(1, 1<<rapid.IntRange(1, 26).Draw(t, "shift")).Draw(t, "us")
	h.ideal.Add(h.ideal, exactly(h.entitled().Rate, d))
	h.now += d
	h.settleIdeal()
}

func (h *history) take(t *rapid.T) {
	cost := Tokens(rapid.Int64Range(1, 10*int64(Token)).Draw(t, "cost"))
	records := []Record{h.record}
	out := make([]Outcome, 1)
	if Take(records, []View{h.view}, cost, h.now, out) {
		h.ideal.Sub(h.ideal, scaled(cost, 0))
	}
	if out[0].Amnesia {
		t.Fatalf("amnesia for no reason: record %+v, view %+v", h.record, h.view)
	}
	h.record = records[0]
}

func (h *history) phase(t *rapid.T) {
	to := Phase(rapid.IntRange(0, 2).Draw(t, "phase"))
	if to == h.view.Phase || h.view.Phase == Live && to == Floor {
		return // cut off only by way of limbo
	}
	h.view.Phase, h.view.Since = to, h.now
	h.settleIdeal()
}

func (h *history) apply(t *rapid.T) {
	h.gen++
	c := Change{View: h.view, Gen: h.gen}
	if c.Cold = rapid.IntRange(0, 3).Draw(t, "cold") == 0; c.Cold {
		c.Share = h.view.Floor
	} else {
		c.Share = of(rapid.Int64Range(0, 90).Draw(t, "cap"), rapid.Int64Range(0, 9).Draw(t, "rate"))
		c.Grant = Tokens(rapid.Int64Range(0, 20).Draw(t, "grant")) * Token
	}
	r, a := Apply(h.record, c, h.now)
	if a.Stale || a.Amnesia {
		t.Fatalf("%+v: record %+v, change %+v", a, h.record, c)
	}
	again, repeated := Apply(r, c, h.now+1)
	if !repeated.Stale || again != r {
		t.Fatalf("a repetition was not stale: %+v", repeated)
	}
	h.record = r
	h.ideal.Sub(h.ideal, scaled(a.Released, 0))
	if most := scaled(c.Share.Cap, 0); h.ideal.Cmp(most) > 0 {
		h.ideal.Set(most)
	}
	h.ideal.Add(h.ideal, scaled(c.Grant, 0))
	h.view.Hot, h.view.Gen, h.view.Share = !c.Cold, h.gen, c.Share
	if c.Cold {
		h.view.Share = Bucket{}
	}
	if most := scaled(c.Share.Cap, 0); h.ideal.Cmp(most) > 0 {
		h.ideal.Set(most)
	}
	h.settleIdeal()
}

// forget makes the key cold in the daemon only: the record is a left-over.
func (h *history) forget(t *rapid.T) {
	if h.view.Hot && h.view.Phase == Live {
		h.view.Hot, h.view.Share = false, Bucket{}
		h.settleIdeal()
	}
}

// rules changes the limit of a hot key under the same share. A limit that was lower
// for a while in which nobody asked leaves no trace in the record, so one that is
// lowered is followed by a request here.
func (h *history) rules(t *rapid.T) {
	if !h.view.Hot {
		return
	}
	before := h.view.Share
	h.view.Share = of(rapid.Int64Range(0, 90).Draw(t, "cap"), rapid.Int64Range(0, 9).Draw(t, "rate"))
	h.settleIdeal()
	if before.Min(h.view.Share) != before {
		h.take(t)
	}
}

// Over any life of one bucket, what is admitted is at most the capacity and the
// rate times the time, and a saturated bucket admits all of that but for less than
// one cost and a millionth a call.
func TestAdmittedIsTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t, "b")
		v := []View{{Floor: b, Phase: Live, Until: MaxExact, Stamp: 7}}
		r, out := make([]Record, 1), make([]Outcome, 1)
		cost := Tokens(rapid.Int64Range(1, max(1, int64(b.Cap)/10)).Draw(t, "cost"))
		admitted, calls := new(big.Int), 0
		now := tick
		drain := func() {
			for n := 0; n < 100 && Take(r, v, cost, now, out); n++ {
				admitted.Add(admitted, scaled(cost, 0))
				calls++
			}
			calls++
		}
		drain()
		for range rapid.IntRange(1, 20).Draw(t, "waits") {
			now += rapid.Int64Range(0, 1<<rapid.IntRange(1, 30).Draw(t, "shift")).Draw(t, "us")
			drain()
			most := new(big.Int).Add(scaled(b.Cap, 0), exactly(b.Rate, now-tick))
			if admitted.Cmp(most) > 0 {
				t.Fatalf("admitted %v of %v", admitted, most)
			}
			held := scaled(r[0].Tokens, r[0].Carry)
			if held.Add(held, admitted); held.Cmp(most) > 0 {
				t.Fatalf("admitted and held %v of %v", held, most)
			}
		}
	})
}
