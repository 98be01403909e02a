package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

// slow is for calls that a busy test machine may not answer in production's time.
func slow(c *RedisConfig) { c.CallTimeout, c.DialTimeout = 5*time.Second, 5*time.Second }

func openRedis(t testing.TB, server *redistest.Server, change ...func(*RedisConfig)) *Redis {
	t.Helper()
	return openURL(t, "redis://"+server.Addr, change...)
}

func openURL(t testing.TB, url string, change ...func(*RedisConfig)) *Redis {
	t.Helper()
	c := DefaultRedisConfig(url)
	slow(&c)
	for _, f := range change {
		f(&c)
	}
	s, err := NewRedis(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func learn(t testing.TB, s *Redis) string {
	t.Helper()
	epoch, err := s.Epoch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

func TestRedisURL(t *testing.T) {
	for _, bad := range []struct{ url, says string }{
		{"127.0.0.1:6379", "no scheme"},
		{"memory", "no scheme"},
		{"http://x", `"http"`},
		{"redis+sentinel://a,b", "/NAME"},
		{"redis+sentinel://u:hunter2@a,b/", "/NAME"},
		{"redis+sentinel://u:hunter2@a,/main", "an invalid host"},
		{"redis+sentinel://u:hunter2@a:1:2/main", "an invalid host"},
		{"redis+sentinel://a/main?sentinel_password=hunter2%zz", "options"},
		{"redis+sentinel://a/main/one?sentinel_password=hunter2", "cannot be read"},
		{"redis+sentinel://a/main?sentinel_user=u", "no sentinel_password"},
		{"redis+sentinel://u:hunter2@a/main?nonsense=1", "cannot be read"},
		{"redis+cluster://a", "scheme"},
		{"redis://u:hunter2@host:6379/notanumber", "cannot be read"},
		{"redis://u:hunter2%zz@host:6379", "cannot be read"},
		{"redis://u:hunter2@ho st:6379", "cannot be read"},
	} {
		_, err := NewRedis(DefaultRedisConfig(bad.url))
		if err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v", bad.url, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %q", err)
		}
	}
}

func TestRedisEpoch(t *testing.T) {
	server := redistest.Start(t)
	a, b := openRedis(t, server), openRedis(t, server)
	epoch := learn(t, a)
	birth, ok := limit.EpochBirth(epoch)
	if !ok || time.Since(time.UnixMicro(birth)).Abs() > time.Minute {
		t.Fatalf("epoch %q", epoch)
	}
	if learn(t, a) != epoch || learn(t, b) != epoch {
		t.Fatal("the same contents have one epoch")
	}
	if err := a.client().FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	floor := bucket(10, 1)
	var other *EpochError
	if _, _, err := a.Take(context.Background(), epoch, one(key(1), 1, coldView(epoch, floor))); !errors.As(err, &other) || other.Actual != "" {
		t.Fatalf("after FLUSHALL: %v", err)
	}
	again := learn(t, a)
	if again == epoch {
		t.Fatal("a flush keeps the epoch")
	}
	_, _, err := b.Take(context.Background(), epoch, one(key(1), 1, coldView(epoch, floor)))
	if !errors.As(err, &other) || other.Actual != again {
		t.Fatalf("the second client: %v", err)
	}
	if !admit(t, b, again, key(1), 1, floor) {
		t.Fatal("denied under the new epoch")
	}
}

// A server that is killed and comes back with an old state has the old epoch under
// its key but another run id: a new connection notices before its first call.
func TestRedisRestartWithOldState(t *testing.T) {
	server := redistest.Start(t)
	var told atomic.Pointer[string]
	s := openRedis(t, server, func(c *RedisConfig) { c.OnEpoch = func(e string) { told.Store(&e) } })
	epoch := learn(t, s)
	floor := bucket(10, 1)
	admit(t, s, epoch, key(1), 3, floor)
	if err := s.client().Save(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	admit(t, s, epoch, key(1), 7, floor) // lost
	if told.Load() != nil {
		t.Fatal("told of a change that was none")
	}
	server.Kill()
	server.Run(t)
	v := coldView(epoch, floor)
	redistest.Until(t, "a call is refused for its epoch", func() bool {
		got, _, err := s.Take(context.Background(), epoch, one(key(1), 1, v))
		if err == nil {
			t.Fatalf("served from an old state: %+v", got)
		}
		var other *EpochError
		return errors.As(err, &other)
	})
	now := learn(t, s)
	if e := told.Load(); now == epoch || e == nil || *e != now {
		t.Fatalf("epoch %q, before %q, told %v", now, epoch, e)
	}
	if admit(t, s, now, key(1), 1, floor) {
		t.Fatal("a record of an old state was trusted")
	}
}

func TestRedisScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, server)
	epoch := learn(t, s)
	floor := bucket(1000, 1)
	for range 3 {
		if err := s.client().ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		if !admit(t, s, epoch, key(1), 1, floor) {
			t.Fatal("denied")
		}
	}
	// Several calls in one pipeline, all unknown.
	s.client().ScriptFlush(context.Background())
	var groups []Group
	for range 3 * lua.TakeChunk {
		groups = append(groups, one(key(2), 10, coldView(epoch, floor))...)
	}
	got, _, err := s.Take(context.Background(), epoch, groups)
	if err != nil || len(got) != len(groups) {
		t.Fatal(err)
	}
	for i, r := range got {
		if r.Allowed != (i < 100) {
			t.Fatalf("group %d of 10 tokens in a bucket of 1000: %v", i, r.Allowed)
		}
	}
	var changes []Change
	for i := range 300 {
		changes = append(changes, Change{Key: key(i), Change: limit.Change{View: coldView(epoch, floor), Gen: 1, Share: floor}})
	}
	applied, now, err := s.Apply(context.Background(), epoch, changes)
	if err != nil || len(applied) != 300 || now == 0 {
		t.Fatalf("%d applied, %v", len(applied), err)
	}
}

// What Redis answers when it cannot serve comes back as an error in good time.
func TestRedisUnavailable(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, server, func(c *RedisConfig) { c.CallTimeout = time.Hour })
	admin := server.Client(t)
	epoch := learn(t, s)
	ctx := context.Background()
	take := func(ctx context.Context) error {
		_, _, err := s.Take(ctx, epoch, one(key(1), 1, coldView(epoch, bucket(10, 1))))
		return err
	}
	if err := take(ctx); err != nil {
		t.Fatal(err)
	}

	admin.ConfigSet(ctx, "maxmemory", "1kb")
	if err := take(ctx); !redis.HasErrorPrefix(errors.Unwrap(err), "OOM") {
		t.Errorf("out of memory: %v", err)
	}
	admin.ConfigSet(ctx, "maxmemory", "0")

	admin.ConfigSet(ctx, "busy-reply-threshold", "10")
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Client(t).Eval(ctx, "while true do end", nil)
	}()
	redistest.Until(t, "a script is stuck", func() bool {
		err := take(ctx)
		return err != nil && redis.HasErrorPrefix(errors.Unwrap(err), "BUSY")
	})
	admin.ScriptKill(ctx)
	<-done

	admin.Do(ctx, "client", "pause", time.Minute.Milliseconds(), "write")
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if err := take(short); err == nil {
		t.Error("a call outlasted its context, and the pause")
	}
	admin.Do(ctx, "client", "unpause")
	redistest.Until(t, "it serves again", func() bool { return take(ctx) == nil })

	server.Kill()
	if err := take(ctx); err == nil {
		t.Error("a dead server answered")
	}
}

func TestRedisWarnsOfEviction(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru", "--requirepass", "hunter2")
	var text bytes.Buffer
	s := openRedis(t, server, func(c *RedisConfig) {
		c.URL = "redis://:hunter2@" + server.Addr
		c.Logger = slog.New(slog.NewTextHandler(&text, nil))
	})
	learn(t, s)
	learn(t, s)
	if n := strings.Count(text.String(), "maxmemory-policy=allkeys-lru"); n != 1 {
		t.Errorf("warned %d times: %s", n, &text)
	}
	wrong := openRedis(t, server, func(c *RedisConfig) {
		c.URL = "redis://:hunter3@" + server.Addr
	})
	if _, err := wrong.Epoch(context.Background()); err == nil || strings.Contains(err.Error()+text.String(), "hunter") {
		t.Errorf("wrong password: %v", err)
	}
}

// A key of another type is overwritten and does not fail its neighbours.
func TestRedisWrongType(t *testing.T) {
	s := openRedis(t, redistest.Start(t))
	epoch := learn(t, s)
	ctx := context.Background()
	s.client().LPush(ctx, key(1), "x")
	v := coldView(epoch, bucket(10, 1))
	got, _, err := s.Take(ctx, epoch, append(one(key(1), 1, v), one(key(2), 1, v)...))
	if err != nil || got[0].Allowed || !got[1].Allowed {
		t.Fatalf("%+v, %v", got, err)
	}
	if text := s.client().Get(ctx, key(1)).Val(); !strings.HasPrefix(text, "c ") {
		t.Fatalf("it holds %q", text)
	}
}

// Two daemons on one Redis: exactly the bucket is admitted.
func TestRedisConcurrent(t *testing.T) {
	server := redistest.Start(t)
	stores := []*Redis{openRedis(t, server), openRedis(t, server)}
	epoch := learn(t, stores[0])
	floor := limit.Bucket{Cap: 500 * limit.Token}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 200 {
				got, _, err := stores[w%2].Take(context.Background(), epoch, one(key(1), 1, coldView(epoch, floor)))
				if err != nil {
					t.Error(err)
					return
				}
				if got[0].Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 500 {
		t.Fatalf("admitted %d of 500", admitted.Load())
	}
}

func TestRedisBytesPerKey(t *testing.T) {
	s := openRedis(t, redistest.Start(t))
	epoch := learn(t, s)
	ctx := context.Background()
	admit(t, s, epoch, key(1), 1, bucket(100, 1))
	admit(t, s, epoch, key(2), 1, bucket(100, 1))
	hot := Change{Key: key(2), Change: limit.Change{View: coldView(epoch, bucket(100, 1)), Gen: 1<<32 + 7, Share: bucket(50, 1)}}
	if _, _, err := s.Apply(ctx, epoch, []Change{hot}); err != nil {
		t.Fatal(err)
	}
	cold, _ := s.client().MemoryUsage(ctx, key(1)).Result()
	t.Logf("cold: %d bytes, %q = %q", cold, key(1), s.client().Get(ctx, key(1)).Val())
	warm, _ := s.client().MemoryUsage(ctx, key(2)).Result()
	t.Logf("hot: %d bytes, %q", warm, s.client().Get(ctx, key(2)).Val())
	if cold > 149 {
		t.Errorf("a cold key takes %d bytes", cold)
	}
	if ttl := s.client().PTTL(ctx, key(2)).Val(); ttl != -1 {
		t.Errorf("a hot key has TTL %v", ttl)
	}
}

func BenchmarkRedisTake(b *testing.B) {
	s := openRedis(b, redistest.Start(b))
	epoch := learn(b, s)
	for _, a := range everyAlgorithm {
		for _, n := range []int{1, 32} {
			b.Run(fmt.Sprintf("%v/groups=%d", a, n), func(b *testing.B) { benchmarkRedis(b, s, epoch, a, n, 10_000) })
		}
		b.Run(fmt.Sprintf("%v/full", a), func(b *testing.B) { benchmarkRedis(b, s, epoch, a, 1, 1) })
	}
}

// benchmarkRedis takes of some keys, so many groups a call; a limit of one key is full
// after 900 checks. Besides the checks a second
// it tells what Redis's processor time a check takes, which does not depend on what else
// the machine does.
func benchmarkRedis(b *testing.B, s *Redis, epoch string, a limit.Algorithm, n, keyCount int) {
	v := viewOf(epoch, a, 900, 10*time.Minute)
	keys := make([]string, keyCount)
	for i := range keys {
		keys[i] = keyOf(a, 1_000_000*n+keyCount+i)
	}
	var slots atomic.Uint64
	before := redisSeconds(b, s)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		groups := make([]Group, n)
		for i := 0; pb.Next(); i++ {
			for j := range groups {
				if a == limit.Concurrency {
					v.Slot = slots.Add(1)
				}
				groups[j] = one(keys[(i*n+j)%len(keys)], 1, v)[0]
			}
			if _, _, err := s.Take(context.Background(), epoch, groups); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	checks := float64(n * b.N)
	b.ReportMetric(checks/b.Elapsed().Seconds(), "checks/s")
	b.ReportMetric((redisSeconds(b, s)-before)*1e6/checks, "redis-us/check")
}

// redisSeconds is the processor time that the server has used.
func redisSeconds(t testing.TB, s *Redis) (seconds float64) {
	t.Helper()
	info, err := s.client().Info(context.Background(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([0-9.]+)`).FindAllStringSubmatch(info, -1) {
		part, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		seconds += part
	}
	return seconds
}

// TestLibraryLog: what go-redis says goes to the given logger, at debug.
func TestLibraryLog(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	LogLibrary(slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer LogLibrary(slog.New(slog.DiscardHandler))
	s, err := NewRedis(DefaultRedisConfig("redis://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Epoch(t.Context()); err == nil {
		t.Fatal("port 1 answers")
	}
	mu.Lock()
	defer mu.Unlock()
	if got := out.String(); !strings.Contains(got, "go-redis: ") || !strings.Contains(got, "level=DEBUG") {
		t.Errorf("logged: %q", got)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
