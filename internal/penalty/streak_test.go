package penalty

import (
	"testing"
	"time"
)

func TestDelayDoublesUntilOneIsAdmitted(t *testing.T) {
	var s Streak
	for round := range 2 {
		for i := range 1000 {
			if d := s.Answered(false, 1000); d != 0 {
				t.Fatalf("round %d: denial %d waits %v", round, i, d)
			}
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100, 100} {
			if d := s.Answered(false, 1000); d != want*time.Millisecond {
				t.Errorf("round %d: delayed denial %d waits %v", round, i, d)
			}
		}
		for range 100_000 {
			if d := s.Answered(false, 1000); d != MostDelay {
				t.Fatal(d)
			}
		}
		if d := s.Answered(true, 1000); d != 0 {
			t.Errorf("an admission waits %v", d)
		}
	}
}

func BenchmarkStreakDenied(b *testing.B) {
	var s Streak
	b.ReportAllocs()
	for b.Loop() {
		s.Answered(false, 1000)
	}
}
