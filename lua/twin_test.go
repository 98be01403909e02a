package lua

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
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
	w := newTwins(t, seedOf(t))
	start := time.Now()
	for w.ops < *twinOps {
		w.step()
	}
	t.Logf("%d operations in %v: %v", w.ops, time.Since(start).Round(time.Millisecond), w.seen)
	for _, what := range []string{"allowed", "denied", "amnesia", "stale", "late", "released", "a debt stays", "absent", "nonsense", "clock back", "wrong type",
		"extra spent", "extra left", "set apart", "earlier floor", "absent since a change of the floor", "fenced", "fenced and blind", "a later share of the same leader", "a later share of another limit", "a later share of long ago", "a later share of an earlier session", "a later share of another leader", "heard is nonsense", "lease", "no changes",
		"counted", "entries", "expired", "merged", "many entries", "blocked", "use outlasts a share", "held", "faded", "retry", "slots", "slots held", "a slot held before", "a slot asked for again", "a cost of its own",
		"lent", "lent to a few", "a loan is over", "brought back", "chunk kept", "not theirs", "lent by earlier contents", "remembered", "use remembered", "earlier use remembered", "another clock", "a loan outlasts a share", "asked again"} {
		if w.seen[what] == 0 {
			t.Errorf("the generator never led to %q", what)
		}
	}
}

// seedOf is the seed of a test of generated calls.
func seedOf(t *testing.T) uint64 {
	seed := *twinSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay with -twin.seed=%d", seed)
	return seed
}

// algorithm is that of the i-th key: half of them are token buckets.
func (w *twins) algorithm(i int) limit.Algorithm {
	if i%2 == 0 {
		return limit.TokenBucket
	}
	others := limit.Algorithms()[1:]
	return others[i/2%len(others)]
}

type twins struct {
	testing.TB
	*rand.Rand
	client *redis.Client
	s      *Scripts
	epoch  string
	stamp  uint32
	now    int64
	asked  time.Time // the store's clock at the end of the last call
	keys   []string
	views  []limit.Bucket
	ends   []int64 // of loans
	ops    int
	seen   map[string]int
}

func newTwins(t testing.TB, seed uint64) *twins {
	server := redistest.Start(t)
	w := &twins{TB: t, Rand: rand.New(rand.NewPCG(seed, 1)), client: server.Client(t), seen: map[string]int{}}
	w.s = New(w.client)
	ctx := context.Background()
	for i := range 36 {
		var hash [16]byte
		binary.BigEndian.PutUint64(hash[:], uint64(i))
		w.keys = append(w.keys, Key(w.algorithm(i), uint32(i%3), hash))
	}
	epoch, err := LearnEpoch(ctx, w.client, "twin", nil)
	if err != nil {
		t.Fatal(err)
	}
	w.epoch, w.stamp = epoch, limit.Stamp(epoch)
	w.now, _ = limit.EpochBirth(epoch)
	w.asked = w.client.Time(ctx).Val()
	for _, sc := range []script{w.s.take, w.s.mixed, w.s.apply, w.s.reserve, w.s.settle} { // so that EVALSHA works below
		if err := w.client.Eval(ctx, sc.source, []string{EpochKey, "-"}, "another", 1, 2, 3).Err(); err != nil {
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
	changes := make([]Change, w.IntN(9))
	for i := range changes {
		changes[i] = w.change(first)
	}
	w.apply(changes, w.IntN(4) == 0)
}

// calling is one script call between two readings of all keys.
type calling struct {
	before     map[string]limit.Record
	heard      int64 // before, as View.Heard; nonsense counts as the time of the call
	reply      []any
	after, end []redis.Cmder       // the texts, and when each expires
	heardText  [2]*redis.StringCmd // before and after
	heardEnd   *redis.DurationCmd
	from, to   time.Time // it ran between these, by the store's clock
}

// call runs one script in one transaction. It takes each key's end away first: a script of Redis 7.0 has a later
// time than the transaction it is in, so a key could expire between the two.
func (w *twins) call(sc script, args []any) (c calling) {
	ctx := context.Background()
	pipe := w.client.TxPipeline()
	var was []*redis.StringCmd
	for _, key := range w.keys {
		was = append(was, pipe.GetEx(ctx, key, 0)) // 0: PERSIST
	}
	c.heardText[0] = pipe.Get(ctx, HeardKey)
	args[0], args[1] = "evalsha", sc.sha
	cmd := pipe.Do(ctx, args...)
	for _, key := range w.keys {
		c.after = append(c.after, pipe.Get(ctx, key))
		c.end = append(c.end, pipe.PExpireTime(ctx, key))
	}
	c.heardText[1], c.heardEnd = pipe.Get(ctx, HeardKey), pipe.PExpireTime(ctx, HeardKey)
	clock := pipe.Time(ctx)
	pipe.Exec(ctx)
	c.from, c.to = w.asked, clock.Val()
	w.asked = c.to
	var err error
	if c.reply, err = cmd.Slice(); err != nil {
		w.Fatal(err)
	}
	c.heard = w.heardAt(c.heardText[0], c.reply)
	c.before = map[string]limit.Record{}
	for i, key := range w.keys {
		text, err := was[i].Result()
		switch {
		case err == redis.Nil:
			c.before[key] = limit.Record{}
			w.seen["absent"]++
		case err != nil:
			c.before[key] = limit.Untrusted()
			w.seen["wrong type"]++
		default:
			r, ok := ParseRecord(algorithmOfKey(key), text)
			if c.before[key] = r; !ok {
				w.seen["nonsense"]++
			}
		}
	}
	return c
}

// heardAt is what the store has to make of the text of HeardKey.
func (w *twins) heardAt(got *redis.StringCmd, reply []any) int64 {
	if got.Err() == redis.Nil {
		return 0
	}
	at, err := strconv.ParseInt(got.Val(), 10, 64)
	if got.Err() == nil && err == nil && at > 0 && at <= limit.MaxExact {
		return at
	}
	w.seen["heard is nonsense"]++
	return reply[0].(int64)
}

func algorithmOfKey(key string) limit.Algorithm {
	a, _ := algorithmOf(key)
	return a
}

// kept tells whether the call wrote a key that expires after d. The store counts whole milliseconds from when it
// writes the key, which on a busy machine may be long after it read the clock for the decision.
func (c *calling) kept(end *redis.DurationCmd, d time.Duration) bool {
	wrote := end.Val() - d // exact, also where end overflows
	return wrote > time.Duration(c.from.UnixNano())-time.Millisecond && wrote <= time.Duration(c.to.UnixNano())
}

// same checks the records that were to be written, with the last view of each, and that
// no other was.
func (w *twins) same(c calling, want map[string]limit.Record, views map[string]limit.View) {
	for i, key := range w.keys {
		text, err := c.after[i].(*redis.StringCmd).Result()
		r, written := want[key]
		if !written {
			r = c.before[key]
			if r.Absent() || r == limit.Untrusted() {
				continue
			}
		}
		a := algorithmOfKey(key)
		if err != nil || text != FormatRecord(a, r) {
			w.Fatalf("op %d: %s holds %q (%v), the twin %q, before %q",
				w.ops, key, text, err, FormatRecord(a, r), FormatRecord(a, c.before[key]))
		}
		if !written {
			continue
		}
		end := c.end[i].(*redis.DurationCmd)
		v := views[key]
		wantTTL := time.Duration(r.Keep(&v)) * time.Millisecond
		if r.Hot && end.Val() != -1 || !r.Hot && !c.kept(end, wantTTL) {
			w.Fatalf("op %d: %s expires at %v, the twin after %v: %q", w.ops, key, end.Val(), wantTTL, text)
		}
	}
}

func (w *twins) take(groups []Group) {
	h, err := checkGroups(w.epoch, groups)
	if err != nil {
		w.Fatal(err)
	}
	w.took(groups, w.call(w.s.takeOf(&h), takeArgs(w.epoch, &h, groups)))
}

// took checks what a take came to.
func (w *twins) took(groups []Group, c calling) {
	results, now, err := readTake(nil, c.reply, groups)
	if err != nil {
		w.Fatal(err)
	}
	w.now = now
	state, last := map[string]limit.Record{}, map[string]limit.View{}
	for i, g := range groups {
		w.ops++
		var records []limit.Record
		var views []limit.View
		for _, l := range g.Limits {
			r, ok := state[l.Key]
			if !ok {
				r = c.before[l.Key]
			}
			l.View.Heard = c.heard
			w.note(r, &l.View)
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
			state[l.Key], last[l.Key] = records[j], views[j]
			w.noteUse(was[j], records[j], &views[j], out[j])
			w.count("amnesia", out[j].Amnesia)
			w.count("extra spent", allowed && was[j].Extra > records[j].Extra && records[j].Hot)
			w.count("extra left", allowed && records[j].Extra > 0)
			w.noteLoan(&was[j], &records[j], &views[j], out[j])
		}
	}
	w.same(c, state, last)
}

// note counts what a call is about to meet.
func (w *twins) note(r limit.Record, v *limit.View) {
	if m := v.Memory; m != nil && r.Stamp != w.stamp {
		w.count("remembered", !v.Algorithm.Counts())
		w.count("use remembered", v.Algorithm.Counts() && m.Used > 0 && m.At <= w.now)
		w.count("earlier use remembered", v.Algorithm.Counts() && len(m.Earlier) > 1)
		w.count("another clock", v.Algorithm.Counts() && m.At > w.now+v.Window)
	}
	w.count("clock back", r.Stamp == w.stamp && r.At > w.now)
	w.count("earlier floor", r.Stamp == w.stamp && r.At < v.FloorSince)
	w.count("absent since a change of the floor", r.Absent() && !v.Hot && v.Birth == 0 && v.FloorSince != 0)
	later := r.Hot && r.Stamp == w.stamp && v.Hot && r.Gen > v.Gen && v.Phase == limit.Live && w.now <= v.Until
	same := later && r.Gen > v.Known && r.Gen>>32 == v.Known>>32
	w.count("a later share of the same leader", same && r.At >= v.RuleSince && w.now-r.At <= 1_000_000)
	w.count("a later share of another limit", same && r.At < v.RuleSince && w.now-r.At <= 1_000_000)
	w.count("a later share of long ago", same && r.At >= v.RuleSince && w.now-r.At > 1_000_000)
	w.count("a later share of an earlier session", later && r.Gen <= v.Known)
	w.count("a later share of another leader", later && r.Gen>>32 > v.Known>>32)
	w.count("fenced and blind", v.Blind && v.Phase == limit.Floor && w.now < v.Since)
	w.count("fenced", v.Phase == limit.Floor && w.now >= v.Since && v.Heard != 0 && w.now < v.Heard+v.HeardWait)
}

// noteLoan counts what a take of a bucket lent and was brought.
func (w *twins) noteLoan(was, is *limit.Record, v *limit.View, out limit.Outcome) {
	w.count("lent", out.Lent > 0)
	w.count("lent to a few", out.Lent > 0 && is.Lent > out.Lent+v.Chunk.Keep)
	w.count("a loan is over", was.Lent > 0 && is.Lent == 0 && !out.Kept)
	w.count("brought back", out.Kept && v.Chunk.Back > 0)
	w.count("chunk kept", out.Kept && v.Chunk.Keep > 0)
	w.count("not theirs", v.Chunk.Was > 0 && !out.Kept && is.Lent > 0)
	w.count("lent by earlier contents", is.Lent == limit.MaxTokens && w.now < v.Birth)
}

// noteUse counts what a take of a limit that counts met.
func (w *twins) noteUse(was, is limit.Record, v *limit.View, out limit.Outcome) {
	w.count("a cost of its own", v.Cost > 0)
	if !v.Algorithm.Counts() {
		return
	}
	w.count("counted", true)
	w.count("retry", out.Retry > 0)
	w.count("slots", v.Slot > 0 && out.Retry == 0)
	if is.Use == nil {
		return
	}
	before := 0
	if was.Use != nil {
		before = len(was.Use.Entries)
	}
	n := len(is.Use.Entries)
	for _, s := range v.Held {
		known := was.Use != nil && slices.ContainsFunc(was.Use.Entries, func(e limit.Entry) bool { return e.Slot == s.Slot && e.Until > w.now })
		w.count("slots held", !known)
		w.count("a slot held before", known)
	}
	w.count("a slot asked for again", v.Slot > 0 && was.Use != nil && slices.ContainsFunc(was.Use.Entries, func(e limit.Entry) bool { return e.Slot == v.Slot && e.Until > w.now }))
	w.count("blocked", is.Use.Free > 0)
	w.count("entries", n > 1)
	w.count("expired", n < before)
	w.count("merged", n > 0 && n == before)
	w.count("many entries", n >= limit.MaxEntries)
	w.count("faded", v.Algorithm == limit.SlidingCounter && is.Use.Prev > 0)
}

func (w *twins) count(what string, seen bool) {
	if seen {
		w.seen[what]++
	}
}

func (w *twins) apply(changes []Change, lease bool) {
	h, err := checkChanges(w.epoch, changes)
	if err != nil {
		w.Fatal(err)
	}
	c := w.call(w.s.apply, applyArgs(w.epoch, &h, changes, lease))
	applied, now, err := readApply(nil, c.reply, changes)
	if err != nil {
		w.Fatal(err)
	}
	w.now = now
	w.count("no changes", len(changes) == 0)
	state, last := map[string]limit.Record{}, map[string]limit.View{}
	for i, change := range changes {
		w.ops++
		r, ok := state[change.Key]
		if !ok {
			r = c.before[change.Key]
		}
		change.View.Heard = c.heard
		w.note(r, &change.View)
		written, a := limit.Apply(r, change.Change, now)
		if a != applied[i] {
			w.Fatalf("op %d: redis %+v\ntwin %+v\nrecord %+v\nchange %+v\nnow %d", w.ops, applied[i], a, r, change, now)
		}
		w.count("late", a.Late)
		w.count("stale", a.Stale)
		w.count("released", a.Released > 0)
		w.count("a debt stays", a.Tokens < 0)
		w.count("set apart", !r.Hot && written.Hot && written.Extra > 0)
		if !a.Late && !a.Stale {
			state[change.Key], last[change.Key] = written, change.View
			w.count("use outlasts a share", a.Due > 0 && change.View.Algorithm.Counts())
			w.count("a loan outlasts a share", a.Due > 0 && !change.View.Algorithm.Counts())
			w.count("asked again", r.Gen == written.Gen && !change.View.Algorithm.Counts() && !a.Amnesia)
			w.count("held", written.Use != nil && written.Use.HeldLabel != 0)
		}
	}
	w.same(c, state, last)
	want := c.heardText[0].Val()
	if lease {
		w.seen["lease"]++
		want = strconv.FormatInt(now, 10)
		if !c.kept(c.heardEnd, HeardTTL) {
			w.Fatalf("op %d: a lease at %d left heard until %v", w.ops, now, c.heardEnd.Val())
		}
	}
	if got := c.heardText[1].Val(); got != want {
		w.Fatalf("op %d: lease %v at %d: heard is %q, want %q", w.ops, lease, now, got, want)
	}
}
