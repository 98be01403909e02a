package coordinator

import (
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
	"aliquot/rules"
)

func ledgerOf(t *testing.T, n int) *budget.Ledger {
	t.Helper()
	l := &budget.Ledger{Config: budget.NewConfig([]string{"us", "eu"}, time.Second, 0)}
	for i := range n {
		e := budget.Entry{Key: budget.KeyID{Rule: 1}, Shares: make([]budget.Share, 2)}
		binary.BigEndian.PutUint64(e.Key.Hash[:], uint64(i)*0x9e3779b97f4a7c15)
		if err := l.Restore(e); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestKeyIndexIsSortedAnewInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // sorting takes no time here
		var x keyIndex
		l := ledgerOf(t, 3)
		if got := x.sorted(l); !slices.Equal(got, l.Keys()) {
			t.Errorf("keys %v", got)
		}
		l = ledgerOf(t, 5)
		if got := x.sorted(l); len(got) != 5 {
			t.Errorf("%d keys of 5: a quick sort is not to be remembered", len(got))
		}
		x.until = time.Now().Add(time.Second) // as if it had taken 50 ms
		l = ledgerOf(t, 7)
		if got := x.sorted(l); len(got) != 5 {
			t.Errorf("%d keys, want the 5 remembered", len(got))
		}
		<-time.After(time.Second)
		if got := x.sorted(l); len(got) != 7 {
			t.Errorf("%d keys of 7 when the time is up", len(got))
		}
	})
}

// A remembered key that is hot no more is left out.
func TestHotKeysLeavesOutWhatCooledDown(t *testing.T) {
	set, _, err := rules.Parse("r.yaml", []byte("rules:\n  - {id: r1, key: [api_key], params: {capacity: 100, refill_rate: 10}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &clusterstate.State{Ledger: *ledgerOf(t, 4), Rules: clusterstate.RuleBook{Set: set, Numbers: map[string]uint32{"r1": 1}}}
	keys := s.Ledger.Keys()
	if err := s.Ledger.Restore(budget.Entry{Key: keys[2]}); err != nil {
		t.Fatal(err)
	}
	var got []budget.KeyID
	for key := range hotKeys(s, keys, nil, &keys[0]) {
		got = append(got, key)
	}
	if want := []budget.KeyID{keys[1], keys[3]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
