package regional

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"aliquot/regional/internal/charge"
)

// BenchmarkHeld is a decision inside the process, of keys whose tokens are here: in
// batches of 64, and one by one.
func BenchmarkHeld(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		for _, batch := range []int{64, 1} {
			b.Run(fmt.Sprintf("keys=%d/batch=%d", keys, batch), func(b *testing.B) { benchHeld(b, keys, batch) })
		}
	}
}

func benchHeld(b *testing.B, keys, batch int) {
	l := benchDaemon(b, false).limiter
	requests := make([]charge.Request, 0, keys)
	for i := range keys {
		requests = append(requests, asked(fmt.Sprint("k", i))...)
	}
	if keys < batch {
		requests = slices.Repeat(requests, batch)
		keys = len(requests)
	}
	decide := func(room *charge.Scratch, at int) {
		at %= keys - batch + 1
		if _, err := l.DecideIn(context.Background(), requests[at:at+batch], room); err != nil {
			b.Error(err)
		}
	}
	warm := &charge.Scratch{}
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		for at := 0; at < keys; at += batch {
			decide(warm, at)
		}
	}
	b.ReportAllocs()
	before := processorNanos(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		room, at := &charge.Scratch{}, 0
		for n := 0; pb.Next(); n++ {
			if n%batch == 0 {
				decide(room, at)
				at += batch
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(processorNanos(b)-before)/float64(b.N), "cpu-ns/check")
	b.ReportMetric(p99(decide, batch), "p99-ns")
}

// p99 is the time that 99 of 100 decisions take at most, one caller asking.
func p99(decide func(*charge.Scratch, int), batch int) float64 {
	const samples = 20_000
	room, took := &charge.Scratch{}, make([]time.Duration, samples)
	for i := range took {
		began := time.Now()
		decide(room, i*batch)
		took[i] = time.Since(began) / time.Duration(batch)
	}
	slices.Sort(took)
	return float64(took[samples*99/100])
}

// BenchmarkBatches is many batches at once over few keys, with Redis: what one of them
// borrows the others are to be served from.
func BenchmarkBatches(b *testing.B) {
	for _, keys := range []int{64, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			d := benchDaemon(b, true)
			const batch = 256
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				room, requests := &charge.Scratch{}, []charge.Request{}
				for i := range batch {
					requests = append(requests, asked(fmt.Sprint("k", i*7919%keys))...)
				}
				for n := 0; pb.Next(); n++ {
					if n%batch == 0 {
						if _, err := d.limiter.DecideIn(context.Background(), requests, room); err != nil {
							b.Error(err)
						}
					}
				}
			})
			b.StopTimer()
		})
	}
}

// processorNanos is the processor time that this process has taken.
func processorNanos(b *testing.B) int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}
