package sim

import (
	"context"
	"testing"
)

// Whatever happens, no promise is broken, and every world recovers; and no hour is
// idle.
func TestFaults(t *testing.T) {
	job := Job{Seed: 1000, Hours: faultHours, Workers: 2}
	r := job.Run(context.Background())
	t.Logf("%d worlds, %v, %d events, %d faults, %d decisions (%d admitted from chunks), %d share moves, %d tokens admitted, closest %.6f, burst used %.6f",
		r.Worlds, r.Virtual, r.Events, r.Faults, r.Decisions, r.Local, r.Moves, r.Admitted, r.Closest, r.BurstUsed)
	for _, v := range r.Violations {
		t.Error(v)
	}
	seconds := r.Virtual.Seconds()
	if perSecond := float64(r.Decisions) / seconds; perSecond < 20 {
		t.Errorf("%.1f decisions a second", perSecond)
	}
	if perSecond := float64(r.Moves) / seconds; perSecond < 0.05 {
		t.Errorf("%.3f share moves a second", perSecond)
	}
	if r.Faults < int64(100*r.Virtual.Hours()) {
		t.Errorf("%d faults in %v", r.Faults, r.Virtual)
	}
}

// The same seed is the same run, however many worlds are lived through at a time.
func TestReplay(t *testing.T) {
	one, several := Job{Seed: 7, Hours: 0.7}, Job{Seed: 7, Hours: 0.7, Workers: 3}
	a, b := one.Run(context.Background()), several.Run(context.Background())
	if a.Worlds != 5 || a.Hash != b.Hash || a.Events != b.Events || a.Faults != b.Faults {
		t.Fatalf("hashes %x and %x after %d and %d events", a.Hash, b.Hash, a.Events, b.Events)
	}
}

// A run that is interrupted has lived through the first worlds, whole.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	job := Job{Seed: 7, Hours: 100, Workers: 2, Progress: func(r Result) {
		if r.Worlds == 2 {
			cancel()
		}
	}}
	r := job.Run(ctx)
	if r.Worlds < 2 || r.Worlds == job.Worlds() {
		t.Fatalf("%d worlds", r.Worlds)
	}
	again := Job{Seed: 7, Hours: float64(r.Worlds) * worldSpan.Hours()}
	if whole := again.Run(context.Background()); whole.Hash != r.Hash {
		t.Errorf("hash %x of %d worlds, %x of as many without an interrupt", r.Hash, r.Worlds, whole.Hash)
	}
}
