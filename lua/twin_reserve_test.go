package lua

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
)

// TestTwinsOfReservations is TestTwins for reservations and their settlements, with what
// is kept of them.
func TestTwinsOfReservations(t *testing.T) {
	w := newTwins(t, seedOf(t))
	for w.ops < *twinOps/4 {
		w.plant()
		first := w.header()
		if w.IntN(3) == 0 {
			w.reserve(first)
		} else {
			w.settle(first)
		}
	}
	t.Logf("%d operations: %v", w.ops, w.seen)
	for _, what := range []string{"kept", "denied: not kept", "no groups", "refunded", "less than the charge, by what was earned since", "no room", "spare", "charged", "indebted", "at the bound of debt",
		"a window's refund", "a log's refund", "slot released", "use above the rights", "amnesia", "expired reservation", "another text", "late"} {
		if w.seen[what] == 0 {
			t.Errorf("the generator never led to %q", what)
		}
	}
}

const twinReservation = "aq:{reservation}:r"

func (w *twins) reserve(first limit.View) {
	groups := make([]Group, w.IntN(4))
	for i := range groups {
		groups[i] = w.group(first)
	}
	r := Reservation{Key: twinReservation, Text: `{"of":"mine"}`, Keep: time.Minute, Decided: len(groups) > 0 && w.IntN(3) > 0}
	h, err := checkGroups(w.epoch, groups)
	if err != nil {
		w.Fatal(err)
	}
	ctx := context.Background()
	w.client.Del(ctx, r.Key)
	args := append(withKey(takeArgs(w.epoch, &h, groups), r.Key), r.Keep.Milliseconds(), r.Text, bit(r.Decided))
	c := w.call(w.s.reserve, args)
	w.took(groups, c)
	w.ops++
	w.count("no groups", len(groups) == 0)
	results, now, _ := readTake(nil, c.reply, groups)
	got, err := w.client.Get(ctx, r.Key).Result()
	if r.Decided && !results[0].Allowed {
		w.seen["denied: not kept"]++
		if err != redis.Nil {
			w.Fatalf("op %d: a denied reservation is kept: %q, %v", w.ops, got, err)
		}
		return
	}
	w.seen["kept"]++
	if want := NewKept(w.stamp, now, groups, results, r.Text).text; got != want {
		w.Fatalf("op %d: kept is %q, want %q", w.ops, got, want)
	}
	if end := w.client.PExpireTime(ctx, r.Key); !c.kept(end, r.Keep) {
		w.Fatalf("op %d: kept at %d until %v", w.ops, now, end.Val())
	}
}

func (w *twins) part(first limit.View, key string) Part {
	a := algorithmOfKey(key)
	p := Part{Key: key, Adjustment: limit.Adjustment{View: w.view(first, a), At: w.near(), Debt: limit.Tokens(w.amount(int64(limit.MaxTokens)))}}
	p.Reserved, p.Used = limit.Tokens(w.Int64N(40))*limit.Token, limit.Tokens(w.Int64N(40))*limit.Token
	if w.IntN(8) == 0 {
		p.Reserved, p.Used = limit.Tokens(w.amount(limit.MaxExact)), limit.Tokens(w.amount(limit.MaxExact))
	}
	if w.IntN(4) == 0 {
		p.Debt = limit.Tokens(w.Int64N(30)) * limit.Token
	}
	if !a.Counts() {
		if p.Denied = w.IntN(2) == 0; p.Denied {
			p.At, p.Room = max(0, w.now-w.Int64N(20_000_000)), limit.Tokens(w.Int64N(40))*limit.Token
		}
		return p
	}
	if p.Window = p.View.Window; w.IntN(8) == 0 {
		p.Window = w.window()
	}
	if a == limit.Concurrency {
		p.View.Slot = 1 + w.Uint64N(1<<30)
	}
	return p
}

// meet makes the part of what the key's record remembers, now and then.
func (w *twins) meet(p *Part) {
	text, err := w.client.Get(context.Background(), p.Key).Result()
	a := algorithmOfKey(p.Key)
	r, ok := ParseRecord(a, text)
	if err != nil || !ok || r.Use == nil || !a.Counts() || w.IntN(4) == 0 {
		return
	}
	if !a.Logs() {
		p.At = r.At
		if w.IntN(2) == 0 && r.Use.Window > 0 {
			p.At = max(0, r.At-r.Use.Window)
		}
		if r.Use.Window > 0 {
			p.View.Window, p.Window = r.Use.Window, r.Use.Window
		}
		return
	}
	if len(r.Use.Entries) == 0 {
		return
	}
	e := r.Use.Entries[w.IntN(len(r.Use.Entries))]
	if e.Slot > 0 {
		p.View.Slot = e.Slot
	} else if e.Until > p.View.Window && p.Window == p.View.Window {
		p.At = e.Until - p.View.Window
	}
}

func (w *twins) settle(first limit.View) {
	switch w.IntN(8) { // most have no deadline, or are in time
	case 0:
		first.Deadline = max(1, w.now-1_000_000)
	case 1:
		first.Deadline = w.now + 1_000_000_000
	}
	was := NewKept(w.stamp, w.now, nil, nil, "mine")
	end := Settlement{Key: twinReservation, Was: was, Ends: w.now + 1_000_000_000, Note: "used"}
	for _, k := range w.Perm(len(w.keys))[:w.IntN(4)] {
		p := w.part(first, w.keys[k])
		w.meet(&p)
		end.Parts = append(end.Parts, p)
	}
	kept := was.text
	switch w.IntN(12) {
	case 0:
		kept = was.Ended(w.now, nil, "before").text
	case 1:
		end.Ends = max(1, w.now-1_000_000)
	}
	h, err := checkSettlement(w.epoch, &end)
	if err != nil {
		w.Fatal(err)
	}
	ctx := context.Background()
	w.client.Set(ctx, end.Key, kept, time.Minute)
	keptUntil := w.client.PExpireTime(ctx, end.Key).Val()
	c := w.call(w.s.settle, settleArgs(w.epoch, &h, &end))
	w.ops++
	out, now, err := readSettle(c.reply, len(end.Parts))
	got := w.client.Get(ctx, end.Key).Val()
	if _, late := err.(*LateError); late || out.Changed || out.Expired {
		w.count("late", late)
		w.count("another text", out.Changed)
		w.count("expired reservation", out.Expired)
		if late != (h.deadline != 0 && h.deadline < w.now) || !late && out.Changed != (kept != was.text) || got != kept {
			w.Fatalf("op %d: %+v, %v; kept is %q", w.ops, out, err, got)
		}
		w.same(c, nil, nil)
		return
	}
	if err != nil || kept != was.text {
		w.Fatal(out, err)
	}
	w.now = now
	w.adjusted(&end, c, out.Adjusted)
	if want := was.Ended(now, out.Adjusted, end.Note).text; got != want {
		w.Fatalf("op %d: kept is %q, want %q", w.ops, got, want)
	}
	if got := w.client.PExpireTime(ctx, end.Key).Val(); got != keptUntil {
		w.Fatalf("op %d: kept until %v, not %v", w.ops, got, keptUntil)
	}
}

// adjusted checks what a settlement came to.
func (w *twins) adjusted(end *Settlement, c calling, got []limit.Adjusted) {
	state, last := map[string]limit.Record{}, map[string]limit.View{}
	var want []limit.Adjusted
	for _, p := range end.Parts {
		p.View.Heard = c.heard
		before := c.before[p.Key]
		r, a := limit.Adjust(before, p.Adjustment, w.now)
		state[p.Key], last[p.Key] = r, p.View
		want = append(want, a)
		back, counts := p.Reserved-p.Used, p.View.Algorithm.Counts()
		w.count("refunded", a.Refunded > 0)
		if p.Denied && a.Refunded > 0 {
			p.Denied = false
			_, all := limit.Adjust(before, p.Adjustment, w.now)
			w.count("less than the charge, by what was earned since", a.Refunded < all.Refunded)
		}
		w.count("spare", a.Spare > 0)
		w.count("no room", back > 0 && a.Refunded == 0 && !counts && !a.Amnesia)
		w.count("charged", a.Charged > 0)
		w.count("indebted", r.Tokens < 0)
		w.count("at the bound of debt", !counts && a.Charged > 0 && r.Tokens == -p.Debt && p.Debt > 0)
		w.count("a window's refund", a.Refunded > 0 && counts && !p.View.Algorithm.Logs())
		w.count("a log's refund", a.Refunded > 0 && p.View.Algorithm == limit.SlidingLog)
		w.count("slot released", a.Refunded > 0 && p.View.Algorithm == limit.Concurrency)
		w.count("use above the rights", a.Charged > 0 && counts && a.Tokens == 0)
		w.count("amnesia", a.Amnesia)
	}
	if !slices.Equal(got, want) {
		for i := range want {
			w.Logf("record %+v\npart %+v", c.before[end.Parts[i].Key], end.Parts[i])
		}
		w.Fatalf("op %d: redis %+v\ntwin  %+v\nnow %d", w.ops, got, want, w.now)
	}
	w.same(c, state, last)
}
