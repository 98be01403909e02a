package lua

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua/redistest"
)

// BenchmarkTake decides full calls of one limit a group: of keys that were never seen, of
// keys that have a record, and of those that borrow and bring back each time. It tells the
// processor time of a group, here and in Redis.
func BenchmarkTake(b *testing.B) {
	chunk := limit.ChunkView{Want: 10 * limit.Token, Least: 2 * limit.Token, Life: 100_001}
	for _, x := range []struct {
		name  string
		keys  int
		chunk limit.ChunkView
	}{
		{"new", 1 << 20, limit.ChunkView{}},
		{"known", 1 << 12, limit.ChunkView{}},
		{"borrows", 1 << 12, chunk},
	} {
		b.Run(x.name, func(b *testing.B) { benchTake(b, x.keys, x.chunk) })
	}
}

func benchTake(b *testing.B, keys int, chunk limit.ChunkView) {
	ctx := context.Background()
	client := redistest.Start(b).Client(b)
	epoch, err := LearnEpoch(ctx, client, "00112233445566778899aabbccddeeff", nil)
	if err != nil {
		b.Fatal(err)
	}
	scripts := New(client)
	view := limit.View{
		Phase: limit.Floor, Stamp: limit.Stamp(epoch), Cost: limit.Token, Chunk: chunk,
		Floor: limit.Bucket{Cap: 1_000_000 * limit.Token, Rate: limit.Rate{Micro: 16_667_000_000}},
	}
	groups := make([]Group, TakeChunk)
	next := 0
	word := func() {
		for i := range groups {
			var hash [16]byte
			copy(hash[:], strconv.Itoa(next%keys))
			next++
			groups[i] = Group{Cost: limit.Token, Limits: []KeyView{{Key: Key(limit.TokenBucket, 1, hash), View: view}}}
		}
	}
	here, there := processorNanos(b), redisNanos(b, client)
	b.ReportAllocs()
	for b.Loop() {
		word()
		if _, _, err := scripts.Take(ctx, epoch, groups); err != nil {
			b.Fatal(err)
		}
	}
	perGroup := float64(b.N * TakeChunk)
	b.ReportMetric(float64(processorNanos(b)-here)/perGroup, "cpu-ns/group")
	b.ReportMetric(float64(redisNanos(b, client)-there)/perGroup, "redis-ns/group")
}

// redisNanos is the processor time that a Redis has taken.
func redisNanos(b *testing.B, client *redis.Client) int64 {
	b.Helper()
	text, err := client.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return int64(sum * 1e9)
}

// processorNanos is the processor time that this process has taken.
func processorNanos(b *testing.B) int64 {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}
