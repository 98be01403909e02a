package recall

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/budget"
	"aliquot/limit"
)

// fourSlots may be in use for a minute each.
var fourSlots = limit.Limit{Algorithm: limit.Concurrency, Capacity: 4 * limit.Token, Window: time.Minute}

// slotCharge asks for a slot of key 1 with a name, for ten seconds.
func slotCharge(name uint64, now budget.Instant) Charge {
	c := charge(fourSlots, 1, 1, now)
	c.Slot, c.Lasts, c.RhoPPM = name, 10*time.Second, 20_000
	return c
}

// storeGives tells the table that the store gave a slot to a reservation, after which so many are left.
func storeGives(t *Table, name uint64, left int, now budget.Instant) {
	var k Ticket
	c := slotCharge(name, now)
	t.Sent(&k, &c, now)
	t.Answered(&k, &c, true, slotsOutcome(left), Debt{}, int64(now)/1000, now)
}

func slotsOutcome(left int) limit.Outcome {
	return limit.Outcome{Tokens: limit.Tokens(left) * limit.Token, Bucket: limit.Bucket{Cap: fourSlots.Capacity}, Reset: 60_000_000}
}

// given gives out as many slots as there are, ten at most, named from first on.
func given(t *Table, first uint64, now budget.Instant) (n int) {
	for c := slotCharge(first, now); n < 10 && t.Decide([]Charge{c}, false, now, make([]limit.Outcome, 1)); n++ {
		c.Slot++
	}
	return n
}

func slotsTable() (*Table, budget.Instant) { return New(10, 0), 600 * second }

// carried returns the names of the slots that a call carries, and what it carries besides.
func carried(t *Table, now budget.Instant) (names []uint64, d Debt) {
	c := slotCharge(0, now)
	d = t.Carry(&c, t.Call(), now)
	for _, s := range d.Held {
		names = append(names, s.Slot)
	}
	return names, d
}

// TestSlotsAreGivenOut: without the store slots are given out as far as the store's answer leaves them. Those that it
// reported count until all have ended, those that are given out here until they end or are given back.
func TestSlotsAreGivenOut(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 2, now)
	if n := given(table, 10, now); n != 2 {
		t.Fatalf("%d given out where 2 were left", n)
	}
	if c := slotCharge(10, now); !table.Release(&c) {
		t.Error("a slot that was given out here is not known")
	}
	if n := given(table, 20, now); n != 1 {
		t.Errorf("%d given out after one was given back", n)
	}
	for at, want := range map[budget.Instant]int{now + 10*second: 0, now + 10*second + second/5: 2} {
		c := slotCharge(30, at)
		if left := table.look(&c, at).Tokens / limit.Token; int(left) != want {
			t.Errorf("%v after that %d are left, want %d", time.Duration(at-now), left, want)
		}
	}
	if c := slotCharge(30, now+61*second); table.look(&c, now+61*second).Tokens != 2*limit.Token {
		t.Error("the slots that the store reported are taken for ended, and its clock may be slow")
	}
	if n := given(table, 30, now+61*second+second/5); n != 4 {
		t.Errorf("%d of 4 given out when all have ended", n)
	}
	if n := given(New(10, 0), 1, 61*second); n != 0 {
		t.Errorf("%d of a key that may have been asked for before", n)
	}
	if n := given(New(10, 0), 1, 62*second); n != 4 {
		t.Errorf("%d of 4 of a key that nobody has asked for", n)
	}
}

// TestSlotsAreCarriedByName: the next call enters what was given out and is still held, with the time that is left of
// it. What the store has entered is not carried again, and counts by its answer.
func TestSlotsAreCarriedByName(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 3, now)
	given(table, 10, now)
	if c := slotCharge(11, now); !table.Release(&c) {
		t.Error("not released")
	}
	names, d := carried(table, now+4*second)
	if !slices.Equal(names, []uint64{10, 12}) || d.Amount != 0 {
		t.Fatalf("carried: %+v", d)
	}
	// 10.2 s less 4 s of a clock that may be slow by 2 %.
	if lasts := d.Held[0].Lasts; lasts != 6_324_000 {
		t.Errorf("for %d more microseconds", lasts)
	}
	table.Paid(keyOf(1), d, false) // its answer is lost
	if names, d = carried(table, now+4*second); !slices.Equal(names, []uint64{10, 12}) {
		t.Errorf("carried once more: %v", names)
	}
	var k Ticket
	c := slotCharge(20, now)
	table.Sent(&k, &c, now+4*second)
	table.Answered(&k, &c, true, slotsOutcome(0), d, int64(now+4*second)/1000, now+4*second)
	if names, _ := carried(table, now+5*second); names != nil || table.Owing() != 0 {
		t.Errorf("carried after it was entered: %v, %d keys owe", names, table.Owing())
	}
	if n := given(table, 30, now+15*second); n != 0 {
		t.Errorf("%d given out of a limit that the store has reported to be full", n)
	}
	if names, d := carried(table, now+80*second); names != nil || d.Amount != 0 {
		t.Errorf("carried when all have ended: %+v", d)
	}
}

// TestSlotOfACallWithoutAnAnswer: the caller of a call that was given up has the slot that the call asked for. It counts
// once, whether or not the store gave it out.
func TestSlotOfACallWithoutAnAnswer(t *testing.T) {
	for what, then := range map[string]func(*Table, *Ticket, *Charge, budget.Instant){
		"charged, after it was given up": func(t *Table, k *Ticket, c *Charge, now budget.Instant) {
			t.Answered(k, c, true, slotsOutcome(1), Debt{}, int64(now)/1000, now)
		},
		"not sent after all": func(t *Table, k *Ticket, c *Charge, now budget.Instant) { t.NotSent(k, c) },
		"lost":               func(t *Table, k *Ticket, c *Charge, now budget.Instant) { t.Lost(k, c, now+second/2) },
		"on its way":         func(*Table, *Ticket, *Charge, budget.Instant) {},
	} {
		table, now := slotsTable()
		storeGives(table, 1, 2, now)
		var k Ticket
		c := slotCharge(7, now)
		table.Sent(&k, &c, now)
		own := c
		own.Own = &k
		if !table.Decide([]Charge{own}, false, now, make([]limit.Outcome, 1)) {
			t.Fatalf("%s: its caller has no slot", what)
		}
		then(table, &k, &c, now)
		if n := given(table, 10, now); n != 1 {
			t.Errorf("%s: %d more given out, want 1", what, n)
		}
		names, _ := carried(table, now)
		if want := what != "charged, after it was given up"; slices.Contains(names, 7) != want {
			t.Errorf("%s: carried are %v", what, names)
		}
		if !table.Release(&c) || given(table, 20, now) != 1 {
			t.Errorf("%s: it is not free when it is given back", what)
		}
	}
}

// TestSlotsTakenBeforeTheFault: a slot that a reservation of this daemon took in the store is free when its holder gives
// it back, once, if the latest answer counts it for sure.
func TestSlotsTakenBeforeTheFault(t *testing.T) {
	table, now := slotsTable()
	for i := range 4 {
		storeGives(table, uint64(i+1), 3-i, now+budget.Instant(i)*second)
	}
	now += 3 * second
	if n := given(table, 10, now); n != 0 {
		t.Fatalf("%d given out of a limit that is full", n)
	}
	for range 2 {
		c := slotCharge(2, now)
		table.Release(&c)
	}
	if n := given(table, 10, now); n != 1 {
		t.Errorf("%d given out, one was given back, twice", n)
	}
	c := slotCharge(99, now)
	if table.Release(&c) || given(table, 20, now) != 0 {
		t.Error("a slot of nobody is free")
	}
	for what, unsure := range map[string]func(){
		"a call has left that releases it": func() {
			var k Ticket
			c := slotCharge(3, now)
			table.Releasing(&k, &c, now)
		},
		"it had ended at the latest answer": func() { storeGives(table, 5, 0, now+9*second+second/2) },
		"the store has other contents":      func() { table.HoldsUntil(now + 60*second); table.Emptied(now) },
	} {
		table, now = slotsTable()
		storeGives(table, 3, 0, now)
		unsure()
		if c := slotCharge(3, now); table.Release(&c) != (what == "it had ended at the latest answer") {
			t.Errorf("%s: %v", what, table.own)
		}
	}
}

// TestReleasesThatTheStoreAnswered: a slot that was released in the store is free in an outage after that, unless another
// answer came meanwhile: of two answers about a key the first may have been given last.
func TestReleasesThatTheStoreAnswered(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 1, now)
	var k Ticket
	c := slotCharge(1, now)
	table.Releasing(&k, &c, now+second)
	table.Adjusted(&k, &c, 2*limit.Token, 2*limit.Token, Debt{}, int64(now+second)/1000, now+second)
	if n := given(table, 10, now+second); n != 2 {
		t.Errorf("%d given out, the store said that 2 are left", n)
	}
	table, now = slotsTable()
	storeGives(table, 1, 1, now)
	table.Releasing(&k, &c, now+second)
	storeGives(table, 2, 0, now+2*second)
	table.Adjusted(&k, &c, 2*limit.Token, 2*limit.Token, Debt{}, int64(now+second)/1000, now+2*second)
	if n := given(table, 10, now+2*second); n != 0 {
		t.Errorf("%d given out by an answer that was overtaken", n)
	}
	table, now = slotsTable()
	storeGives(table, 1, 1, now)
	given(table, 10, now)
	_, d := carried(table, now)
	table.Releasing(&k, &c, now)
	storeGives(table, 2, 0, now+second)
	table.Adjusted(&k, &c, 2*limit.Token, 2*limit.Token, d, int64(now+second)/1000, now+second)
	if names, _ := carried(table, now+second); !slices.Equal(names, []uint64{10}) {
		t.Errorf("carried are %v: the answer that was overtaken may have been given before this one was entered", names)
	}
	table, now = slotsTable()
	storeGives(table, 1, 1, now)
	table.Releasing(&k, &c, now+second)
	table.HoldsUntil(now + 60*second)
	table.Emptied(now + second)
	table.Adjusted(&k, &c, 2*limit.Token, 2*limit.Token, Debt{}, int64(now+second)/1000, now+second)
	if n := given(table, 10, now+2*second); n != 1 {
		t.Errorf("%d given out by the answer about contents that are lost, one was left", n)
	}
}

// TestReleasesByOtherRights: the region's rights may have grown since the answer before the release. The release says how
// many slots are in use, whatever they are.
func TestReleasesByOtherRights(t *testing.T) {
	table, now := slotsTable()
	var k Ticket
	c := slotCharge(1, now)
	table.Sent(&k, &c, now)
	cutOff := limit.Outcome{Bucket: limit.Bucket{Cap: limit.Token}, Reset: 60_000_000} // of a right to one slot, 4 are in use
	table.Answered(&k, &c, false, cutOff, Debt{}, int64(now)/1000, now)
	table.Releasing(&k, &c, now+second)
	table.Adjusted(&k, &c, limit.Token, 3*limit.Token, Debt{}, int64(now+second)/1000, now+second)
	table.HoldsUntil(now + 60*second)
	table.Emptied(now + second)
	if m := table.Memory(&c, now+second); m == nil || m.Used != 3*limit.Token {
		t.Errorf("the store is told %+v, and it said that 3 are in use", m)
	}
}

// TestSlotsOfOtherContents: what was given out here is told to new contents of the store as well, and those that the
// earlier contents had count in them as before.
func TestSlotsOfOtherContents(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 2, now)
	given(table, 10, now)
	if c := slotCharge(1, now); !table.Release(&c) {
		t.Error("not released")
	}
	_, d := carried(table, now)
	table.HoldsUntil(now + 60*second)
	table.Emptied(now + second)
	var k Ticket
	c := slotCharge(20, now)
	table.Answered(&k, &c, false, slotsOutcome(0), d, 1, now+2*second) // of the earlier contents
	if names, _ := carried(table, now+3*second); !slices.Equal(names, []uint64{10, 11}) {
		t.Errorf("carried to the new contents: %v", names)
	}
	m := table.Memory(&c, now+3*second)
	if m == nil || m.Used != limit.Token || m.Rights != 4*limit.Token {
		t.Errorf("told: %+v, want one in use of 4", m)
	}
	if n := given(table, 30, now+3*second); n != 1 {
		t.Errorf("%d given out, want 1", n)
	}
}

// TestSlotsOfAShareThatChanges: nothing is given out until the store has answered, and then what it says is left.
func TestSlotsOfAShareThatChanges(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 2, now)
	table.Forget(keyOf(1), now+second)
	if n := given(table, 10, now+second); n != 0 {
		t.Errorf("%d given out while the share changes", n)
	}
	c := slotCharge(0, now)
	table.TellUse(&c, limit.Token, 3*limit.Token, int64(now+2*second)/1000, now+2*second)
	if n := given(table, 10, now+2*second); n != 1 {
		t.Errorf("%d given out where one is left", n)
	}
	if c = slotCharge(0, now+62*second); table.look(&c, now+62*second).Tokens != limit.Token {
		t.Error("slots that the store reported have ended too early")
	}
	table, now = slotsTable()
	storeGives(table, 1, 1, now)
	shorter := slotCharge(0, now+second)
	shorter.Limit.Window = 5 * time.Second
	var k Ticket
	table.Sent(&k, &shorter, now+second)
	table.Answered(&k, &shorter, false, slotsOutcome(1), Debt{}, int64(now+second)/1000, now+second)
	if got := table.look(&shorter, now+30*second).Tokens; got != limit.Token {
		t.Errorf("%d left: a rule with a shorter window has ended slots of before", got)
	}
}

// TestADenialSaysHowManySlotsAreInUse: the rights fall to 3 while 4 slots are in use. So the first slot that is given back
// makes no room.
func TestADenialSaysHowManySlotsAreInUse(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 1, now)
	storeGives(table, 2, 0, now+second)
	now += 2 * second
	var k Ticket
	c := slotCharge(50, now)
	table.Sent(&k, &c, now)
	out := slotsOutcome(-1)
	out.Bucket.Cap -= limit.Token
	table.Answered(&k, &c, false, out, Debt{}, int64(now)/1000, now)
	for i, want := range []int{0, 0, 1} {
		if i > 0 {
			if c := slotCharge(uint64(i), now); !table.Release(&c) {
				t.Errorf("slot %d is not known", i)
			}
		}
		if n := given(table, 60, now); n != want {
			t.Errorf("%d given back: %d given out, want %d", i, n, want)
		}
	}
}

// TestOwnSlotsAreBounded: the register of slots that were taken in the store has room again when some have ended.
func TestOwnSlotsAreBounded(t *testing.T) {
	table, now := slotsTable()
	for i := range uint64(maxOwn + 1) {
		c := slotCharge(i+1, now)
		c.Key = keyOf(i)
		table.took(&c, 1)
	}
	if table.owns != maxOwn {
		t.Fatalf("%d remembered", table.owns)
	}
	c := slotCharge(7, now)
	if table.took(&c, 1_000_000); table.owns != maxOwn {
		t.Errorf("searched again within a second: %d", table.owns)
	}
	if table.took(&c, 10_000_001); table.owns != 1 {
		t.Errorf("%d remembered after all others have ended", table.owns)
	}
}

// TestSlotsInUse draws lives of slots, with a store that is there or not, answers that are late or lost, and calls that
// the store decides although they were given up. At no instant are more slots in use than there are rights to; and the
// store has each slot once.
func TestSlotsInUse(t *testing.T) { rapid.Check(t, slotsLife) }

// slotsWorld is a store with four slots, a daemon, and who holds slots.
type slotsWorld struct {
	*rapid.T
	table   *Table
	now     budget.Instant
	record  limit.Record
	holders map[uint64]budget.Instant // until when each holds its slot
	later   []uint64                  // to be released in the store
	flights []*slotFlight
	names   uint64
}

// slotFlight is a call: decided by the store, answered, or neither yet.
type slotFlight struct {
	ticket    Ticket
	charge    Charge
	sent      budget.Instant
	debt      Debt
	decided   bool
	allowed   bool
	out       limit.Outcome
	stamp     int64
	given     bool // its caller was admitted without it
	abandoned bool
	release   uint64 // the slot that it releases; 0: it takes one
	adjusted  limit.Adjusted
}

func slotsLife(rt *rapid.T) {
	w := &slotsWorld{T: rt, table: New(10, 0), now: 100 * second, holders: map[uint64]budget.Instant{}}
	rt.Repeat(map[string]func(*rapid.T){
		"": w.check,
		"time passes": func(rt *rapid.T) {
			w.now += budget.Instant(rapid.Int64Range(1, int64(20*second)).Draw(rt, "by"))
			w.check(rt)
		},
		"a moment": func(rt *rapid.T) { w.now += budget.Instant(rapid.Int64Range(1, int64(second/10)).Draw(rt, "by")) },
		"take":     func(*rapid.T) { w.send(0) },
		"decide": func(rt *rapid.T) {
			if f := w.flight(rt); f != nil && !f.decided && w.now <= f.sent+second/2 {
				w.store(f)
			}
		},
		"answer": func(rt *rapid.T) {
			if f := w.flight(rt); f != nil && f.decided {
				w.answer(f)
			}
		},
		"give up": func(rt *rapid.T) {
			if f := w.flight(rt); f != nil && !f.given && f.release == 0 {
				f.given = true
				c := w.charge(f.charge.Slot)
				c.Own = &f.ticket
				w.decide(c)
			}
		},
		"lose": func(rt *rapid.T) {
			if f := w.flight(rt); f != nil && !f.abandoned {
				f.abandoned = true
				w.table.Paid(keyOf(1), f.debt, false)
				if f.release == 0 {
					w.table.Lost(&f.ticket, &f.charge, f.sent+second/2)
				}
			}
		},
		"without the store": func(*rapid.T) { w.names++; w.decide(w.charge(w.names)) },
		"give back": func(rt *rapid.T) {
			if name := w.holder(rt); name != 0 {
				delete(w.holders, name)
				w.later = append(w.later, name)
				c := w.charge(name)
				w.table.Release(&c)
			}
		},
		"settle": func(rt *rapid.T) {
			if name := w.holder(rt); name != 0 {
				delete(w.holders, name)
				w.send(name)
			}
		},
		"release in the store": func(rt *rapid.T) {
			if len(w.later) > 0 {
				name := w.later[0]
				w.later = w.later[1:]
				w.send(name)
			}
		},
	})
}

func (w *slotsWorld) charge(name uint64) Charge {
	c := slotCharge(name, w.now)
	c.RhoPPM = 0 // one clock
	return c
}

func (w *slotsWorld) flight(rt *rapid.T) *slotFlight {
	if len(w.flights) == 0 {
		return nil
	}
	return w.flights[rapid.IntRange(0, len(w.flights)-1).Draw(rt, "call")]
}

func (w *slotsWorld) holder(rt *rapid.T) uint64 {
	var names []uint64
	for name := range w.holders {
		names = append(names, name)
	}
	if len(names) == 0 {
		return 0
	}
	slices.Sort(names)
	return names[rapid.IntRange(0, len(names)-1).Draw(rt, "holder")]
}

func (w *slotsWorld) send(release uint64) {
	f := &slotFlight{sent: w.now, release: release}
	if release == 0 {
		w.names++
		f.charge = w.charge(w.names)
	} else {
		f.charge = w.charge(release)
	}
	c := f.charge
	f.debt = w.table.Carry(&c, w.table.Call(), w.now)
	if release == 0 {
		w.table.Sent(&f.ticket, &c, w.now)
	} else {
		w.table.Releasing(&f.ticket, &c, w.now)
	}
	w.flights = append(w.flights, f)
}

func (w *slotsWorld) view(f *slotFlight) limit.View {
	return limit.View{
		Algorithm: limit.Concurrency, Window: fourSlots.Window.Microseconds(), Stamp: 7, Floor: limit.Bucket{Cap: fourSlots.Capacity},
		Phase: limit.Live, Until: limit.MaxExact, Slot: f.charge.Slot, Lasts: 10_000_000, Held: f.debt.Held, Debit: f.debt.Amount,
	}
}

func (w *slotsWorld) store(f *slotFlight) {
	f.decided, f.stamp = true, int64(w.now)/1000
	if f.release != 0 {
		r, out := limit.Adjust(w.record, limit.Adjustment{View: w.view(f), Window: fourSlots.Window.Microseconds()}, f.stamp)
		w.record, f.adjusted = r, out
		return
	}
	records, out := []limit.Record{w.record}, make([]limit.Outcome, 1)
	f.allowed = limit.Take(records, []limit.View{w.view(f)}, limit.Token, f.stamp, out)
	w.record, f.out = records[0], out[0]
}

func (w *slotsWorld) answer(f *slotFlight) {
	w.flights = slices.DeleteFunc(w.flights, func(o *slotFlight) bool { return o == f })
	if f.abandoned {
		return
	}
	if f.release != 0 {
		w.table.Adjusted(&f.ticket, &f.charge, f.adjusted.Tokens, f.adjusted.InUse, f.debt, f.stamp, w.now)
		return
	}
	w.table.Answered(&f.ticket, &f.charge, f.allowed, f.out, f.debt, f.stamp, w.now)
	if f.allowed && !f.given {
		w.holders[f.charge.Slot] = budget.Instant(f.stamp)*1000 + 10*second
	}
}

func (w *slotsWorld) decide(c Charge) {
	if w.table.Decide([]Charge{c}, false, w.now, make([]limit.Outcome, 1)) {
		w.holders[c.Slot] = w.now + 10*second
	}
}

func (w *slotsWorld) check(rt *rapid.T) {
	inUse := 0
	for name, until := range w.holders {
		if until <= w.now {
			delete(w.holders, name)
		} else {
			inUse++
		}
	}
	if inUse > 4 {
		rt.Fatalf("%d of 4 slots are in use: %v", inUse, w.holders)
	}
	if w.record.Use == nil {
		return
	}
	names := map[uint64]bool{}
	for _, e := range w.record.Use.Entries {
		if names[e.Slot] {
			rt.Fatalf("slot %d is twice in the record", e.Slot)
		}
		names[e.Slot] = true
	}
}

// TestNoSlotWhileAShareChanges: while a share changes in the store nobody knows how many slots it leaves, so one that is
// given back is not given out again.
func TestNoSlotWhileAShareChanges(t *testing.T) {
	table, now := slotsTable()
	storeGives(table, 1, 3, now)
	table.Forget(keyOf(1), now)
	if c := slotCharge(1, now); !table.Release(&c) {
		t.Fatal("the slot is not known")
	}
	if n := given(table, 10, now); n != 0 {
		t.Errorf("%d given out", n)
	}
}
