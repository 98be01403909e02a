package regional

import (
	"context"
	"fmt"
	"testing"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// benchDaemon is a live daemon whose one rule nobody comes near.
func benchDaemon(b *testing.B, redis bool) *Daemon {
	b.Helper()
	c := testConfig(newLeader(b, "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    params: {capacity: 1000000000, refill_rate: 1000000}\n").address())
	if redis {
		c.Redis = startRedis(b).url()
	}
	d, _ := startLive(b, c)
	return d
}

// BenchmarkCheck is single checks: one caller a core, and as many as a busy gateway
// has, which share store calls.
func BenchmarkCheck(b *testing.B) {
	for _, redis := range []bool{false, true} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", map[bool]string{false: "memory", true: "redis"}[redis], callers), func(b *testing.B) {
				s := benchDaemon(b, redis).service
				b.ReportAllocs()
				b.SetParallelism(callers) // a core
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						_, err := s.Check(context.Background(), &aliquotv1.CheckRequest{
							Attributes: map[string]string{"api_key": fmt.Sprint("k", i%10_000)},
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

func BenchmarkCheckBatch(b *testing.B) {
	for _, redis := range []bool{false, true} {
		b.Run(map[bool]string{false: "memory", true: "redis"}[redis], func(b *testing.B) {
			s := benchDaemon(b, redis).service
			in := &aliquotv1.CheckBatchRequest{}
			for i := range 256 {
				in.Requests = append(in.Requests, &aliquotv1.CheckRequest{
					Attributes: map[string]string{"api_key": fmt.Sprint("k", i)},
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.CheckBatch(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/check")
		})
	}
}
