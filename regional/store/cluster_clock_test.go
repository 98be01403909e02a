package store

import (
	"slices"
	"testing"

	"aliquot/limit"
	"aliquot/lua/redistest"
)

// TestClusterClocks: each limit of a request comes with the clock of the node that decided
// it, and the call with the latest of them.
func TestClusterClocks(t *testing.T) {
	clocks := []int64{5_000_000, 4_900_000, 5_100_000}
	made := &taken{groups: make([]Group, 2)}
	made.groups[0].Limits, made.groups[1].Limits = make([]KeyView, 2), make([]KeyView, 1)
	for i, p := range []slotGroup{{group: 0, limits: []int{1}}, {group: 0, limits: []int{0}}, {group: 1, limits: []int{0}}} {
		made.bundles = append(made.bundles, &bundle{
			pieces: []slotGroup{p}, now: clocks[i], out: []Result{{Allowed: true, Limits: make([]limit.Outcome, 1)}},
		})
	}
	if err := made.merge(false); err != nil {
		t.Fatal(err)
	}
	one, other := made.results[0].Clocks, made.results[1].Clocks
	if !slices.Equal(one, []int64{4_900_000, 5_000_000}) || !slices.Equal(other, []int64{5_100_000}) || made.now != 5_100_000 {
		t.Errorf("%v and %v, the call at %d", one, other, made.now)
	}
}

// TestClusterTellsItsClocks, of real nodes.
func TestClusterTellsItsClocks(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	group := []Group{{Cost: limit.Token}}
	for server := range 3 {
		group[0].Limits = append(group[0].Limits, KeyView{Key: keyOn(servers, server, server), View: view})
	}
	got, now, err := s.Take(t.Context(), epoch, group)
	if err != nil || len(got[0].Clocks) != 3 || slices.Min(got[0].Clocks) <= 0 || slices.Max(got[0].Clocks) != now {
		t.Errorf("%+v at %d, %v", got, now, err)
	}
	group[0].Limits = group[0].Limits[:1]
	if got, now, err = s.Take(t.Context(), epoch, group); err != nil || got[0].Clocks != nil || got[0].Clock(0, now) != now {
		t.Errorf("%+v at %d, %v", got, now, err)
	}
}
