package store

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua/redistest"
)

// askSentinels are Sentinels that only the test asks, and whose primary nobody dials.
func askSentinels(t testing.TB, url string) *sentinels {
	t.Helper()
	_, c, err := sentinelOptions(DefaultRedisConfig(url))
	if err != nil {
		t.Fatal(err)
	}
	s := newSentinels(c, slog.New(slog.DiscardHandler), func(string, bool) {})
	t.Cleanup(func() { s.close() })
	return s
}

// spendOne asks for one token of a bucket of ten that hardly refills.
func spendOne(s *Redis, epoch string) (left limit.Tokens, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	results, _, err := s.Take(ctx, epoch, one(key(1), 1, viewOf(epoch, limit.TokenBucket, 10, time.Hour)))
	if err != nil {
		return 0, err
	}
	return results[0].Limits[0].Tokens, nil
}

// learnSoon is learn on a machine that may be too busy for a Sentinel to answer in time.
func learnSoon(t testing.TB, s *Redis) (epoch string) {
	t.Helper()
	redistest.Until(t, "the contents are known", func() bool {
		var err error
		epoch, err = s.Epoch(t.Context())
		return err == nil
	})
	return epoch
}

// knownPrimary is where connections go at present.
func knownPrimary(s *Redis) string {
	s.sentinels.mu.Lock()
	defer s.sentinels.mu.Unlock()
	return s.sentinels.primary
}

// TestSentinelFailover: the primary dies and the replica is promoted; the store finds it
// by itself, and its contents count as others, so that what the replica lacked is nobody's
// gain.
func TestSentinelFailover(t *testing.T) {
	servers := redistest.StartSentinels(t)
	var told atomic.Value
	var moves atomic.Int32
	s := openURL(t, servers.URL(), func(c *RedisConfig) {
		c.OnEpoch = func(epoch string) { told.Store(epoch) }
		c.OnPrimary = func() { moves.Add(1) }
	})
	epoch := learnSoon(t, s)
	if left, err := spendOne(s, epoch); err != nil || left/limit.Token != 9 {
		t.Fatalf("%v left, %v", left, err)
	}
	if n := moves.Load(); n != 1 {
		t.Errorf("told of %d primaries before there was another", n)
	}
	servers.Primary.Kill()
	redistest.Until(t, "the new primary's contents are told of", func() bool {
		_, err := spendOne(s, epoch) // of the old contents: never decided
		if err == nil {
			t.Fatal("the old contents were spent from")
		}
		return told.Load() != nil
	})
	now := told.Load().(string)
	if now == epoch || moves.Load() != 2 {
		t.Errorf("epoch %s after %s, %d moves", now, epoch, moves.Load())
	}
	if learned := learnSoon(t, s); learned != now {
		t.Errorf("told of %s, learned %s", now, learned)
	}
}

// TestSentinelDemotion: a failover while the old primary lives. Its pooled connections are
// ended, and when it is primary once more it has new contents.
func TestSentinelDemotion(t *testing.T) {
	servers := redistest.StartSentinels(t)
	s := openURL(t, servers.URL())
	last := learnSoon(t, s)
	epochs := map[string]bool{last: true}
	for range 2 {
		before := knownPrimary(s)
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: servers.Addrs[0]})
		redistest.Until(t, "a failover begins", func() bool {
			return sentinel.Failover(t.Context(), redistest.SentinelName).Err() == nil
		})
		sentinel.Close()
		var epoch string
		redistest.Until(t, "the new primary decides", func() bool {
			if now := knownPrimary(s); now == before || now == "" {
				return false
			}
			// The primary is known a moment before connections to the one before are ended.
			if epoch = learnSoon(t, s); epoch == last {
				return false
			}
			_, err := spendOne(s, epoch)
			return err == nil
		})
		if epochs[epoch] {
			t.Errorf("contents %s came back", epoch)
		}
		epochs[epoch], last = true, epoch
	}
}

// TestDemotedWithoutSentinels: the address of one server comes to lead to another one, as
// that of a load balancer does. The first refusal ends all connections to the one that
// became a replica.
func TestDemotedWithoutSentinels(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	var to atomic.Value
	to.Store(first.Addr)
	front := forward(t, &to)
	s := openRedis(t, first, func(c *RedisConfig) { c.URL, c.MinIdle, c.PoolSize = "redis://"+front, 8, 16 })
	epoch := learn(t, s)
	if _, err := spendOne(s, epoch); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "several connections", func() bool { return s.client().PoolStats().TotalConns >= 8 })
	client := first.Client(t)
	if err := client.ReplicaOf(t.Context(), "127.0.0.1", second.Port()).Err(); err != nil {
		t.Fatal(err)
	}
	to.Store(second.Addr)
	refused := 0
	for {
		_, err := spendOne(s, epoch)
		if _, other := errors.AsType[*EpochError](err); other {
			break
		}
		if err == nil {
			t.Fatal("the new server has the old one's contents")
		}
		if strings.Contains(err.Error(), "READONLY") {
			refused++
		}
		if refused > 1 {
			t.Fatalf("stale connections were kept: %v", err)
		}
	}
	if refused != 1 {
		t.Errorf("%d refusals", refused)
	}
}

// TestLeftContents: a server whose contents others came after has to have a new epoch.
func TestLeftContents(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	var to atomic.Value
	to.Store(a.Addr)
	front := forward(t, &to)
	s := openRedis(t, a, func(c *RedisConfig) { c.URL = "redis://" + front })
	seen := map[string]bool{}
	for _, server := range []*redistest.Server{a, b, a, b, a} {
		to.Store(server.Addr)
		s.Renew()
		epoch := learn(t, s)
		if seen[epoch] {
			t.Fatalf("contents %s came back, as if nothing had been spent meanwhile", epoch)
		}
		seen[epoch] = true
		if again := learn(t, s); again != epoch {
			t.Fatalf("contents %s do not stay", epoch)
		}
	}
}

// TestSentinelsDisagree: one that was cut off goes on naming the primary of before; the
// latest configuration counts. Without most of them what is left counts.
func TestSentinelsDisagree(t *testing.T) {
	stale := redistest.StartSentinel(t, "1", "sentinel config-epoch main 3")
	first := redistest.StartSentinel(t, "2", "sentinel config-epoch main 7")
	second := redistest.StartSentinel(t, "2", "sentinel config-epoch main 7")
	dead := "127.0.0.1:1"
	for _, c := range []struct {
		name  string
		addrs []string
		want  string
	}{
		{"the latest counts", []string{dead, stale, first}, "127.0.0.1:2"},
		{"most of them", []string{first, stale, second}, "127.0.0.1:2"},
		{"one is left", []string{dead, stale, dead}, "127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := askSentinels(t, "redis+sentinel://"+strings.Join(c.addrs, ",")+"/main")
			redistest.Until(t, "the Sentinels name "+c.want, func() bool {
				got, err := s.queryAll(t.Context())
				return err == nil && got == c.want
			})
		})
	}
	t.Run("none is left", func(t *testing.T) {
		s := openURL(t, "redis+sentinel://"+dead+"/main")
		if _, err := s.Epoch(t.Context()); err == nil || !strings.Contains(err.Error(), "Sentinel") {
			t.Errorf("%v", err)
		}
	})
}

// TestSentinelsOfBefore: where only one answers that was cut off, the primary of before is
// not taken up again, whether the present one is still believed in or not.
func TestSentinelsOfBefore(t *testing.T) {
	stale := redistest.StartSentinel(t, "1", "sentinel config-epoch main 6")
	latest := redistest.StartSentinel(t, "2", "sentinel config-epoch main 7")
	s := askSentinels(t, "redis+sentinel://"+stale+","+latest+",127.0.0.1:1/main")
	redistest.Until(t, "both are heard", func() bool {
		got, err := s.queryAll(t.Context())
		return err == nil && got == "127.0.0.1:2"
	})
	for _, client := range s.clients {
		if client.Options().Addr == latest {
			client.Close()
		}
	}
	for _, doubted := range []bool{false, true} {
		if doubted {
			s.doubt("")
		}
		redistest.Until(t, "the stale one is heard", func() bool {
			got, err := s.queryAll(t.Context())
			if err == nil {
				t.Fatalf("%s is believed to be the primary", got)
			}
			return strings.Contains(err.Error(), "127.0.0.1:1 as the primary")
		})
		s.mu.Lock()
		if s.announced != "127.0.0.1:2" || (s.primary == "") != doubted {
			t.Errorf("doubted: %v, primary %q, told of %q", doubted, s.primary, s.announced)
		}
		s.mu.Unlock()
	}
}

// TestSentinelsAnew: Sentinels that were set up again count from zero, and are followed
// when most of them have kept to that.
func TestSentinelsAnew(t *testing.T) {
	var moves []string
	s := &sentinels{name: "main", moved: func(addr string, _ bool) { moves = append(moves, addr) }}
	began := time.Now()
	for i, c := range []struct {
		after time.Duration
		addr  string
		epoch int64
		most  bool
		taken bool
	}{
		{0, "a", 7, true, true},
		{1 * time.Second, "b", 6, true, false},
		{2 * time.Second, "a", 7, false, true}, // which are of before, then
		{11 * time.Second, "b", 6, true, false},
		{12 * time.Second, "b", 6, false, false}, // too few to count on
		{21 * time.Second, "b", 6, true, false},
		{31*time.Second - 1, "b", 6, true, false},
		{31 * time.Second, "b", 6, true, true},
		{32 * time.Second, "c", 7, false, true},
		{33 * time.Second, "c", 1, false, true}, // says nothing else
		{34 * time.Second, "b", 6, false, false},
		{35 * time.Second, "c", 1, true, true},
		{45 * time.Second, "c", 1, true, true}, // from here on that is the latest
		{46 * time.Second, "a", 2, true, true},
	} {
		addr, err := s.accept(primaryAnswer{addr: c.addr, epoch: c.epoch}, c.most, began.Add(c.after))
		if (err == nil) != c.taken || c.taken && addr != c.addr {
			t.Errorf("%d: %+v: %q, %v", i, c, addr, err)
		}
	}
	if got := strings.Join(moves, " "); got != "a b c a" {
		t.Errorf("moves %s", got)
	}
}

func TestSentinelUnknownName(t *testing.T) {
	s := openURL(t, "redis+sentinel://"+redistest.StartSentinel(t, "1")+"/other")
	redistest.Until(t, "the Sentinel says that it does not know the name", func() bool {
		_, err := s.Epoch(t.Context())
		if err == nil {
			t.Fatal("a primary that nobody watches")
		}
		return strings.Contains(err.Error(), "watches no primary of that name")
	})
}

// forward carries connections to whatever address is in force when they come.
func forward(t testing.TB, to *atomic.Value) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to.Load().(string))
			if err != nil {
				in.Close()
				continue
			}
			carry := func(from, to net.Conn) {
				buf := make([]byte, 4096)
				for {
					n, err := from.Read(buf)
					if n > 0 {
						to.Write(buf[:n])
					}
					if err != nil {
						from.Close()
						to.Close()
						return
					}
				}
			}
			go carry(in, out)
			go carry(out, in)
		}
	}()
	return l.Addr().String()
}
