package store

import (
	"bytes"
	"context"
	"net"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/internal/roster"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store/replies"
)

// sameBytes is a connection to a server that sends the same bytes whatever it is asked, and then hangs up.
type sameBytes struct{ *bytes.Reader }

func (sameBytes) Write(p []byte) (int, error)      { return len(p), nil }
func (sameBytes) Close() error                     { return nil }
func (sameBytes) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (sameBytes) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (sameBytes) SetDeadline(time.Time) error      { return nil }
func (sameBytes) SetReadDeadline(time.Time) error  { return nil }
func (sameBytes) SetWriteDeadline(time.Time) error { return nil }

// greeting answers the HELLO with which go-redis opens a connection.
const greeting = "%1\r\n+proto\r\n:3\r\n"

// storeCalls are the calls that a store makes of its Redis.
var storeCalls = func() (calls []func(context.Context, *redis.Client, *lua.Scripts)) {
	const epoch = "n:r:1"
	groups, reservation := aReservation(epoch, 7)
	kept := lua.NewKept(limit.Stamp(epoch), 1, nil, nil, "mine")
	change := Change{Key: groups[0].Limits[0].Key, Change: limit.Change{View: groups[0].Limits[0].View}}
	return []func(context.Context, *redis.Client, *lua.Scripts){
		func(ctx context.Context, _ *redis.Client, s *lua.Scripts) { _, _, _ = s.Take(ctx, epoch, groups) },
		func(ctx context.Context, _ *redis.Client, s *lua.Scripts) {
			_, _, _ = s.Apply(ctx, epoch, []Change{change}, false)
		},
		func(ctx context.Context, _ *redis.Client, s *lua.Scripts) {
			_, _, _ = s.Reserve(ctx, epoch, groups, reservation)
		},
		func(ctx context.Context, _ *redis.Client, s *lua.Scripts) { _, _ = s.Reservation(ctx, reservationKey) },
		func(ctx context.Context, _ *redis.Client, s *lua.Scripts) {
			_, _, _ = s.Settle(ctx, epoch, endOf(groups, kept, 1, 1))
		},
		func(ctx context.Context, _ *redis.Client, s *lua.Scripts) {
			_, _ = s.Roster(ctx, epoch, roster.Call{Self: 1})
		},
		func(ctx context.Context, c *redis.Client, _ *lua.Scripts) {
			_, _ = lua.LearnEpoch(ctx, c, "nonce", nil)
		},
		func(ctx context.Context, c *redis.Client, _ *lua.Scripts) {
			_, _ = c.ClusterSlots(ctx).Result() //lint:ignore SA1019 the cluster's client reads the slots by it
		},
		func(ctx context.Context, c *redis.Client, _ *lua.Scripts) {
			_, _ = c.Do(ctx, "sentinel", "sentinels", "a").Slice()
		},
	}
}()

// FuzzStoreReplies: whatever a server sends in the place of its replies, no call of the store panics, and none takes
// memory beyond the bounds on a reply.
func FuzzStoreReplies(f *testing.F) {
	for call := range storeCalls {
		for _, seed := range []string{
			"*2\r\n:1700000000000000\r\n$128\r\n" + string(make([]byte, 128)) + "\r\n", "-NOSCRIPT no\r\n$-1\r\n", "*2\r\n:-3\r\n$9\r\n00000000 \r\n",
			"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "$22\r\n00000000 1 1 2 3 4\nmine\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n:-4\r\n:1\r\n",
			"$15\r\nredis_mode:x\r\nr\r\n", "*7\r\n:1\r\n:2\r\n:3\r\n:1\r\n$2\r\n0a\r\n:1\r\n:2\r\n", "%2\r\n+a\r\n#t\r\n,1.5\r\n(12\r\n~1\r\n_\r\n",
		} {
			f.Add([]byte(seed), byte(call))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, call byte) {
		options := &redis.Options{MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, PoolSize: 1}
		replies.Bound(options, func(context.Context, string, string) (net.Conn, error) {
			return sameBytes{bytes.NewReader(append([]byte(greeting), stream...))}, nil
		})
		client := redis.NewClient(options)
		defer client.Close()
		run := storeCalls[int(call)%len(storeCalls)]
		took := allocated(func() { run(t.Context(), client, lua.New(client)) })
		if most := uint64(2*replies.MaxBytes + 200*len(stream)); took > most {
			t.Errorf("a reply of %d bytes takes %d of memory, at most %d", len(stream), took, most)
		}
	})
}

// allocated returns how many bytes run allocates.
func allocated(run func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	run()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}
