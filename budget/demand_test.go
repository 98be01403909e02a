package budget

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// stream feeds one region's demand for a key to an estimator, as its reports would: one report
// every 180 ms, which contains the key if it was used.
type stream struct {
	t       *testing.T
	rng     *rand.Rand
	limit   KeyLimit
	d       demand
	now     Instant
	report  Instant // the latest
	offered int64
	used    Instant
	gap     time.Duration
}

const everyReport = 180 * time.Millisecond

func newStream(t *testing.T) *stream {
	start := Instant(time.Hour)
	return &stream{
		t: t, rng: rand.New(rand.NewPCG(1, 2)), limit: KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken},
		now: start, report: start,
	}
}

// use counts n requests at the present.
func (s *stream) use(n int64) {
	h := hotKey{used: s.used, gap: s.gap}
	h.use(s.now)
	s.used, s.gap = h.used, h.gap
	s.offered += n * microToken
}

// pass lets time pass until the next request, with the reports that are due on the way.
func (s *stream) pass(d time.Duration) {
	for end := s.now.Add(d); ; {
		next := s.report.Add(everyReport)
		if next > end {
			s.now = end
			return
		}
		s.now = next
		s.tell()
	}
}

func (s *stream) tell() {
	if s.offered > s.d.offered {
		s.d.fold(KeyReport{Offered: s.offered, Admitted: s.offered, Idle: s.now.Sub(s.used), Gap: s.gap}, s.limit, ReportKeyEvery, s.report, s.now)
	}
	s.report = s.now
}

// random sends requests at random at a rate for a time.
func (s *stream) random(perSecond float64, d time.Duration) {
	for end := s.now.Add(d); ; {
		wait := time.Duration(s.rng.ExpFloat64() / perSecond * float64(time.Second))
		if s.now.Add(wait) > end {
			s.pass(end.Sub(s.now))
			return
		}
		s.pass(wait)
		s.use(1)
	}
}

// fast returns the estimate, in tokens a second.
func (s *stream) fast() float64 {
	return float64(s.d.at(s.report, s.limit, ReportKeyEvery).Fast) / Unit * 100
}

func TestDemandOfRandomRequestsIsSteady(t *testing.T) {
	for _, rate := range []float64{10, 25, 50, 90} {
		s := newStream(t)
		s.random(rate, 5*time.Second)
		for range 200 {
			s.random(rate, everyReport)
			// Five standard deviations of a mean over four seconds.
			if got := s.fast(); math.Abs(got-rate) > 5*math.Sqrt(rate/4) {
				t.Errorf("%v requests a second are taken for %.1f", rate, got)
			}
		}
	}
}

func TestDemandThatEndsIsNoticedAtOnce(t *testing.T) {
	s := newStream(t)
	s.random(80, 10*time.Second)
	s.pass(2 * everyReport)
	if got := s.fast(); got != 0 {
		t.Errorf("360 ms after the last of 80 requests a second the demand is %.1f", got)
	}
	if slow := s.d.at(s.report, s.limit, ReportKeyEvery).Slow; slow < Unit*7/10 {
		t.Errorf("the slow estimate has fallen to %d at once", slow)
	}
	s.pass(20 * time.Second)
	if slow := s.d.at(s.report, s.limit, ReportKeyEvery).Slow; slow > Unit/10 {
		t.Errorf("the slow estimate is %d after 20 s", slow)
	}
}

// A region that a client has left asks for nothing, and stays so, whenever within a window the client
// left.
func TestDemandThatEndsStaysEnded(t *testing.T) {
	for _, rate := range []float64{5, 10, 20, 40, 80} {
		for part := range 20 {
			s := newStream(t)
			s.random(rate, 10*time.Second+time.Duration(part)*200*time.Millisecond)
			s.pass(time.Duration(2*stoppedTokens/microToken/rate*float64(time.Second)) + 2*everyReport)
			for range 40 {
				if got := s.fast(); got != 0 {
					t.Fatalf("of %v requests a second that ended %v ago, %.2f are left", rate, s.now.Sub(s.used), got)
				}
				s.pass(everyReport)
			}
		}
	}
}

func TestDemandThatBeginsIsNoticedAtOnce(t *testing.T) {
	s := newStream(t)
	s.random(2, 10*time.Second)
	s.random(90, 2*everyReport)
	if got := s.fast(); got < 60 {
		t.Errorf("360 ms after 90 requests a second began the demand is %.1f", got)
	}
}

// A demand that changes by half shows soon, although no single report proves it.
func TestDemandThatDriftsIsFollowed(t *testing.T) {
	s := newStream(t)
	s.random(30, 20*time.Second)
	s.random(45, 6*time.Second)
	if got := s.fast(); got < 37 {
		t.Errorf("6 s after 30 became 45 requests a second the demand is %.1f", got)
	}
}

// Demand in batches is not idle between them, and counts as no more than it is.
func TestBatchesAreNoPauses(t *testing.T) {
	s := newStream(t)
	for i := range 100 {
		s.pass(400 * time.Millisecond)
		s.use(20) // 50 a second
		if got := s.fast(); i > 20 && (got < 30 || got > 75) {
			t.Fatalf("batch %d: 50 requests a second in batches are taken for %.1f", i, got)
		}
	}
}

func TestWhatIsNeverMentionedIsNotUsed(t *testing.T) {
	limit := KeyLimit{Capacity: 300 * microToken, Rate: 100 * microToken}
	d := demand{since: Instant(time.Hour)}
	if now := d.at(Instant(time.Hour).Add(10*time.Millisecond), limit, ReportKeyEvery); now.Known {
		t.Error("a demand is known before it could be measured")
	}
	if now := d.at(Instant(time.Hour).Add(time.Second), limit, ReportKeyEvery); !now.Known || now.Slow != 0 || !now.Idle {
		t.Errorf("a key that a region's reports do not mention: %+v", now)
	}
}

// Counters at the end of their range do not make the arithmetic overflow.
func TestDemandOfHugeNumbers(t *testing.T) {
	start := Instant(time.Hour)
	for _, limit := range []KeyLimit{{Capacity: 1, Rate: 1}, {Capacity: 1e15, Rate: 1e15}, {Capacity: microToken}} {
		var d demand
		offered := int64(0)
		for i := range 50 {
			previous, now := start.Add(time.Duration(i)*time.Hour), start.Add(time.Duration(i+1)*time.Hour)
			offered += math.MaxInt64 / 64
			d.fold(KeyReport{Offered: offered, Idle: math.MaxInt64, Gap: math.MaxInt64}, limit, ReportKeyEvery, previous, now)
			if got := d.at(now.Add(time.Hour), limit, ReportKeyEvery); got.Fast < 0 || got.Fast > Unit || got.Slow < 0 || got.Slow > Unit {
				t.Fatalf("%+v: %+v", limit, got)
			}
		}
	}
}

// A busy key is reported every ReportKeyEvery while few keys are busy, and less often the more there
// are, but at least every maxPace.
func TestReportsOfAKeyGetRarerWithManyKeys(t *testing.T) {
	enough := int(maxPace / keyReportTakes)
	for keys, want := range map[int]time.Duration{
		0: ReportKeyEvery, 1: ReportKeyEvery, enough / 2: time.Duration(enough/2) * keyReportTakes, 2 * enough: maxPace,
	} {
		r := Region{reportable: make([]KeyID, keys)}
		if got := r.pace(); got != want {
			t.Errorf("with %d keys: every %v, want %v", keys, got, want)
		}
	}
}
