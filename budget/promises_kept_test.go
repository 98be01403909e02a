package budget

import (
	"fmt"
	"testing"
	"time"
)

// tokens is micro-tokens as people read them, to a thousandth.
func tokens(micro int64) string { return fmt.Sprintf("%.3f", float64(micro)/microToken) }

// Promised has the figures of a promise that these tests look at; see promise.Promise.
type Promised struct {
	ToHot, ToFollow, CutOff                                                    time.Duration
	FirstTouch, Step, SteadyRate, SilentRate, KeptRate, FloorRate, CutOffBurst int64
}

// PromiseOf computes a promise. The external test package sets it, because package promise imports this one.
var PromiseOf func(limit KeyLimit, windows bool, c *Config, roundTrip, quorum time.Duration) Promised

// distant returns a world whose messages take half of a round trip one way and whose commits take a
// tick. Its leader is elected and nothing is spent yet. It also returns the promise.
func distant(t *testing.T, limit KeyLimit, roundTrip time.Duration) (*world, Promised) {
	w := newWorld(t, 3)
	w.limit, w.quorum = limit, tick
	for range w.regions {
		w.far = append(w.far, roundTrip/2)
	}
	w.elect()
	w.runUntil("every region holds a lease", 5*time.Second, w.allLive)
	for i, r := range w.ledger.Config.Regions {
		w.bank[i] = Scale(limit.Capacity, r.Floor.Burst)
	}
	// A message waits for the tick after it has come.
	return w, PromiseOf(limit, false, &w.ledger.Config, roundTrip+2*tick, w.quorum+tick)
}

// greedily lets region i ask for a whole burst at once and for ten times the rate from now on. It
// returns the most by which admissions fall behind an ideal bucket that holds the given tokens at
// the start, in micro-tokens.
func (w *world) greedily(i int, full int64, d time.Duration) (behind int64) {
	from, got := w.now, w.got
	perTick := max(1, w.limit.Rate/microToken/5)
	w.load[i] = perTick + full/microToken
	for w.now.Sub(from) < d {
		w.run(tick)
		w.load[i] = perTick
		ideal := full + mulDiv(w.limit.Rate, int64(w.now.Sub(from)), int64(time.Second))
		// The crude bucket earns nothing before its first tick and holds a part of a request.
		behind = max(behind, ideal-(w.got-got)*microToken-microToken-w.limit.Rate/50)
	}
	return behind
}

// TestMachinesKeepWhatIsPromised: with round trips up to 200 ms, and at several phases of the
// leader's and the daemons' ticks, what a client of one region is refused stays within the promise.
// Nor does the promise exceed everything that happens.
func TestMachinesKeepWhatIsPromised(t *testing.T) {
	for _, limit := range []KeyLimit{
		{Capacity: 300 * microToken, Rate: 100 * microToken},
		{Capacity: 3000 * microToken, Rate: 1000 * microToken},
		{Capacity: 90 * microToken, Rate: 10 * microToken},
		{Capacity: 24 * microToken, Rate: 10 * microToken}, // has a home
	} {
		for _, roundTrip := range []time.Duration{0, 2 * tick, 4 * tick, 10 * tick} {
			var touch, step int64
			var promised Promised
			for phase := range time.Duration(6) {
				w, p := distant(t, limit, roundTrip)
				promised = p
				w.run(phase * tick)
				touch = max(touch, w.greedily(0, limit.Capacity, p.ToHot))
				w.run(20 * time.Second)
				w.load[0] = 0
				step = max(step, w.greedily(1, 0, p.ToFollow))
				if rate := w.regions[1].Right(w.key, limit, w.now).Effective().Rate; Scale(limit.Rate, rate) < limit.Rate-p.SteadyRate {
					t.Errorf("%v, RTT %v: the share of the rate is %d of %d, %v after the step", limit, roundTrip, rate, Unit, p.ToFollow)
				}
			}
			// The steady loss continues all the time.
			touch -= mulDiv(promised.SteadyRate, int64(promised.ToHot), int64(time.Second))
			step -= mulDiv(promised.SteadyRate, int64(promised.ToFollow), int64(time.Second))
			t.Logf("%v, RTT %v: at first touch %s of %s, on a step %s of %s", limit, roundTrip,
				tokens(touch), tokens(promised.FirstTouch), tokens(step), tokens(promised.Step))
			if touch > promised.FirstTouch || step > promised.Step {
				t.Errorf("%v, RTT %v: %s behind at first touch, %s promised; %s on a step, %s promised", limit, roundTrip,
					tokens(touch), tokens(promised.FirstTouch), tokens(step), tokens(promised.Step))
			}
			if touch < promised.FirstTouch/10 {
				t.Errorf("%v, RTT %v: the bound of %s at first touch says nothing: %s", limit, roundTrip, tokens(promised.FirstTouch), tokens(touch))
			}
		}
	}
}

// TestAloneBesideASilentRegion: as much is out of reach as is promised. A region that is cut off
// serves what it keeps and then its floor.
func TestAloneBesideASilentRegion(t *testing.T) {
	w, p := distant(t, KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken}, 4*tick)
	rate := func(i int) int64 {
		return Scale(w.limit.Rate, w.regions[i].Right(w.key, w.limit, w.now).Effective().Rate)
	}
	w.greedily(0, w.limit.Capacity, 10*time.Second)
	if rate(0) < w.limit.Rate-p.SteadyRate {
		t.Errorf("all connected: %s, promised are 100 - %s", tokens(rate(0)), tokens(p.SteadyRate))
	}
	w.cut[1] = true
	cut := w.now
	for w.now.Sub(cut) < 40*time.Second {
		w.run(tick)
		if rate(0) < w.limit.Rate-p.SilentRate {
			t.Fatalf("%v after the cut: %s, promised are 100 - %s", w.now.Sub(cut), tokens(rate(0)), tokens(p.SilentRate))
		}
		least := p.KeptRate
		if w.now.Sub(cut) > p.CutOff {
			least = p.FloorRate
		}
		if rate(1) < least {
			t.Fatalf("%v after the cut the region serves %s, promised are %s", w.now.Sub(cut), tokens(rate(1)), tokens(least))
		}
	}
}

// TestALenderThatIsCutOff: a region lends what it does not use of a counting limit. When it is cut
// off then, it has at least its part without what the promise says is lent, and its whole part
// after the promised time.
func TestALenderThatIsCutOff(t *testing.T) {
	limit := KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken, Tail: 6 * time.Second}
	w, _ := distant(t, limit, 4*tick)
	p := PromiseOf(limit, true, &w.ledger.Config, 80*time.Millisecond, 10*time.Millisecond)
	if p.CutOffBurst < limit.Capacity/4 {
		t.Errorf("it may have lent %s", tokens(p.CutOffBurst))
	}
	w.greedily(0, limit.Capacity, 10*time.Second)
	w.cut[1] = true
	part := Scale(limit.Capacity, w.ledger.Config.Regions[1].Told.Burst)
	lent := false
	for cut := w.now; w.now.Sub(cut) < 40*time.Second; w.run(tick) {
		has := Scale(limit.Capacity, w.regions[1].Right(w.key, w.limit, w.now).Effective().Burst)
		least := part - p.CutOffBurst
		if w.now.Sub(cut) > p.CutOff {
			least = part
		}
		if lent = lent || has < part; has < least {
			t.Fatalf("%v after the cut it has %s of its part of %s, promised are %s", w.now.Sub(cut), tokens(has), tokens(part), tokens(least))
		}
	}
	if !lent {
		t.Error("it had lent nothing")
	}
}
