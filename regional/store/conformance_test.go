package store

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

// scripted is the scripts on a Redis whose contents have been named already.
type scripted struct {
	*lua.Scripts
	epoch string
}

func (s scripted) Epoch(context.Context) (string, error) { return s.epoch, nil }

func (s scripted) Apply(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	return s.Scripts.Apply(ctx, epoch, changes, false)
}

func (s scripted) ApplyLease(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	return s.Scripts.Apply(ctx, epoch, changes, true)
}

// openMini is an emulated Redis, whose clock the test sets.
func openMini(t testing.TB) (anyStore, string, func(time.Duration)) {
	t.Helper()
	mini := miniredis.RunT(t)
	at := time.UnixMicro(1_000_000_000_000_000)
	mini.SetTime(at)
	const epoch = "mini:run:1"
	if err := mini.Set(lua.EpochKey, epoch); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: mini.Addr(), MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	client.AddHook(withStruct{})
	return scripted{lua.New(client), epoch}, epoch, func(d time.Duration) {
		at = at.Add(d)
		mini.SetTime(at)
		mini.FastForward(d)
	}
}

// Every store answers as package limit does, over generated lives of keys of every
// algorithm: requests under several limits at once with costs of their own, pauses,
// shares that come, change and go, phases, debits. The reference never forgets a record,
// so a store that does has to make no difference by that.
func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		m, c, epoch := newMemory(t, 0)
		conform(t, m, epoch, func(d time.Duration) { c.us.Add(d.Microseconds()) })
	})
	t.Run("miniredis", func(t *testing.T) {
		s, epoch, pause := openMini(t)
		conform(t, s, epoch, pause)
	})
	t.Run("redis", func(t *testing.T) {
		s := openRedis(t, redistest.Start(t))
		conform(t, s, learn(t, s), func(time.Duration) {}) // its clock runs by itself
	})
	t.Run("cluster", func(t *testing.T) {
		s := openCluster(t, redistest.StartCluster(t, 1))
		conform(t, s, learnCluster(t, s), func(time.Duration) {}, "phase") // it words one for all the clocks there may be
	})
}

// everything is what lives have to lead to.
var everything = []string{"allowed", "denied", "retry", "own cost", "hot", "due", "delayed by a window",
	"lent", "kept", "brought back", "lost", "brought back with a change", "only brought back"}

// lifeRounds bounds the rounds of lives: what is seldom comes about ten times in each.
const lifeRounds = 8

func conform(t *testing.T, s anyStore, epoch string, pause func(time.Duration), without ...string) {
	var lives atomic.Int64
	seen := map[string]int{}
	missing := everything
	for round := 0; round < lifeRounds && len(missing) > 0 && !t.Failed(); round++ {
		live(t, s, epoch, pause, &lives, seen, without)
		missing = slices.DeleteFunc(slices.Clone(everything), func(what string) bool { return seen[what] > 0 })
	}
	if len(missing) > 0 {
		t.Errorf("no life led to %q", missing)
	}
	t.Logf("%v", seen)
}

// live is a round of generated lives, on keys of which each has its own.
func live(t *testing.T, s anyStore, epoch string, pause func(time.Duration), lives *atomic.Int64, seen map[string]int, without []string) {
	rapid.Check(t, func(t *rapid.T) {
		h := &life{T: t, store: s, epoch: epoch, sleep: pause, seen: seen, phase: limit.Live}
		lives.Add(1)
		for i := range 8 {
			a := everyAlgorithm[i%len(everyAlgorithm)]
			k := &lifeKey{name: h.nameOf(a, i, lives.Load()), algorithm: a}
			k.window = rapid.SampledFrom([]time.Duration{time.Millisecond, 3 * time.Millisecond, time.Second, time.Minute}).Draw(t, "window")
			k.floor = rapid.Int64Range(1, 12).Draw(t, "floor")
			h.keys = append(h.keys, k)
		}
		h.ask(h.keys[:1], 1)
		actions := map[string]func(*rapid.T){
			"take":  h.take,
			"again": h.take,
			"alone": h.takeAlone,
			"apply": h.apply,
			"phase": h.changePhase,
			"pause": h.pause,
		}
		for _, name := range without {
			delete(actions, name)
		}
		t.Repeat(actions)
	})
}

// lifeKey is one key with its record in the reference.
type lifeKey struct {
	name      string
	algorithm limit.Algorithm
	window    time.Duration
	floor     int64
	hot       bool
	gen       uint64
	share     limit.Bucket
	record    limit.Record
	// chunks are what two callers have borrowed of a bucket.
	chunks [2]chunk
}

// chunk is what one caller has of a key, as it knows.
type chunk struct {
	was, left limit.Tokens
	until     int64
}

// spend uses some of it.
func (c *chunk) spend(t *rapid.T) {
	c.left -= limit.Tokens(rapid.Int64Range(0, int64(c.left)).Draw(t, "spent"))
}

// word says what a caller had, keeps or brings back, and wants.
func (c *chunk) word(t *rapid.T) limit.ChunkView {
	c.spend(t)
	v := limit.ChunkView{Was: c.was, Until: c.until, Keep: c.left}
	if rapid.Bool().Draw(t, "bring back") {
		v.Keep, v.Back = 0, c.left
	}
	if rapid.Bool().Draw(t, "borrow") {
		v.Want = limit.Tokens(rapid.Int64Range(1, 4_000_000).Draw(t, "want"))
		v.Least = limit.Tokens(rapid.Int64Range(0, 2_000_000).Draw(t, "least"))
		v.Life = rapid.Int64Range(1, limit.MaxChunkLife).Draw(t, "life")
	}
	return v
}

// took is what a caller makes of an answer.
func (c *chunk) took(v limit.ChunkView, out limit.Outcome) {
	*c = chunk{left: out.Lent}
	if out.Kept {
		c.left += v.Keep
	}
	if c.left > 0 {
		c.was, c.until = c.left, out.LentUntil
	}
}

type life struct {
	*rapid.T
	store anyStore
	epoch string
	sleep func(time.Duration)
	seen  map[string]int
	keys  []*lifeKey
	phase limit.Phase
	since int64
	now   int64
	gen   uint64
	slot  uint64
}

func (h *life) view(k *lifeKey) limit.View {
	v := viewOf(h.epoch, k.algorithm, k.floor, k.window)
	v.Phase, v.Since, v.Gen = h.phase, h.since, h.gen
	if k.hot {
		v.Hot, v.Gen, v.Share = true, k.gen, k.share
	}
	return v
}

// nameOf is a key of a life, all of which are of one client and so share a slot.
func (h *life) nameOf(a limit.Algorithm, i int, life int64) string {
	var hash [16]byte
	binary.BigEndian.PutUint64(hash[8:], uint64(life))
	return lua.Key(a, uint32(i), hash)
}

// bucketOf is a share of whole tokens.
func (h *life) bucketOf(k *lifeKey, tokens int64) limit.Bucket {
	return viewOf(h.epoch, k.algorithm, tokens, k.window).Floor
}

func (h *life) take(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "limits")
	from := rapid.IntRange(0, len(h.keys)-n).Draw(t, "first")
	h.ask(h.keys[from:from+n], rapid.Int64Range(1, 4).Draw(t, "cost"))
}

// takeAlone asks for one key, mostly of a bucket: what was borrowed of it comes back so.
func (h *life) takeAlone(t *rapid.T) {
	k := rapid.SampledFrom(h.keys[:3]).Draw(t, "key")
	h.ask([]*lifeKey{k}, rapid.Int64Range(1, 4).Draw(t, "cost"))
}

// ask makes one request on the store and on the reference.
func (h *life) ask(keys []*lifeKey, cost int64) {
	group := Group{Cost: limit.Tokens(cost) * limit.Token}
	var records []limit.Record
	var views []limit.View
	caller, borrows := 0, rapid.Bool().Draw(h.T, "with chunks")
	if borrows {
		caller = rapid.IntRange(0, 1).Draw(h.T, "caller")
	}
	for _, k := range keys {
		v := h.view(k)
		if k.algorithm == limit.Concurrency {
			h.slot++
			v.Slot = h.slot
		}
		if rapid.IntRange(0, 3).Draw(h.T, "own cost") == 0 {
			v.Cost = limit.Tokens(rapid.Int64Range(1, 6).Draw(h.T, "tokens")) * limit.Token
			h.seen["own cost"]++
		}
		if rapid.IntRange(0, 15).Draw(h.T, "debit") == 0 {
			v.Debit = limit.Token
		}
		if borrows && !k.algorithm.Counts() {
			v.Chunk = k.chunks[caller].word(h.T)
		}
		group.Limits = append(group.Limits, KeyView{Key: k.name, View: v})
		records, views = append(records, k.record), append(views, v)
	}
	if len(keys) == 1 && views[0].Chunk.Asked() && rapid.Bool().Draw(h.T, "decide nothing") {
		views[0].Cost, group.Limits[0].View.Cost, group.Cost = 0, 0, 0
		h.count("only brought back", views[0].Chunk.Was > 0)
	}
	got, now, err := h.store.Take(context.Background(), h.epoch, []Group{group})
	if err != nil {
		h.Fatal(err)
	}
	h.now = now
	out := make([]limit.Outcome, len(keys))
	allowed := limit.Take(records, views, group.Cost, now, out)
	if got[0].Allowed != allowed {
		h.Fatalf("allowed %v, want %v at %d: %+v, want %+v\n%+v", got[0].Allowed, allowed, now, got[0].Limits, out, group)
	}
	for i, k := range keys {
		if got[0].Limits[i] != out[i] {
			h.Fatalf("%v at %d: %+v, want %+v\nview %+v\nrecord %+v", k.algorithm, now, got[0].Limits[i], out[i], views[i], k.record)
		}
		k.record = records[i]
		h.count("hot", k.hot)
		h.count("retry", out[i].Retry > 0)
		if c := views[i].Chunk; borrows && !k.algorithm.Counts() {
			k.chunks[caller].took(c, out[i])
			h.count("lent", out[i].Lent > 0)
			h.count("kept", out[i].Kept && c.Keep > 0)
			h.count("brought back", out[i].Kept && c.Back > 0)
			h.count("lost", !out[i].Kept && c.Was > 0)
		}
	}
	h.count("allowed", allowed)
	h.count("denied", !allowed)
}

func (h *life) count(what string, seen bool) {
	if seen {
		h.seen[what]++
	}
}

func (h *life) apply(t *rapid.T) {
	k := rapid.SampledFrom(h.keys).Draw(t, "key")
	h.gen++
	c := limit.Change{View: h.view(k), Gen: h.gen, Share: h.bucketOf(k, rapid.Int64Range(0, 16).Draw(t, "share"))}
	if c.Cold = rapid.IntRange(0, 3).Draw(t, "cold") == 0; c.Cold {
		c.Share = c.View.Floor
	}
	if !k.algorithm.Counts() {
		c.Grant = limit.Tokens(rapid.Int64Range(0, 3).Draw(t, "grant")) * limit.Token
		if own := &k.chunks[0]; rapid.Bool().Draw(t, "bring back") {
			own.spend(t)
			c.View.Chunk = limit.ChunkView{Was: own.was, Until: own.until, Back: own.left}
			h.count("brought back with a change", own.left > 0)
			*own = chunk{}
		}
	} else if rapid.Bool().Draw(t, "from") {
		c.From = h.now/k.window.Microseconds() + rapid.Int64Range(0, 2).Draw(t, "window")
	}
	got, now, err := h.store.Apply(context.Background(), h.epoch, []Change{{Key: k.name, Change: c}})
	if err != nil {
		h.Fatal(err)
	}
	h.now = now
	record, want := limit.Apply(k.record, c, now)
	if got[0] != want {
		h.Fatalf("%v at %d: applied %+v, want %+v\nrecord %+v\nchange %+v", k.algorithm, now, got[0], want, k.record, c)
	}
	h.count("due", want.Due > 0)
	h.count("delayed by a window", record.Use != nil && record.Use.HeldLabel != 0)
	k.record = record
	k.hot, k.gen, k.share = !c.Cold, h.gen, c.Share
}

// changePhase: a region is cut off only by way of limbo.
func (h *life) changePhase(t *rapid.T) {
	to := limit.Phase(rapid.IntRange(0, 2).Draw(t, "phase"))
	if to == h.phase || h.phase == limit.Live && to == limit.Floor {
		return
	}
	h.phase, h.since = to, h.now
}

func (h *life) pause(t *rapid.T) {
	exponent := rapid.Float64Range(0, math.Log(2e8)).Draw(t, "log of microseconds")
	h.sleep(time.Duration(math.Exp(exponent)) * time.Microsecond)
}
