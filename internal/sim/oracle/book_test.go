package oracle

import (
	"testing"
	"time"

	"aliquot/internal/sim/shell"
	"aliquot/limit"
)

// clocks are those of a world with one region, whose store's clock is ahead of the true time.
type clocks struct{ now, ahead int64 }

func (c *clocks) Now() int64         { return c.now }
func (c *clocks) StoreNow(int) int64 { return (c.now + c.ahead) / 1000 }

// TestUseByAnEarlierClock: a store's clock is set, and a daemon without the store goes on by the windows of the clock
// before. What it admitted in two of those windows does not count together, although they are one window of the store,
// until the daemon has read the clock.
func TestUseByAnEarlierClock(t *testing.T) {
	for _, d := range []int64{-2 * second, 2 * second} {
		c := &clocks{now: 1000 * second}
		b := NewBook(limit.Limit{Algorithm: limit.FixedWindow, Capacity: 60 * limit.Token, Window: 10 * time.Second}, 0, 1, c)
		c.now += 8 * second
		c.ahead += d
		b.ClockSet(0, d)
		admit := func() limit.Tokens {
			sum := b.Admit(0, 30*limit.Token, nil)
			b.Unstored(0, 30*limit.Token)
			return sum / limit.Token
		}
		c.now += second // 9 s of the window by the clock before, and 7 s or 1 s by the present one
		if got := admit(); got != 30 {
			t.Fatalf("set by %d s: %d in use", d/second, got)
		}
		c.now += 3 * second / 2 // the next window by the clock before only
		if got := admit(); got != 30 {
			t.Errorf("set by %d s: %d in use, of another window by the clock that the daemon knows", d/second, got)
		}
		b.ClockRead(0, c.now)
		c.now += second / 10
		if first, got := admit(), b.Admit(0, 30*limit.Token, nil)/limit.Token; first != 30 || got != 60 {
			t.Errorf("set by %d s: %d, then %d in use after the clock was read", d/second, first, got)
		}
	}
}

// TestUseByAnEarlierClockThatIsInThePreviousWindow: a store's clock is set forward by more than a window. A daemon without
// the store admits something by the clock before, the store's next window begins, and the daemon reads the clock. By that,
// what it admitted is two windows ago.
func TestUseByAnEarlierClockThatIsInThePreviousWindow(t *testing.T) {
	const d = 15 * second
	for _, looked := range []bool{false, true} {
		c := &clocks{now: 1000 * second}
		b := NewBook(limit.Limit{Algorithm: limit.SlidingCounter, Capacity: 60 * limit.Token, Window: 10 * time.Second}, 0, 1, c)
		c.now += second
		c.ahead += d
		b.ClockSet(0, d) // 1 s of a window by the clock before, and 6 s of the next one by the present one
		b.Admit(0, 40*limit.Token, nil)
		b.Unstored(0, 40*limit.Token)
		c.now += 5 * second // 6 s of the same window by the clock before, and 1 s of the one after the next by the present one
		if looked && b.InUse(0) != 36*limit.Token {
			t.Fatalf("%d in use before the clock was read", b.InUse(0))
		}
		b.ClockRead(0, c.now)
		if got := b.Admit(0, 30*limit.Token, nil) / limit.Token; got != 30 {
			t.Errorf("looked at before: %t; %d in use after the clock was read", looked, got)
		}
	}
}

// TestTheLastDaemonToReadAClockCounts: a store's clock is set forward by 3 s. One daemon reads it. Another one goes on by the
// clock before, without the store, until it reads it as well.
func TestTheLastDaemonToReadAClockCounts(t *testing.T) {
	c := &clocks{now: 1000 * second}
	b := NewBook(limit.Limit{Algorithm: limit.SlidingLog, Capacity: 60 * limit.Token, Window: 10 * time.Second}, 0, 1, c)
	c.ahead += 3 * second
	b.ClockSet(0, 3*second)
	before := c.now - 1
	c.now += second
	b.ClockRead(0, min(c.now, before))
	b.ClockLeapt(0, before)
	b.Admit(0, 30*limit.Token, nil)
	b.Unstored(0, 30*limit.Token)
	c.now += second
	b.ClockRead(0, c.now)
	c.now += 7 * second // a second and seven, and three that the clock was set by
	if got := b.Admit(0, 30*limit.Token, nil) / limit.Token; got != 30 {
		t.Errorf("%d in use", got)
	}
}

// TestADaemonReadsAClockBeforeAnother: what it admitted by the clock before counts no longer once it has read that the
// clock was set, though another daemon has not.
func TestADaemonReadsAClockBeforeAnother(t *testing.T) {
	c := &clocks{now: 1001 * second}
	b := NewBook(limit.Limit{Algorithm: limit.FixedWindow, Capacity: 60 * limit.Token, Window: 10 * time.Second}, 0, 1, c)
	before := c.now - 1
	c.ahead += 10 * second
	b.ClockSet(0, 10*second)
	b.Admit(0, 40*limit.Token, nil)
	b.Unstored(0, 40*limit.Token)
	c.now += second
	b.ClockLeapt(0, before)
	if got := b.Admit(0, 40*limit.Token, nil) / limit.Token; got != 40 {
		t.Errorf("%d in use", got)
	}
}

// TestALogThatChanges: what was admitted before counts no longer than the shorter window, but not for longer than its
// own. A larger capacity counts until what was admitted by it is gone.
func TestALogThatChanges(t *testing.T) {
	c := &clocks{now: 1000 * second}
	b := NewBook(limit.Limit{Algorithm: limit.SlidingLog, Capacity: 60 * limit.Token, Window: 10 * time.Second}, 0, 1, c)
	admit := func(want limit.Tokens) {
		t.Helper()
		if got := b.Admit(0, 30*limit.Token, nil) / limit.Token; got != want {
			t.Errorf("after %d s: %d in use, want %d", c.now/second-1000, got, want)
		}
		if got := b.InUse(0) / limit.Token; got != want {
			t.Errorf("after %d s: %d in use by the store, want %d", c.now/second-1000, got, want)
		}
	}
	admit(30)
	b.Allow(20*limit.Token, 20*time.Second, 20*time.Second, false)
	if b.Capacity() != 60*limit.Token {
		t.Errorf("a smaller capacity holds while another one is decided by: %d", b.Capacity())
	}
	c.now += 5 * second
	admit(60) // lasts 10 s
	b.Allow(20*limit.Token, 20*time.Second, 20*time.Second, true)
	if b.Capacity() != 60*limit.Token {
		t.Errorf("a larger capacity ends before what was admitted by it: %d", b.Capacity())
	}
	c.now += 6 * second
	admit(60) // the first is over; this one lasts 20 s
	c.now += 5 * second
	admit(60) // the second is over
	b.Allow(20*limit.Token, 4*time.Second, 20*time.Second, false)
	c.now += second
	admit(60) // the third is over, 6 s after it was admitted
	c.now += 20 * second
	if b.Capacity() != 20*limit.Token {
		t.Errorf("the larger capacity is still allowed: %d", b.Capacity())
	}
}

// TestAFastClockShowsPartsOfASecondToo: a window of 4.4 s is over when the fastest clock shows that.
func TestAFastClockShowsPartsOfASecondToo(t *testing.T) {
	const rhoPPM = 100_000
	b := NewBook(limit.Limit{Algorithm: limit.SlidingLog, Capacity: limit.Token, Window: 4400 * time.Millisecond}, rhoPPM, 1, &clocks{})
	if shown := b.Lasts() + b.Lasts()/1000*shell.Fastest(rhoPPM)/(second/1000); shown > 4400*second/1000 {
		t.Errorf("an entry lasts until a clock shows %d ns", shown)
	}
}

// TestWindowsOfTwoLengths: while some decide by one length and some by another, two capacities are allowed. The account by
// the new windows begins with nothing.
func TestWindowsOfTwoLengths(t *testing.T) {
	const whole = 60 * limit.Token
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingCounter} {
		c := &clocks{now: 1000 * second}
		b := NewBook(limit.Limit{Algorithm: algorithm, Capacity: whole, Window: 10 * time.Second}, 0, 1, c)
		b.Admit(0, whole, nil)
		b.Allow(whole, 10*time.Second, 20*time.Second, false)
		if b.Capacity() != 2*whole || b.InUse(0) != whole || b.Of(.5) != float64(whole)/2 {
			t.Errorf("%v, two lengths: %d in use of %d, half a share is %f", algorithm, b.InUse(0), b.Capacity(), b.Of(.5))
		}
		b.Allow(whole, 20*time.Second, 20*time.Second, true)
		if got := b.Admit(0, whole, nil); b.Capacity() != 2*whole || got != whole {
			t.Errorf("%v, the longer one holds: %d in use of %d", algorithm, got, b.Capacity())
		}
		c.now += 15 * second
		if got := b.Admit(0, whole, nil); got != 2*whole {
			t.Errorf("%v: %d in use in one window of the longer ones", algorithm, got)
		}
		c.now += 60 * second
		if b.Capacity() != whole || b.InUse(0) != 0 {
			t.Errorf("%v, after a while: %d in use of %d", algorithm, b.InUse(0), b.Capacity())
		}
	}
}
