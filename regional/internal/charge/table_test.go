package charge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

const noon = budget.Instant(12 * time.Hour)

// keyName is a name and key of a number.
func keyName(n uint64) ([]byte, budget.KeyID) {
	name := binary.BigEndian.AppendUint64(nil, n)
	k := budget.KeyID{Rule: 1}
	copy(k.Hash[:], name)
	return name, k
}

// come lets a key come so often.
func come(t *Table, n uint64, times int, now budget.Instant) (e *Entry) {
	name, key := keyName(n)
	for range times {
		e = t.Admit(name, key, now)
	}
	return e
}

// use makes an entry busy at an instant.
func use(e *Entry, now budget.Instant) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.Chunk.Seen(limit.Token, now)
}

// TestEntryIsMadeForWhatComesOften, and found by its name and by its key.
func TestEntryIsMadeForWhatComesOften(t *testing.T) {
	table := NewTable()
	if e := come(table, 1, LocalWorth-1, noon); e != nil {
		t.Error("an entry for a key that has hardly come")
	}
	e := come(table, 1, 1, noon)
	name, key := keyName(1)
	if found, _ := table.Find(name); e == nil || found != e || table.OfKey(key) != e {
		t.Errorf("%p, found %p and %p", e, found, table.OfKey(key))
	}
}

// TestFloodOfKeys that come once makes entries for next to none of them, allocates
// nothing, and leaves those that are there alone.
func TestFloodOfKeys(t *testing.T) {
	table := NewTable()
	const busy = 1000
	for n := range uint64(busy) {
		use(come(table, n, 100, noon), noon)
	}
	name, key := keyName(0)
	n := uint64(1 << 32)
	flood := func() {
		n++
		binary.BigEndian.PutUint64(name, n)
		table.Admit(name, key, noon)
	}
	if allocated := testing.AllocsPerRun(300_000, flood); allocated != 0 {
		t.Errorf("%v allocations a key", allocated)
	}
	if made := len(table.ByKey) - busy; made > 300 {
		t.Errorf("%d entries were made", made)
	}
	for n := range uint64(busy) {
		name, _ := keyName(n)
		if e, _ := table.Find(name); e == nil {
			t.Fatalf("busy key %d has lost its entry", n)
		}
	}
}

// TestTableIsBounded: where a set is full, a key that comes more often takes the place of
// one that is idle, and of no other.
func TestTableIsBounded(t *testing.T) {
	table := NewTable()
	for n := range uint64(2 * localKeys) {
		if e := come(table, n, LocalWorth, noon); e != nil {
			use(e, noon)
		}
	}
	if n := len(table.ByKey); n > localKeys {
		t.Fatalf("%d entries", n)
	}
	var busy []*Entry
	for _, e := range table.ByKey {
		busy = append(busy, e)
	}
	for n := range uint64(localKeys) {
		come(table, n+1<<40, LocalWorth+4, noon)
	}
	for _, e := range busy {
		if table.OfKey(e.Key) != e {
			t.Fatal("a busy key was evicted")
		}
	}
	before := table.made
	later := noon.Add(time.Second)
	for n := range uint64(1000) {
		come(table, n+1<<41, 30, later)
	}
	if table.made-before < 500 {
		t.Errorf("of 1,000 keys that come more often than those that are idle, %d got an entry", table.made-before)
	}
	if n := len(table.ByKey); n > localKeys {
		t.Errorf("%d entries", n)
	}
}

// TestEndOfAllChunks: what is decided afterwards asks the store.
func TestEndOfAllChunks(t *testing.T) {
	for _, drop := range []bool{false, true} {
		table := NewTable()
		e := come(table, 1, LocalWorth, noon)
		e.Chunk.Seen(limit.Token, noon)
		e.Chunk.Seen(limit.Token, noon)
		_, trip := e.Chunk.Bring(limit.Token, prefetch.Terms{Lends: true}, noon)
		out := limit.Outcome{Lent: 10 * limit.Token, LentUntil: 200_000, LentFor: 100_000, Tokens: 10 * limit.Token}
		e.Chunk.Took(trip, true, out, 100_000, noon)
		if e.Chunk.Look(limit.Token, noon) != prefetch.Holds {
			t.Fatal("nothing was borrowed")
		}
		table.End(drop)
		if e.Chunk.Look(limit.Token, noon) != prefetch.Ask || (e.Chunk.Left() == 0) != drop {
			t.Errorf("drop %t: %v, %d left", drop, e.Chunk.Look(limit.Token, noon), e.Chunk.Left())
		}
	}
}

// TestNamesAreApart: a namespace, a rule's number and values never run into one another.
func TestNamesAreApart(t *testing.T) {
	set, _, err := rules.Parse("rules.yaml", []byte("rules:\n  - id: r0\n    key: [a, b]\n    params: {capacity: 9, refill_rate: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, namespace := range []string{"", "x", "xy"} {
		for _, number := range []uint32{1, 2, 1 | policy.IndependentBit} {
			for _, values := range [][2]string{{"", ""}, {"y", ""}, {"", "y"}, {"yz", ""}, {"y", "z"}} {
				r := Request{Namespace: namespace, Attributes: rules.Attributes{{Name: "a", Value: values[0]}, {Name: "b", Value: values[1]}}}
				name := string(AppendName(nil, number, set.Rules()[0], &r))
				is := fmt.Sprint(namespace, number, values)
				if other, taken := seen[name]; taken {
					t.Errorf("%s and %s have one name", is, other)
				}
				seen[name] = is
			}
		}
	}
}

// TestLongNamesGetNoEntry: what a client sends does not decide how much memory is taken.
func TestLongNamesGetNoEntry(t *testing.T) {
	table := NewTable()
	for range 100 {
		if table.Admit(make([]byte, localName+1), budget.KeyID{}, noon) != nil {
			t.Fatal("an entry")
		}
	}
}

// TestChecksWaitForTheOneThatAsks: of a busy key one call is under way; the others are
// parked, and woken when it has landed, whatever came of it.
func TestChecksWaitForTheOneThatAsks(t *testing.T) {
	table := NewTable()
	e := come(table, 1, LocalWorth, noon)
	e.Shares = true
	use(e, noon)
	use(e, noon)
	groups := []*Transaction{{Asks: []Charge{{Borrowing: Borrowing{Local: e}}}}}
	var first, second Scratch
	var plan LocalPlan
	plan.add(e, limit.Token)
	if plan.Parks(&second, noon) {
		t.Error("parked though nothing is under way")
	}
	first.Claim(groups, noon)
	if second.Claim(groups, noon); len(first.claimed) != 1 || len(second.claimed) != 0 {
		t.Errorf("claimed %d and %d times", len(first.claimed), len(second.claimed))
	}
	if !plan.Parks(&second, noon) {
		t.Fatal("not parked")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	awaits := slices.Clone(second.awaits)
	second.Until = time.Now().Add(time.Minute)
	if err := second.WaitParked(ended); !errors.Is(err, ErrGone) {
		t.Errorf("%v for a caller that has gone", err)
	}
	second.awaits = awaits
	first.Unclaim(false)
	if err := second.WaitParked(t.Context()); err != nil || plan.Parks(&second, noon) {
		t.Errorf("%v, parked after the call", err)
	}
	// A call that brings nothing to others has nobody wait.
	e.Shares = false
	if first.Claim(groups, noon); len(first.claimed) != 0 {
		t.Error("claimed")
	}
}

// TestUseIsToldBeforeASecondTry: what was decided from memory reaches the machine also
// where the check that would have told it is put to the store again.
func TestUseIsToldBeforeASecondTry(t *testing.T) {
	e := &Entry{}
	use(e, noon)
	use(e, noon)
	e.Chunk.Bring(limit.Token, prefetch.Terms{Lends: true}, noon) // on its way
	g := &Transaction{Until: time.Now().Add(time.Hour), Asks: []Charge{{
		Limit: limit.Limit{Capacity: 10 * limit.Token}, Rule: &rules.Rule{}, Cost: limit.Token,
		Borrowing: Borrowing{Local: e, Left: 2 * limit.Token, admitted: 7 * limit.Token, denied: 3 * limit.Token},
	}}}
	seen := g.SettleHere(NewTable(), lua.Result{Limits: make([]limit.Outcome, 1)}, func() budget.Instant { return noon }, nil)
	if g.Awaits == nil {
		t.Fatal("it is not asked once more")
	}
	told := map[bool]int64{}
	for _, o := range seen {
		told[o.Usage.Admitted] += o.Usage.Cost
	}
	if told[true] != int64(7*limit.Token) || told[false] != int64(3*limit.Token) {
		t.Errorf("told %v", seen)
	}
}
