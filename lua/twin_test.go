package lua

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua/redistest"
)

var (
	twinOps  = flag.Int("twin.ops", 120_000, "operations of the twin test")
	twinSeed = flag.Uint64("twin.seed", 0, "seed of the twin test; 0 picks one and prints it")
)

// TestTwins runs generated calls on a real Redis and on package limit, given the
// time Redis reports: same answers, same records afterwards, same TTL. Records
// are planted that no history led to, wild numbers and nonsense included.
func TestTwins(t *testing.T) {
	seed := *twinSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay with -twin.seed=%d", seed)
	w := newTwins(t, seed)
	start := time.Now()
	for w.ops < *twinOps {
		w.step()
	}
	t.Logf("%d operations in %v: %v", w.ops, time.Since(start).Round(time.Millisecond), w.seen)
	for _, what := range []string{"allowed", "denied", "amnesia", "stale", "late", "released", "absent", "nonsense", "clock back", "wrong type"} {
		if w.seen[what] == 0 {
			t.Errorf("the generator never led to %q", what)
		}
	}
}

type twins struct {
	*testing.T
	*rand.Rand
	client *redis.Client
	s      *Scripts
	epoch  string
	stamp  uint32
	now    int64
	keys   []string
	views  []limit.Bucket
	ops    int
	seen   map[string]int
}

func newTwins(t *testing.T, seed uint64) *twins {
	server := redistest.Start(t)
	w := &twins{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), client: server.Client(t), seen: map[string]int{}}
	w.s = New(w.client)
	ctx := context.Background()
	for i := range 24 {
		var hash [16]byte
		binary.BigEndian.PutUint64(hash[:], uint64(i))
		w.keys = append(w.keys, Key(uint32(i%3), hash))
	}
	epoch, err := LearnEpoch(ctx, w.client, "twin")
	if err != nil {
		t.Fatal(err)
	}
	w.epoch, w.stamp = epoch, limit.Stamp(epoch)
	w.now, _ = limit.EpochBirth(epoch)
	for _, sc := range []script{w.s.take, w.s.apply} { // so that EVALSHA works below
		if err := w.client.Eval(ctx, sc.source, []string{EpochKey}, "another").Err(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// step is one script call and its check.
func (w *twins) step() {
	w.plant()
	first := w.header()
	if w.IntN(3) > 0 {
		groups := make([]Group, 1+w.IntN(12))
		for i := range groups {
			groups[i] = w.group(first)
		}
		w.take(groups)
		return
	}
	changes := make([]Change, 1+w.IntN(8))
	for i := range changes {
		changes[i] = w.change(first)
	}
	w.apply(changes)
}

// plant sets or deletes a few keys.
func (w *twins) plant() {
	ctx := context.Background()
	pipe := w.client.Pipeline()
	for range w.IntN(5) {
		key := w.keys[w.IntN(len(w.keys))]
		switch w.IntN(12) {
		case 0, 1, 2:
			pipe.Del(ctx, key)
		case 3:
			nonsense := []string{"", "c", "h 1 2 3", "c 00000000 -1 2 3", "x 00000000 1 2 3", "c 00000000 1 2 3 ",
				"c 0 9007199254740993 1 1", fmt.Sprintf("c %08x 1 2 1000000", w.stamp),
				fmt.Sprintf("h %08x 1 2 3 4 5 6", w.stamp), fmt.Sprintf("c %08x 1 99999999999999999999 3", w.stamp)}
			pipe.Set(ctx, key, nonsense[w.IntN(len(nonsense))], 0)
		case 4:
			pipe.Del(ctx, key)
			pipe.LPush(ctx, key, "a list")
		default:
			pipe.Set(ctx, key, FormatRecord(w.record()), 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		w.Fatal(err)
	}
}

// amount is a number of any size up to most, the ends included.
func (w *twins) amount(most int64) int64 {
	switch w.IntN(8) {
	case 0:
		return 0
	case 1:
		return most
	case 2:
		return most - w.Int64N(min(most, 3)+1)
	default:
		return w.Int64N(most>>w.IntN(50) + 1)
	}
}

func (w *twins) bucket() limit.Bucket {
	b := limit.Bucket{Cap: limit.Tokens(w.amount(int64(limit.MaxTokens)))}
	if w.IntN(4) > 0 { // ordinary: 0 to 1000 requests, 1 s to 3 h to fill
		b.Cap = limit.Tokens(w.Int64N(1000)) * limit.Token
		b.Rate.Micro = int64(b.Cap) / (1 + w.Int64N(10_000))
	} else {
		b.Rate.Micro = w.amount(int64(limit.MaxTokens))
	}
	b.Rate.Frac = w.amount(999_999)
	return b
}

// near is an instant before or after now, mostly close.
func (w *twins) near() int64 {
	switch w.IntN(10) {
	case 0:
		return 0
	case 1:
		return w.amount(limit.MaxExact)
	}
	d := w.Int64N(1 << (1 + w.IntN(45)))
	if w.IntN(4) == 0 {
		d = -d
	}
	return max(0, w.now-d)
}

// gen is from a small range, so that generations meet, or huge.
func (w *twins) gen() uint64 {
	if w.IntN(50) == 0 {
		return uint64(limit.MaxExact - w.Int64N(3))
	}
	return 1 + w.Uint64N(6)
}

func (w *twins) record() limit.Record {
	r := limit.Record{Hot: w.IntN(3) > 0, Stamp: w.stamp, At: w.near(), Carry: w.amount(999_999)}
	if w.IntN(10) == 0 {
		r.Stamp = w.Uint32()
	}
	if w.IntN(2) == 0 {
		r.Gen = w.gen()
	}
	r.Share = w.shared()
	r.Tokens = limit.Tokens(w.amount(int64(limit.MaxTokens)))
	if w.IntN(4) > 0 {
		r.Tokens = limit.Tokens(w.amount(int64(r.Share.Cap)))
	}
	if !r.Hot {
		r.Share = limit.Bucket{}
	} else {
		r.Gen = max(1, r.Gen)
	}
	return r
}

// shared is a bucket that records and views often have in common.
func (w *twins) shared() limit.Bucket {
	if len(w.views) < 6 {
		w.views = append(w.views, w.bucket())
	}
	i := w.IntN(len(w.views))
	if w.IntN(100) == 0 {
		w.views[i] = w.bucket()
	}
	return w.views[i]
}

func (w *twins) header() limit.View {
	v := limit.View{Phase: limit.Phase(w.IntN(3)), Since: w.near(), Until: w.near(), Stamp: w.stamp}
	if w.IntN(3) > 0 {
		v.Until = w.now + w.Int64N(1e9)
	}
	if w.IntN(3) == 0 {
		v.Birth = w.near()
	}
	return v
}

func (w *twins) view(first limit.View) limit.View {
	v := first
	v.Gen, v.Floor = w.gen()-1, w.shared()
	if w.IntN(2) == 0 {
		v.Hot, v.Gen, v.Share = true, w.gen(), w.shared()
	}
	if w.IntN(8) == 0 {
		v.Debit = limit.Tokens(w.amount(limit.MaxExact))
	}
	return v
}

func (w *twins) group(first limit.View) Group {
	g := Group{Cost: limit.Tokens(1 + w.Int64N(20))}
	if w.IntN(3) > 0 {
		g.Cost *= limit.Token
	} else if w.IntN(10) == 0 {
		g.Cost = limit.Tokens(1 + w.amount(limit.MaxExact-1))
	}
	for _, k := range w.Perm(len(w.keys))[:1+w.IntN(3)] {
		g.Limits = append(g.Limits, KeyView{Key: w.keys[k], View: w.view(first)})
	}
	return g
}

func (w *twins) change(first limit.View) Change {
	c := Change{Key: w.keys[w.IntN(len(w.keys))], Change: limit.Change{View: w.view(first), Gen: w.gen(), Share: w.shared()}}
	if w.IntN(2) == 0 {
		c.Grant = limit.Tokens(w.amount(limit.MaxExact))
	}
	switch w.IntN(8) { // most changes have none, or are in time
	case 0:
		c.Deadline = max(1, w.now-1_000_000)
	case 1:
		c.Deadline = w.now + 1_000_000_000
	}
	if c.Cold = w.IntN(4) == 0; c.Cold && w.IntN(2) == 0 {
		c.Share = c.View.Floor
	}
	return c
}

// call runs one script between two readings of all keys, in one transaction, in
// which Redis lets no key expire half-way.
func (w *twins) call(sc script, args []any) (before map[string]limit.Record, reply []any, after, ttl []redis.Cmder) {
	ctx := context.Background()
	pipe := w.client.TxPipeline()
	var was []*redis.StringCmd
	for _, key := range w.keys {
		was = append(was, pipe.Get(ctx, key))
	}
	args[0], args[1] = "evalsha", sc.sha
	cmd := pipe.Do(ctx, args...)
	for _, key := range w.keys {
		after = append(after, pipe.Get(ctx, key))
		ttl = append(ttl, pipe.PTTL(ctx, key))
	}
	pipe.Exec(ctx)
	reply, err := cmd.Slice()
	if err != nil {
		w.Fatal(err)
	}
	before = map[string]limit.Record{}
	for i, key := range w.keys {
		text, err := was[i].Result()
		switch {
		case err == redis.Nil:
			before[key] = limit.Record{}
			w.seen["absent"]++
		case err != nil:
			before[key] = limit.Untrusted()
			w.seen["wrong type"]++
		default:
			r, ok := ParseRecord(text)
			if before[key] = r; !ok {
				w.seen["nonsense"]++
			}
		}
	}
	return before, reply, after, ttl
}

// same checks the records that were to be written, and that no other was.
func (w *twins) same(before, want map[string]limit.Record, floors map[string]limit.Bucket, after, ttl []redis.Cmder) {
	for i, key := range w.keys {
		text, err := after[i].(*redis.StringCmd).Result()
		r, written := want[key]
		if !written {
			r = before[key]
			if r.Absent() || r == limit.Untrusted() {
				continue
			}
		}
		if err != nil || text != FormatRecord(r) {
			w.Fatalf("op %d: %s holds %q (%v), the twin %q, before %q",
				w.ops, key, text, err, FormatRecord(r), FormatRecord(before[key]))
		}
		if !written {
			continue
		}
		left := ttl[i].(*redis.DurationCmd).Val()
		wantTTL := time.Duration(limit.TTL(r.Tokens, floors[key])) * time.Millisecond
		if r.Hot && left >= 0 || !r.Hot && (left > wantTTL || left < wantTTL-time.Second) {
			w.Fatalf("op %d: %s has TTL %v, the twin %v: %q", w.ops, key, left, wantTTL, text)
		}
	}
}

func (w *twins) take(groups []Group) {
	h, err := checkGroups(w.epoch, groups)
	if err != nil {
		w.Fatal(err)
	}
	before, reply, after, ttl := w.call(w.s.take, takeArgs(w.epoch, &h, groups))
	results, now, err := readTake(nil, reply, groups)
	if err != nil {
		w.Fatal(err)
	}
	w.now = now
	state, floors := map[string]limit.Record{}, map[string]limit.Bucket{}
	for i, g := range groups {
		w.ops++
		var records []limit.Record
		var views []limit.View
		for _, l := range g.Limits {
			r, ok := state[l.Key]
			if !ok {
				r = before[l.Key]
			}
			if r.Stamp == w.stamp && r.At > now {
				w.seen["clock back"]++
			}
			records, views = append(records, r), append(views, l.View)
		}
		was := slices.Clone(records)
		out := make([]limit.Outcome, len(records))
		allowed := limit.Take(records, views, g.Cost, now, out)
		if allowed != results[i].Allowed || !slices.Equal(out, results[i].Limits) {
			w.Fatalf("op %d: redis %+v\ntwin %v %+v\nrecords %+v\nviews %+v\ncost %d now %d",
				w.ops, results[i], allowed, out, was, views, g.Cost, now)
		}
		w.seen[map[bool]string{true: "allowed", false: "denied"}[allowed]]++
		for j, l := range g.Limits {
			state[l.Key], floors[l.Key] = records[j], l.View.Floor
			if out[j].Amnesia {
				w.seen["amnesia"]++
			}
		}
	}
	w.same(before, state, floors, after, ttl)
}

func (w *twins) apply(changes []Change) {
	h, err := checkChanges(w.epoch, changes)
	if err != nil {
		w.Fatal(err)
	}
	before, reply, after, ttl := w.call(w.s.apply, applyArgs(w.epoch, &h, changes))
	applied, now, err := readApply(nil, reply, len(changes))
	if err != nil {
		w.Fatal(err)
	}
	w.now = now
	state, floors := map[string]limit.Record{}, map[string]limit.Bucket{}
	for i, c := range changes {
		w.ops++
		r, ok := state[c.Key]
		if !ok {
			r = before[c.Key]
		}
		written, a := limit.Apply(r, c.Change, now)
		if a != applied[i] {
			w.Fatalf("op %d: redis %+v\ntwin %+v\nrecord %+v\nchange %+v\nnow %d", w.ops, applied[i], a, r, c, now)
		}
		if a.Late {
			w.seen["late"]++
		} else if a.Stale {
			w.seen["stale"]++
		} else {
			state[c.Key], floors[c.Key] = written, c.View.Floor
		}
		if a.Released > 0 {
			w.seen["released"]++
		}
	}
	w.same(before, state, floors, after, ttl)
}
