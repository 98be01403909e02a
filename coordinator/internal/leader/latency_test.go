package leader

import (
	"testing"
	"time"

	"aliquot/budget"
)

func TestPaceIsTheSmallestRoundTrip(t *testing.T) {
	var p latencyEstimator
	report := func(session, ack uint64) budget.Report { return budget.Report{Region: 1, Session: session, Ack: ack} }
	p.reportReceived(report(7, 0), second(0)) // of before
	if got := p.minRoundTrip(1); got != 0 {
		t.Fatalf("%v without an answer", got)
	}
	for i, took := range []float64{.2, .08, .3} {
		at := second(float64(1 + i))
		p.answerSent(1, 7, uint64(i), at)
		p.reportReceived(report(7, uint64(i)+9), at.Add(time.Millisecond)) // does not acknowledge it
		p.reportReceived(report(8, uint64(i)), at.Add(time.Millisecond))   // of another session
		p.reportReceived(report(7, uint64(i)), at.Add(time.Duration(took*float64(time.Second))))
		p.reportReceived(report(7, uint64(i)), at.Add(time.Millisecond)) // a repetition
	}
	if got := p.minRoundTrip(1); got != 80*time.Millisecond || p.minRoundTrip(0) != 0 || p.minRoundTrip(9) != 0 {
		t.Errorf("%v, want 80 ms; of regions that were not heard %v, %v", got, p.minRoundTrip(0), p.minRoundTrip(9))
	}
	p.reportReceived(budget.Report{Region: 1, Session: 9, Pace: 1 << 61}, second(9)) // the machine has not accepted it
	p.setReportInterval(1, time.Second)
	if p.reportInterval(1) != time.Second || p.reportInterval(0) != 0 || p.reportInterval(9) != 0 {
		t.Errorf("paces %v, %v, %v, want that of the latest report that was accepted", p.reportInterval(1), p.reportInterval(0), p.reportInterval(9))
	}
	p.answerSent(1, 7, 50, second(10))
	p.forgetSentAnswers()
	p.reportReceived(report(7, 50), second(10.01))
	if got := p.minRoundTrip(1); got != 80*time.Millisecond {
		t.Errorf("%v: a report of the last epoch counts", got)
	}
}

// TestPaceForgetsAShorterWay in 5 to 10 minutes.
func TestPaceForgetsAShorterWay(t *testing.T) {
	var p latencyEstimator
	for s := 1.; s < 1200; s++ {
		took := .01
		if s > 400 {
			took = .1
		}
		p.answerSent(0, 1, 1, second(s))
		p.reportReceived(budget.Report{Session: 1, Ack: 1}, second(s+took))
		switch got := p.minRoundTrip(0); {
		case s < 700 && got > 11*time.Millisecond:
			t.Fatalf("%v after %v s", got, s)
		case s > 1000 && got < 99*time.Millisecond:
			t.Fatalf("still %v after %v s", got, s)
		}
	}
}

func TestPaceOfCommits(t *testing.T) {
	var p latencyEstimator
	p.commitTook(80 * time.Millisecond)
	if p.commit != 80*time.Millisecond {
		t.Errorf("the first is the mean, not %v", p.commit)
	}
	for range 50 {
		p.commitTook(8 * time.Millisecond)
	}
	if p.commit < 8*time.Millisecond || p.commit > 9*time.Millisecond {
		t.Errorf("mean of the latest %v, want about 8 ms", p.commit)
	}
}

// second is an instant of the tests' clock.
func second(s float64) budget.Instant { return budget.Instant(s * float64(time.Second)) }
