package charge_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/charge/chargetest"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// TestEntryIsMadeForWhatComesOften, and found by its name and by its key.
func TestEntryIsMadeForWhatComesOften(t *testing.T) {
	table := charge.NewTable()
	if e := chargetest.Arrive(table, 1, charge.AdmitAfter-1, chargetest.Noon); e != nil {
		t.Error("an entry for a key that has hardly come")
	}
	e := chargetest.Arrive(table, 1, 1, chargetest.Noon)
	name, key := chargetest.KeyName(1)
	if found, _ := table.Find(name); e == nil || found != e || table.ByKey(key) != e {
		t.Errorf("%p, found %p and %p", e, found, table.ByKey(key))
	}
}

// TestFloodOfKeys that come once makes entries for next to none of them, allocates
// nothing, and leaves those that are there alone.
func TestFloodOfKeys(t *testing.T) {
	table := charge.NewTable()
	const busy = 1000
	for n := range uint64(busy) {
		chargetest.Use(chargetest.Arrive(table, n, 100, chargetest.Noon), chargetest.Noon)
	}
	name, key := chargetest.KeyName(0)
	n := uint64(1 << 32)
	flood := func() {
		n++
		binary.BigEndian.PutUint64(name, n)
		table.Admit(name, key, chargetest.Noon)
	}
	if allocated := testing.AllocsPerRun(300_000, flood); allocated != 0 {
		t.Errorf("%v allocations a key", allocated)
	}
	if made := table.Keys() - busy; made > 300 {
		t.Errorf("%d entries were made", made)
	}
	for n := range uint64(busy) {
		name, _ := chargetest.KeyName(n)
		if e, _ := table.Find(name); e == nil {
			t.Fatalf("busy key %d has lost its entry", n)
		}
	}
}

// TestTableIsBounded: where a set is full, a key that comes more often takes the place of
// one that is idle, and of no other.
func TestTableIsBounded(t *testing.T) {
	const keys = 65_536
	table := charge.NewTable()
	var busy []*charge.Entry
	for n := range uint64(2 * keys) {
		if e := chargetest.Arrive(table, n, charge.AdmitAfter, chargetest.Noon); e != nil {
			chargetest.Use(e, chargetest.Noon)
			busy = append(busy, e)
		}
	}
	if n := table.Keys(); n > keys {
		t.Fatalf("%d entries", n)
	}
	for n := range uint64(keys) {
		chargetest.Arrive(table, n+1<<40, charge.AdmitAfter+4, chargetest.Noon)
	}
	for _, e := range busy {
		if table.ByKey(e.Key) != e {
			t.Fatal("a busy key was evicted")
		}
	}
	made := 0
	later := chargetest.Noon.Add(time.Second)
	for n := range uint64(1000) {
		if chargetest.Arrive(table, n+1<<41, 30, later) != nil {
			made++
		}
	}
	if made < 500 {
		t.Errorf("of 1,000 keys that come more often than those that are idle, %d got an entry", made)
	}
	if n := table.Keys(); n > keys {
		t.Errorf("%d entries", n)
	}
}

// TestEndOfAllChunks: what is decided afterwards asks the store.
func TestEndOfAllChunks(t *testing.T) {
	for _, drop := range []bool{false, true} {
		table := charge.NewTable()
		e := chargetest.Lent(t, table, &rules.Rule{ID: "r0", LocalCache: true})
		table.End(drop)
		if e.Chunk.Peek(limit.Token, chargetest.Noon) != prefetch.Ask || (e.Chunk.Left() == 0) != drop {
			t.Errorf("drop %t: %v, %d left", drop, e.Chunk.Peek(limit.Token, chargetest.Noon), e.Chunk.Left())
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
				r := charge.Request{Namespace: namespace, Attributes: rules.Attributes{{Name: "a", Value: values[0]}, {Name: "b", Value: values[1]}}}
				name := string(charge.AppendName(nil, number, set.Rules()[0], &r))
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
	table := charge.NewTable()
	for range 100 {
		if table.Admit(make([]byte, 513), budget.KeyID{}, chargetest.Noon) != nil {
			t.Fatal("an entry")
		}
	}
}
