package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

// anyStore is what both stores are.
type anyStore interface {
	Epoch(context.Context) (string, error)
	Take(context.Context, string, []Group) ([]Result, int64, error)
	Apply(context.Context, string, []Change) ([]limit.Applied, int64, error)
	ApplyLease(context.Context, string, []Change) ([]limit.Applied, int64, error)
	Reserve(context.Context, string, []Group, lua.Reservation) (lua.Reserved, int64, error)
	Reservation(context.Context, string) (*lua.Kept, error)
	Settle(context.Context, string, lua.Settlement) (lua.Settled, int64, error)
	Adjust(context.Context, string, []lua.Part) ([]limit.Adjusted, error)
}

// onBoth runs a test on an embedded store and on a real Redis, as two daemons of
// one region see it. Both are new; pass lets at least a microsecond go by.
func onBoth(t *testing.T, test func(t *testing.T, a, b anyStore, epoch string, pass func())) {
	t.Run("memory", func(t *testing.T) {
		m, c, epoch := newMemory(t, 0)
		test(t, m, m, epoch, func() { c.us.Add(1) })
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t)
		a, b := openRedis(t, server), openRedis(t, server)
		test(t, a, b, learn(t, a), func() {
			start := redisNow(t, a)
			redistest.Until(t, "a microsecond has passed", func() bool { return redisNow(t, a) > start })
		})
	})
}

func redisNow(t *testing.T, s *Redis) int64 {
	t.Helper()
	at, err := s.client().Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

// takeOne is one limit's outcome of a request of whole tokens.
func takeOne(t *testing.T, s anyStore, epoch, key string, cost int64, v limit.View) (bool, limit.Outcome) {
	t.Helper()
	got, _, err := s.Take(t.Context(), epoch, one(key, cost, v))
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Allowed, got[0].Limits[0]
}

func applyOne(t *testing.T, s anyStore, epoch, key string, c limit.Change) limit.Applied {
	t.Helper()
	got, _, err := s.Apply(t.Context(), epoch, []Change{{Key: key, Change: c}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// A key of an elastic limit of 90 tokens, from cold to hot and back. No rate: the
// clock of Redis does not stand still.
func TestElasticKey(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		v := coldView(epoch, bucket(30, 0))
		v.Extra = 60 * limit.Token
		want := func(ok bool, out limit.Outcome, tokens, capacity int64) {
			t.Helper()
			if !ok || out.Tokens != limit.Tokens(tokens)*limit.Token || out.Bucket != bucket(capacity, 0) || out.Amnesia {
				t.Fatalf("allowed %v, %+v; want %d of %d", ok, out, tokens, capacity)
			}
		}
		ok, out := takeOne(t, s, epoch, key(1), 10, v)
		want(ok, out, 80, 90)
		if a := applyOne(t, s, epoch, key(1), limit.Change{View: v, Gen: 1, Share: bucket(10, 0)}); a.Released != 13_333_334 || a.Tokens != 66_666_666 {
			t.Fatalf("20 of the floor's 30 shrink to a third, 60 stay beside: %+v", a)
		}
		hot := v
		hot.Hot, hot.Gen, hot.Share = true, 1, bucket(10, 0)
		if ok, out = takeOne(t, s, epoch, key(1), 50, hot); !ok || out.Tokens != 16_666_666 || out.Bucket != bucket(20, 0) {
			t.Fatalf("allowed %v, %+v", ok, out)
		}
		a := applyOne(t, s, epoch, key(1), limit.Change{View: hot, Gen: 2, Share: v.Floor, Cold: true, Grant: 3_333_334})
		if a.Released != 0 || a.Tokens != 20*limit.Token {
			t.Fatalf("%+v", a)
		}
		v.Gen = 2
		ok, out = takeOne(t, s, epoch, key(1), 5, v)
		want(ok, out, 15, 90)
		v.Extra = 0
		ok, out = takeOne(t, s, epoch, key(1), 15, v)
		want(ok, out, 0, 30)
	})
}

func TestFloorsThatChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		v := coldView(epoch, bucket(30, 1000))
		v.FloorSince, v.Low = 1, bucket(10, 1)
		if ok, out := takeOne(t, s, epoch, key(1), 1, v); !ok || out.Tokens != 29*limit.Token {
			t.Fatalf("a change of long ago: %v, %+v", ok, out)
		}
		v.FloorSince = limit.MaxExact
		if ok, out := takeOne(t, s, epoch, key(2), 1, v); !ok || out.Tokens != 9*limit.Token || out.Bucket != v.Floor {
			t.Fatalf("a change just now, of which this store's clock knows nothing yet: %v, %+v", ok, out)
		}
		v.Birth = 1
		if ok, out := takeOne(t, s, epoch, key(3), 1, v); ok || out.Tokens != 0 {
			t.Fatalf("contents that did not start full: %v, %+v", ok, out)
		}
	})
}

// A take that was stuck on its way spends nothing.
func TestLateTake(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		v := coldView(epoch, bucket(30, 0))
		v.Deadline = 1
		var late *lua.LateError
		if _, _, err := s.Take(t.Context(), epoch, one(key(1), 5, v)); !errors.As(err, &late) || late.Now <= 1 {
			t.Fatalf("a take long after its deadline: %v", err)
		}
		v.Deadline = late.Now + time.Hour.Microseconds()
		if ok, out := takeOne(t, s, epoch, key(1), 5, v); !ok || out.Tokens != 25*limit.Token {
			t.Fatalf("the first take in time: %v, %+v", ok, out)
		}
	})
}

// TestLateAdjust: an adjustment that was stuck on its way changes nothing, because its view may be of a rule that
// has changed since.
func TestLateAdjust(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		v := coldView(epoch, bucket(30, 0))
		v.Deadline = 1
		parts := []lua.Part{{Key: key(1), Adjustment: limit.Adjustment{View: v, Used: 5 * limit.Token, Debt: 30 * limit.Token}}}
		var late *lua.LateError
		if out, err := s.Adjust(t.Context(), epoch, parts); !errors.As(err, &late) || late.Now <= 1 {
			t.Fatalf("an adjustment long after its deadline: %+v, %v", out, err)
		}
		v.Deadline = late.Now + time.Hour.Microseconds()
		if ok, out := takeOne(t, s, epoch, key(1), 1, v); !ok || out.Tokens != 29*limit.Token {
			t.Fatalf("the late adjustment has changed the record: %v, %+v", ok, out)
		}
		parts[0].View = v
		if out, err := s.Adjust(t.Context(), epoch, parts); err != nil || out[0].Charged != 5*limit.Token {
			t.Fatalf("an adjustment in time: %+v, %v", out, err)
		}
	})
}

// While one daemon of a region takes leases, another that is cut off does not take
// the floor back.
func TestHeardFencesTheFloor(t *testing.T) {
	onBoth(t, func(t *testing.T, cutOff, connected anyStore, epoch string, pass func()) {
		floor, share := bucket(30, 0), bucket(6, 0)
		v := coldView(epoch, floor)
		for i := range 3 {
			applyOne(t, connected, epoch, key(i), limit.Change{View: v, Gen: 1, Share: share})
		}
		hot := v
		hot.Hot, hot.Gen, hot.Share, hot.Phase, hot.Since = true, 1, share, limit.Floor, 1
		hot.HeardWait = lua.HeardTTL.Microseconds()
		enforced := func(v limit.View) limit.Bucket {
			t.Helper()
			_, out := takeOne(t, cutOff, epoch, key(0), 1, v)
			return out.Bucket
		}
		if b := enforced(hot); b != floor {
			t.Fatalf("nobody was ever heard: %+v", b)
		}
		if _, now, err := connected.Apply(t.Context(), epoch, nil); err != nil || now == 0 {
			t.Fatalf("no changes: at %d, %v", now, err)
		}
		if b := enforced(hot); b != floor {
			t.Fatalf("a directive without a lease counts for nothing: %+v", b)
		}
		before := applyOne(t, cutOff, epoch, key(1), limit.Change{View: hot, Gen: 2, Share: bucket(3, 0)})
		applied, now, err := connected.ApplyLease(t.Context(), epoch, nil)
		if err != nil || now == 0 || len(applied) != 0 {
			t.Fatalf("a lease without changes: %+v at %d, %v", applied, now, err)
		}
		if b := enforced(hot); b != share {
			t.Fatalf("the other daemon was heard: %+v", b)
		}
		// The same change shrinks a floor before, and a share after.
		after := applyOne(t, cutOff, epoch, key(2), limit.Change{View: hot, Gen: 2, Share: bucket(3, 0)})
		if before.Released <= after.Released || after.Tokens != 3*limit.Token {
			t.Fatalf("before %+v, after %+v", before, after)
		}
		unchecked := hot
		unchecked.HeardWait = 0
		if b := enforced(unchecked); b != floor {
			t.Fatalf("not to be checked: %+v", b)
		}
		pass()
		short := hot
		short.HeardWait = 1
		if b := enforced(short); b != floor {
			t.Fatalf("silent for long enough: %+v", b)
		}
		live := hot
		live.Phase, live.Since = limit.Live, 0
		if b := enforced(live); b != share {
			t.Fatalf("live is live: %+v", b)
		}
		var other *EpochError
		if _, _, err := connected.ApplyLease(t.Context(), "another", nil); !errors.As(err, &other) || other.Actual != epoch {
			t.Fatalf("another epoch: %v", err)
		}
	})
}

func TestLeaseWithChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		v := coldView(epoch, bucket(30, 0))
		v.Phase, v.Since, v.HeardWait = limit.Floor, 1, lua.HeardTTL.Microseconds()
		var changes []Change
		for i := range 3*lua.ApplyChunk + 1 {
			c := Change{Key: key(i), Change: limit.Change{View: v, Gen: 1, Share: bucket(6, 0)}}
			changes = append(changes, c)
		}
		applied, now, err := s.ApplyLease(t.Context(), epoch, changes)
		if err != nil || len(applied) != len(changes) || now == 0 {
			t.Fatalf("%d applied at %d, %v", len(applied), now, err)
		}
		for i, a := range applied {
			if a != (limit.Applied{Released: 24 * limit.Token, Tokens: 6 * limit.Token, At: a.At}) || a.At == 0 {
				t.Fatalf("change %d: %+v", i, a)
			}
		}
		v.Hot, v.Gen, v.Share = true, 1, bucket(6, 0)
		if _, out := takeOne(t, s, epoch, key(0), 1, v); out.Bucket != v.Share {
			t.Fatalf("the lease was not noticed: %+v", out)
		}
	})
}

func TestBadViews(t *testing.T) {
	onBoth(t, func(t *testing.T, s, _ anyStore, epoch string, _ func()) {
		bad := map[string]func(*limit.View){
			"a negative extra":        func(v *limit.View) { v.Extra = -1 },
			"an extra too large":      func(v *limit.View) { v.Extra = limit.MaxTokens - v.Floor.Cap + 1 },
			"a low above the floor":   func(v *limit.View) { v.FloorSince, v.Low = 1, bucket(11, 1) },
			"a faster low":            func(v *limit.View) { v.FloorSince, v.Low = 1, bucket(1, 2) },
			"a low that is no bucket": func(v *limit.View) { v.FloorSince, v.Low = 1, bucket(-1, 1) },
			"a negative instant":      func(v *limit.View) { v.FloorSince = -1 },
			"an instant too large":    func(v *limit.View) { v.FloorSince = limit.MaxExact + 1 },
			"a negative wait":         func(v *limit.View) { v.HeardWait = -1 },
			"a wait that is too long": func(v *limit.View) { v.HeardWait = lua.HeardTTL.Microseconds() + 1 },
		}
		for name, spoil := range bad {
			v := coldView(epoch, bucket(10, 1))
			spoil(&v)
			if _, _, err := s.Take(t.Context(), epoch, one(key(1), 1, v)); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: take: %v", name, err)
			}
			c := []Change{{Key: key(1), Change: limit.Change{View: v, Gen: 1}}}
			if _, _, err := s.ApplyLease(t.Context(), epoch, c); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: apply: %v", name, err)
			}
		}
		v := coldView(epoch, bucket(10, 1))
		for name, spoil := range map[string]func(*limit.View){
			"floors since": func(v *limit.View) { v.FloorSince, v.Low = 1, v.Floor },
			"heard wait":   func(v *limit.View) { v.HeardWait = 1 },
		} {
			other := v
			spoil(&other)
			if _, _, err := s.Take(t.Context(), epoch, append(one(key(1), 1, v), one(key(2), 1, other)...)); !errors.Is(err, ErrInvalid) {
				t.Errorf("two opinions of %s in one call: %v", name, err)
			}
		}
	})
}

// The values in Redis: the time of the lease, for HeardTTL; nonsense counts as now.
// Nobody reads it but a region that is cut off.
func TestRedisHeard(t *testing.T) {
	s := openRedis(t, redistest.Start(t))
	epoch := learn(t, s)
	ctx := t.Context()
	_, now, err := s.ApplyLease(ctx, epoch, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.client().Get(ctx, "aq:heard").Val(); got != fmt.Sprint(now) {
		t.Fatalf("heard is %q, the lease was at %d", got, now)
	}
	if left := s.client().PTTL(ctx, "aq:heard").Val(); left > lua.HeardTTL || left < lua.HeardTTL-time.Minute {
		t.Fatalf("it stays for %v", left)
	}
	floor, share := bucket(30, 0), bucket(6, 0)
	v := coldView(epoch, floor)
	applyOne(t, s, epoch, key(1), limit.Change{View: v, Gen: 1, Share: share})
	v.Hot, v.Gen, v.Share, v.Phase, v.Since, v.HeardWait = true, 1, share, limit.Floor, 1, 1_000_000
	spoil := map[string]func(){
		"a word":     func() { s.client().Set(ctx, "aq:heard", "yesterday", 0) },
		"a fraction": func() { s.client().Set(ctx, "aq:heard", "1.5", 0) },
		"nothing":    func() { s.client().Set(ctx, "aq:heard", "", 0) },
		"too much":   func() { s.client().Set(ctx, "aq:heard", "9007199254740992", 0) },
		"a list":     func() { s.client().Del(ctx, "aq:heard"); s.client().LPush(ctx, "aq:heard", "x") },
	}
	for name, f := range spoil {
		f()
		if _, out := takeOne(t, s, epoch, key(1), 1, v); out.Bucket != share {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if _, _, err := s.ApplyLease(ctx, epoch, nil); err != nil || s.client().Type(ctx, "aq:heard").Val() != "string" {
		t.Errorf("a lease over nonsense: %v", err)
	}
	live := v
	live.Phase, live.Until = limit.Live, limit.MaxExact
	if in, out := gets(t, s, epoch, live), gets(t, s, epoch, v); in != 2 || out != 3 {
		t.Errorf("a take of one key reads %d keys live and %d cut off; want 2 and 3", in, out)
	}
}

// gets is how many keys one take of one key reads.
func gets(t *testing.T, s *Redis, epoch string, v limit.View) int {
	t.Helper()
	s.client().ConfigResetStat(t.Context())
	takeOne(t, s, epoch, key(1), 1, v)
	return callsOf(s.client().Info(t.Context(), "commandstats").Val(), "get")
}
