package lua

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aliquot/limit"
)

// The inputs that the twin test draws: records, buckets, views, requests and changes of all
// sizes, close to each other often enough to meet.

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
			pipe.Set(ctx, key, w.nonsense(algorithmOfKey(key)), 0)
		case 4:
			pipe.Del(ctx, key)
			pipe.LPush(ctx, key, "a list")
		default:
			a := algorithmOfKey(key)
			pipe.Set(ctx, key, FormatRecord(a, w.recordOf(a)), 0)
		}
	}
	switch w.IntN(30) {
	case 0, 1:
		pipe.Del(ctx, HeardKey)
	case 2:
		nonsense := []string{"", "0", "-1", "1e3", "x", " 1", "9007199254740992", "99999999999999999999"}
		pipe.Set(ctx, HeardKey, nonsense[w.IntN(len(nonsense))], 0)
	case 3:
		pipe.Del(ctx, HeardKey)
		pipe.LPush(ctx, HeardKey, "a list")
	case 4, 5, 6, 7, 8, 9, 10, 11:
		pipe.Set(ctx, HeardKey, strconv.FormatInt(max(1, w.near()), 10), 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		w.Fatal(err)
	}
}

func (w *twins) nonsense(a limit.Algorithm) string {
	texts := badCounted[limit.FixedWindow]
	switch {
	case a.Logs():
		texts = badCounted[limit.SlidingLog]
	case !a.Counts():
		texts = []string{"", "c", "h 1 2 3", "c 00000000 1 -2 3", fmt.Sprintf("c %08x -1000000000000001 2 3", w.stamp), fmt.Sprintf("c %08x --1 2 3", w.stamp), "x 00000000 1 2 3", "c 00000000 1 2 3 ",
			"c 0 9007199254740993 1 1", fmt.Sprintf("c %08x 1 2 1000000", w.stamp),
			fmt.Sprintf("h %08x 1 2 3 4 5 6", w.stamp), fmt.Sprintf("h %08x 1 2 3 4 5 6 7 ", w.stamp),
			fmt.Sprintf("h %08x 1 2 3 4 5 6 7 x", w.stamp), fmt.Sprintf("h %08x 1 2 3 4 5 6 7 1000000000000001", w.stamp), fmt.Sprintf("c %08x 1 99999999999999999999 3", w.stamp),
			fmt.Sprintf("l 0 5 c %08x 1 2 3", w.stamp), fmt.Sprintf("l 5 c %08x 1 2 3", w.stamp), fmt.Sprintf("l 1000000000000001 5 c %08x 1 2 3", w.stamp),
			fmt.Sprintf("l 5 9007199254740992 c %08x 1 2 3", w.stamp), fmt.Sprintf("l 5 6 l 5 6 c %08x 1 2 3", w.stamp), fmt.Sprintf("l -5 6 c %08x 1 2 3", w.stamp), "l 5 6 ", "l"}
	}
	return strings.ReplaceAll(texts[w.IntN(len(texts))], "0000000a", fmt.Sprintf("%08x", w.stamp))
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

// gen is from a small range of two epochs, so that generations meet, or huge.
func (w *twins) gen() uint64 {
	if w.IntN(50) == 0 {
		return uint64(limit.MaxExact - w.Int64N(3))
	}
	return w.Uint64N(2)<<32 + 1 + w.Uint64N(6)
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
	if w.IntN(6) == 0 {
		r.Tokens = -r.Tokens // owed
	}
	if !r.Hot {
		r.Share = limit.Bucket{}
	} else {
		r.Gen = max(1, r.Gen)
		if w.IntN(3) == 0 && r.Tokens >= 0 {
			r.Extra = limit.Tokens(w.amount(int64(limit.MaxTokens)))
		}
	}
	if w.IntN(3) == 0 {
		r.Lent, r.LentUntil = w.lent(), w.end()
	}
	return r
}

// lent is an amount above 0, from few sizes, so that records and views meet.
func (w *twins) lent() limit.Tokens {
	switch w.IntN(6) {
	case 0:
		return limit.Tokens(1 + w.amount(int64(limit.MaxTokens)-1))
	case 1:
		return limit.Tokens(1 + w.Int64N(20))
	default:
		return limit.Tokens(1+w.Int64N(20)) * limit.Token
	}
}

// end is one of few instants, mostly to come.
func (w *twins) end() int64 {
	if len(w.ends) < 4 || w.IntN(40) == 0 {
		end := w.now + w.Int64N(20_000_000)
		if w.IntN(4) == 0 {
			end = max(1, w.near())
		}
		w.ends = append(w.ends[max(0, len(w.ends)-3):], end)
	}
	return w.ends[w.IntN(len(w.ends))]
}

// chunk is what a caller had and wants of a bucket, now and then.
func (w *twins) chunk() (c limit.ChunkView) {
	if w.IntN(2) == 0 {
		c.Was, c.Until = w.lent(), w.end()
		switch part := limit.Tokens(w.amount(int64(c.Was))); w.IntN(4) {
		case 0:
		case 1:
			c.Back = part
		default:
			c.Keep = part
		}
	}
	if w.IntN(2) == 0 {
		c.Want, c.Life = w.lent(), 1+w.amount(limit.MaxChunkLife-1)
		if w.IntN(2) == 0 {
			c.Least = w.lent()
		}
	}
	return c
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
	v := limit.View{Known: w.gen() - 1, Phase: limit.Phase(w.IntN(3)), Since: w.near(), Until: w.near(), Stamp: w.stamp}
	if w.IntN(3) > 0 {
		v.Until = w.now + w.Int64N(1e9)
	}
	if w.IntN(3) == 0 {
		v.Birth = w.near()
	}
	if w.IntN(3) == 0 {
		v.FloorSince = w.near()
	}
	if w.IntN(2) == 0 {
		v.HeardWait = w.amount(HeardTTL.Microseconds())
	}
	v.Blind = w.IntN(2) == 0
	return v
}

// view is one of a key; that of a limit that counts says most for itself.
func (w *twins) view(first limit.View, a limit.Algorithm) limit.View {
	if a.Counts() {
		return w.countedView(first, a)
	}
	v := first
	v.Algorithm = a
	v.Gen, v.Floor = w.gen()-1, w.shared()
	if w.IntN(2) == 0 {
		v.Hot, v.Gen, v.Share = true, w.gen(), w.shared()
	}
	if w.IntN(2) == 0 {
		most := limit.MaxTokens - v.Floor.Cap
		v.Extra = min(most, limit.Tokens(w.IntN(4))*v.Floor.Cap)
		if w.IntN(4) == 0 {
			v.Extra = limit.Tokens(w.amount(int64(most)))
		}
	}
	if v.Low = w.shared().Min(v.Floor); w.IntN(4) == 0 {
		v.Low = v.Floor
	}
	v.LimboFloor = w.shared().Min(v.Floor)
	w.changed(&v, func() limit.Bucket { return w.bucket() })
	w.charges(&v)
	return v
}

// changed has the limit of a view changed, now and then; before draws what is known of it.
func (w *twins) changed(v *limit.View, before func() limit.Bucket) {
	if w.IntN(4) > 0 {
		return
	}
	v.RuleSince, v.Before = max(1, w.near()), before()
	if !v.Algorithm.Counts() {
		v.Slow = w.shared().Rate
	}
	if w.IntN(8) == 0 {
		v.Before.Cap = limit.MaxTokens // as where a limit was only raised
	}
}

// charges gives a view a debit and a cost of its own, now and then.
func (w *twins) charges(v *limit.View) {
	if w.IntN(8) == 0 {
		v.Memory = w.memory(v)
	}
	if w.IntN(8) == 0 {
		v.Debit = limit.Tokens(w.amount(limit.MaxExact))
	}
	switch w.IntN(8) {
	case 0, 1:
		v.Cost = limit.Tokens(1+w.Int64N(5)) * limit.Token
	case 2:
		v.Cost = limit.Tokens(1 + w.amount(limit.MaxExact-1))
	}
}

// memory is what a daemon may remember of a record.
func (w *twins) memory(v *limit.View) *limit.Memory {
	m := limit.Memory{Tokens: limit.Tokens(w.amount(int64(limit.MaxTokens))), Extra: limit.Tokens(w.amount(int64(limit.MaxTokens)))}
	m.Used, m.Rights, m.At = min(w.used(), limit.MaxTokens), limit.Tokens(w.Int64N(60))*limit.Token, w.near()
	if w.IntN(3) > 0 {
		m.Tokens, m.Extra = limit.Tokens(w.amount(int64(v.Floor.Cap))), limit.Tokens(w.amount(int64(v.Floor.Cap)))
		m.At = w.now - min(w.now, w.Int64N(3*v.Window+1))
	}
	if w.IntN(6) == 0 {
		m.Tokens = -m.Tokens
	}
	for range w.IntN(limit.MaxEarlier + 1) {
		m.Earlier = append(m.Earlier, limit.DatedUse{Used: min(w.used(), limit.MaxTokens), At: m.At - min(m.At, w.Int64N(3*v.Window+1))})
	}
	slices.SortFunc(m.Earlier, func(a, b limit.DatedUse) int { return cmp.Compare(a.At, b.At) })
	return &m
}

func (w *twins) group(first limit.View) Group {
	g := Group{Cost: limit.Tokens(1 + w.Int64N(20))}
	if w.IntN(3) > 0 {
		g.Cost *= limit.Token
	} else if w.IntN(10) == 0 {
		g.Cost = limit.Tokens(1 + w.amount(limit.MaxExact-1))
	}
	chunks := w.IntN(2) == 0
	for _, k := range w.Perm(len(w.keys))[:1+w.IntN(3)] {
		key := w.keys[k]
		v := w.view(first, algorithmOfKey(key))
		if chunks && !v.Algorithm.Counts() {
			v.Chunk = w.chunk()
		}
		if v.Algorithm == limit.Concurrency && w.IntN(10) > 0 {
			v.Slot = 1 + w.Uint64N(1<<(1+w.IntN(52)))
			if w.IntN(2) == 0 {
				v.Lasts = w.amount(2 * v.Window)
			}
		}
		g.Limits = append(g.Limits, KeyView{Key: key, View: v})
	}
	return g
}

func (w *twins) change(first limit.View) Change {
	key := w.keys[w.IntN(len(w.keys))]
	a := algorithmOfKey(key)
	c := Change{Key: key, Change: limit.Change{View: w.view(first, a), Gen: w.gen(), Share: w.shared()}}
	if a.Counts() {
		c.Share = w.rights(a)
		if w.IntN(2) == 0 {
			c.From = max(0, w.now/c.View.Window+w.Int64N(4)-1)
		}
	} else if w.IntN(2) == 0 {
		c.Grant = limit.Tokens(w.amount(limit.MaxExact))
	}
	if chunk := w.chunk(); !a.Counts() && w.IntN(3) == 0 {
		c.View.Chunk = limit.ChunkView{Was: chunk.Was, Until: chunk.Until, Back: chunk.Back}
	}
	if w.IntN(8) == 0 && c.View.Hot {
		c.Gen, c.Grant = c.View.Gen, 0
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
