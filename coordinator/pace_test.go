package coordinator

import (
	"testing"
	"time"

	"aliquot/budget"
)

func TestPaceIsTheSmallestRoundTrip(t *testing.T) {
	var p pace
	report := func(session, ack uint64) budget.Report { return budget.Report{Region: 1, Session: session, Ack: ack} }
	p.reported(report(7, 0), second(0)) // of before
	if got := p.smallest(1); got != 0 {
		t.Fatalf("%v without an answer", got)
	}
	for i, took := range []float64{.2, .08, .3} {
		at := second(float64(1 + i))
		p.answered(1, 7, uint64(i), at)
		p.reported(report(7, uint64(i)+9), at.Add(time.Millisecond)) // does not acknowledge it
		p.reported(report(8, uint64(i)), at.Add(time.Millisecond))   // of another session
		p.reported(report(7, uint64(i)), at.Add(time.Duration(took*float64(time.Second))))
		p.reported(report(7, uint64(i)), at.Add(time.Millisecond)) // a repetition
	}
	if got := p.smallest(1); got != 80*time.Millisecond || p.smallest(0) != 0 || p.smallest(9) != 0 {
		t.Errorf("%v, want 80 ms; of regions that were not heard %v, %v", got, p.smallest(0), p.smallest(9))
	}
	p.reported(budget.Report{Region: 1, Session: 9, Pace: 1 << 61}, second(9)) // the machine has not accepted it
	p.spaced(1, time.Second)
	if p.keys(1) != time.Second || p.keys(0) != 0 || p.keys(9) != 0 {
		t.Errorf("paces %v, %v, %v, want that of the latest report that was accepted", p.keys(1), p.keys(0), p.keys(9))
	}
	p.answered(1, 7, 50, second(10))
	p.newReign()
	p.reported(report(7, 50), second(10.01))
	if got := p.smallest(1); got != 80*time.Millisecond {
		t.Errorf("%v: a report of the last reign counts", got)
	}
}

// TestPaceForgetsAShorterWay in 5 to 10 minutes.
func TestPaceForgetsAShorterWay(t *testing.T) {
	var p pace
	for s := 1.; s < 1200; s++ {
		took := .01
		if s > 400 {
			took = .1
		}
		p.answered(0, 1, 1, second(s))
		p.reported(budget.Report{Session: 1, Ack: 1}, second(s+took))
		switch got := p.smallest(0); {
		case s < 700 && got > 11*time.Millisecond:
			t.Fatalf("%v after %v s", got, s)
		case s > 1000 && got < 99*time.Millisecond:
			t.Fatalf("still %v after %v s", got, s)
		}
	}
}

func TestPaceOfCommits(t *testing.T) {
	var p pace
	p.committed(80 * time.Millisecond)
	if p.quorum != 80*time.Millisecond {
		t.Errorf("the first is the mean, not %v", p.quorum)
	}
	for range 50 {
		p.committed(8 * time.Millisecond)
	}
	if p.quorum < 8*time.Millisecond || p.quorum > 9*time.Millisecond {
		t.Errorf("mean of the latest %v, want about 8 ms", p.quorum)
	}
}
