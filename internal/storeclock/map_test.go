package storeclock

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/budget"
	"aliquot/limit"
)

const second = budget.Instant(time.Second)

// TestClockWorkedNumber is the example of Map's comment.
func TestClockWorkedNumber(t *testing.T) {
	c := New()
	c.Add(Sample{Store: 50_000_000, Sent: 100 * second, Received: 100*second + 4*second/1000})
	if got := c.Until(110*second + 4*second/1000); got != 59_803_921 {
		t.Errorf("until %d", got)
	}
	if got := c.Since(101 * second); got != 51_020_000 {
		t.Errorf("since %d", got)
	}
}

func TestClockWithoutASampleTrustsNothing(t *testing.T) {
	c := New()
	if c.Until(1000*second) != 0 || c.Since(second) != limit.MaxExact {
		t.Error("a right was believed without a sample")
	}
	c.Add(Sample{Store: 1, Sent: second, Received: second})
	c.Reset()
	if c.Until(1000*second) != 0 || c.Since(second) != limit.MaxExact {
		t.Error("another store's sample was used")
	}
}

func TestClockSinceDoesNotDriftAway(t *testing.T) {
	c := New()
	c.Add(Sample{Store: 1_000_000, Sent: second, Received: second})
	first := c.Since(second)
	for i := budget.Instant(2); i < 3600; i++ {
		c.Add(Sample{Store: int64(i) * million, Sent: i * second, Received: i * second})
		if got := c.Since(second); got > first {
			t.Fatalf("after %d s the phase's start moved from %d to %d", i, first, got)
		}
	}
}

// TestClockFindsALeap: a reading far beyond what a clock within rho can have come to tells
// that the clock was set forward, also to a daemon that learns it again by a refused call;
// one within it, or of a clock set back, does not.
func TestClockFindsALeap(t *testing.T) {
	for name, add := range map[string]func(*Map, Sample) bool{"add": (*Map).Add, "restart": (*Map).Restart} {
		t.Run(name, func(t *testing.T) {
			c := New()
			at := func(store int64, boot budget.Instant) Sample {
				return Sample{Store: store, Sent: boot * second, Received: boot * second}
			}
			c.Add(at(50_000_000, 100))
			add(c, at(60_200_000, 110)) // 2 % fast
			add(c, at(60_000_000, 111)) // set back
			c.Add(at(61_000_000, 112))
			c.Add(at(61_450_000, 112)) // of another node of a cluster
			if c.Leapt() != 0 {
				t.Fatalf("a leap at %d that was none", c.Leapt())
			}
			add(c, at(72_000_000, 113))
			if c.Leapt() != 72_000_000 {
				t.Errorf("a leap at %d", c.Leapt())
			}
			c.Restart(at(10_000_000, 114)) // set back
			if got := c.Leapt(); got < 9_000_000 || got > 9_050_000 {
				t.Errorf("by the clock that was set back a leap at %d", got)
			}
			c.Reset()
			if c.Leapt() != limit.MaxExact {
				t.Errorf("by no clock a leap at %d", c.Leapt())
			}
		})
	}
}

// TestAnOvertakenSampleSaysNothing: a process was stopped after the store had answered a call, and the store's clock was set
// then. If it takes a later sample first, the earlier one does not bring the earlier clock back. A store that is only slow
// is believed.
func TestAnOvertakenSampleSaysNothing(t *testing.T) {
	const before, after = int64(5000 * million), int64(6000 * million)
	for name, add := range map[string]func(*Map, Sample) bool{"add": (*Map).Add, "restart": (*Map).Restart} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []int64{after - before, before - after} { // set forward, and back
				c := New()
				later := Sample{Store: before + d + 60*million, Sent: 160 * second, Received: 160*second + second/100}
				c.Add(later)
				if leapt := add(c, Sample{Store: before, Sent: 100 * second, Received: 161 * second}); leapt {
					t.Errorf("%d: a leap of a clock that was known", d)
				}
				c.Add(Sample{Store: later.Store + million, Sent: 161 * second, Received: 161*second + second/100})
				if c.Leapt() != 0 {
					t.Errorf("%d: a leap from a clock that was known to be another", d)
				}
				reached, latest, _ := c.Bounds(162 * second)
				if least, most := later.Store+19*million/10, later.Store+21*million/10; reached < least || latest > most {
					t.Errorf("%d: the store's clock shows %d to %d, want within %d and %d", d, reached, latest, least, most)
				}
				slow := Sample{Store: later.Store + 5*million, Sent: 164 * second, Received: 167 * second}
				if add(c, slow); c.Until(167*second) != slow.Store && name == "restart" || c.Age(167*second) != 0 {
					t.Errorf("%d: a slow store's answer is not believed", d)
				}
			}
		})
	}
}

// TestClockFloorStaysPinned: phases that come and go do not make the start of the
// floor drift, which is asked for with every call.
func TestClockFloorStaysPinned(t *testing.T) {
	c := New()
	c.Add(Sample{Store: 1_000_000, Sent: second, Received: second})
	floor := c.Since(second)
	for i := budget.Instant(2); i < 100; i++ {
		c.Add(Sample{Store: int64(i) * million, Sent: i * second, Received: i * second})
		c.Since(i * second) // a phase that begins now
		if got := c.Since(second); got != floor {
			t.Fatalf("after %d phases the floor's start moved from %d to %d", i, floor, got)
		}
	}
}

func TestClockSetBackIsFollowed(t *testing.T) {
	c := New()
	c.Add(Sample{Store: 3600 * million, Sent: second, Received: second})
	c.Add(Sample{Store: million, Sent: 2 * second, Received: 2 * second})
	if got := c.Until(3 * second); got > 2*million {
		t.Errorf("until %d: a sample from before the step was used", got)
	}
}

// TestClockIsSafe: whatever the true drift within rho and the delays of the calls,
// a deadline is never told late nor a start early.
func TestClockIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rho := rapid.Int64Range(0, 50_000).Draw(t, "rho")
		// The store's clock runs num/den as fast as ours, within rho both ways.
		num := rapid.Int64Range(0, rho).Draw(t, "num") + million
		den := int64(million)
		if rapid.Bool().Draw(t, "slow") {
			num, den = den, num
		}
		truth := func(at budget.Instant) *big.Rat { // microseconds
			r := big.NewRat(int64(at), 1000)
			return r.Mul(r, big.NewRat(num, den)).Add(r, big.NewRat(1_000_000_000, 1))
		}
		c := New()
		c.SetRho(int32(rho))
		at := budget.Instant(rapid.Int64Range(1, 1<<40).Draw(t, "begin"))
		var instants []budget.Instant
		for range rapid.IntRange(1, 8).Draw(t, "samples") {
			at += budget.Instant(rapid.Int64Range(0, int64(4*second)).Draw(t, "gap"))
			sent := at
			executed := sent + budget.Instant(rapid.Int64Range(0, int64(second/20)).Draw(t, "out"))
			at = executed + budget.Instant(rapid.Int64Range(0, int64(second/20)).Draw(t, "back"))
			read := truth(executed)
			c.Add(Sample{Store: new(big.Int).Quo(read.Num(), read.Denom()).Int64(), Sent: sent, Received: at})
			instants = append(instants, sent, at)
		}
		e := rapid.SampledFrom(instants).Draw(t, "near") +
			budget.Instant(rapid.Int64Range(-int64(30*second), int64(30*second)).Draw(t, "off"))
		if u := new(big.Rat).SetInt64(c.Until(e)); c.Until(e) > 0 && u.Cmp(truth(e)) > 0 {
			t.Fatalf("until %v, the clock shows only %v", u, truth(e))
		}
		// The store shows whole microseconds: a reading is up to one early.
		if s := new(big.Rat).SetInt64(c.Since(e) + 1); s.Cmp(truth(e)) < 0 {
			t.Fatalf("since %v, the clock shows %v already", s, truth(e))
		}
	})
}

// TestClockAtZero: a daemon's boot clock may read anything, also what an unused pin
// holds.
func TestClockAtZero(t *testing.T) {
	c := New()
	c.Add(Sample{Store: 1_000_000_000, Sent: second, Received: second})
	if got := c.Since(0); got < 999_000_000 {
		t.Errorf("since %d, the clock shows 999000000 by then", got)
	}
}

// TestBoundsOfAClockThatIsNotReadYet: they are those of the clock before, until the first reading.
func TestBoundsOfAClockThatIsNotReadYet(t *testing.T) {
	c := New()
	if reached, latest, known := c.Bounds(1 * second); reached != 0 || latest != limit.MaxExact || known {
		t.Errorf("nothing is read: %d, %d, %v", reached, latest, known)
	}
	c.Add(Sample{Store: 50_000_000, Sent: 100 * second, Received: 100 * second})
	c.Reset()
	if reached, latest, known := c.Bounds(101 * second); reached > 51_000_000 || reached < 50_980_000 || latest < 51_000_000 || latest > 51_020_000 || known {
		t.Errorf("a second after the last reading of the clock before: %d, %d, %v", reached, latest, known)
	}
	if c.Until(101*second) != 0 {
		t.Error("rights go by the clock before")
	}
	c.Add(Sample{Store: 7_000_000, Sent: 101 * second, Received: 101 * second})
	if reached, latest, known := c.Bounds(101 * second); reached != 7_000_000 || latest != 7_000_000 || !known {
		t.Errorf("read: %d, %d, %v", reached, latest, known)
	}
}
