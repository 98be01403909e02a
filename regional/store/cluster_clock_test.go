package store

import (
	"slices"
	"testing"

	"aliquot/limit"
	"aliquot/lua"
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

// TestClusterDatesEachAnswer: a change, and an adjustment, is dated by the clock of the node that made it.
func TestClusterDatesEachAnswer(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	var changes []Change
	var parts []lua.Part
	for server := range 3 {
		changes = append(changes, Change{Key: keyOn(servers, server, 1), Change: limit.Change{View: view, Gen: 1, Share: bucket(10, 0)}})
		parts = append(parts, lua.Part{Key: keyOn(servers, server, 2), Adjustment: limit.Adjustment{View: view, Used: limit.Token}})
	}
	recorded := func(server int, key string) int64 {
		t.Helper()
		text, err := servers.Client(server).Get(t.Context(), key).Result()
		r, ok := lua.ParseRecord(limit.TokenBucket, text)
		if err != nil || !ok {
			t.Fatal(text, err)
		}
		return r.At
	}
	applied, now, err := s.Apply(t.Context(), epoch, changes)
	if err != nil {
		t.Fatal(err)
	}
	latest := int64(0)
	for server, a := range applied {
		latest = max(latest, a.At)
		if at := recorded(server, changes[server].Key); a.At != at {
			t.Errorf("node %d: a change at %d is dated %d", server, at, a.At)
		}
	}
	if now != latest {
		t.Errorf("the clock of the call is %d, that of its latest change %d", now, latest)
	}
	adjusted, err := s.Adjust(t.Context(), epoch, parts)
	if err != nil {
		t.Fatal(err)
	}
	for server, a := range adjusted {
		if at := recorded(server, parts[server].Key); a.At != at {
			t.Errorf("node %d: an adjustment at %d is dated %d", server, at, a.At)
		}
	}
}
