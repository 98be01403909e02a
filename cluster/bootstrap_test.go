package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/cluster/gossip"
)

func booting(i, expect int) gossip.Meta {
	return gossip.Meta{Role: gossip.RoleCoordinator, NodeID: fmt.Sprintf("c%d", i), InstanceID: fmt.Sprintf("%08x", i), Raft: fmt.Sprintf("10.0.0.%d:1", i), Expect: expect}
}

func seen(ms ...gossip.Meta) (out []gossip.Peer) {
	for _, m := range ms {
		out = append(out, gossip.Peer{Meta: m, Alive: true})
	}
	return out
}

func TestPlanBoot(t *testing.T) {
	view := planBoot(booting(1, 3), seen(booting(2, 3), booting(3, 3))).view
	ready := func(i int) gossip.Meta { m := booting(i, 3); m.View = view; return m }
	member := booting(2, 3)
	member.Bootstrapped = true
	twin := booting(2, 3)
	twin.InstanceID = "ffffffff"
	for name, c := range map[string]struct {
		self                      gossip.Meta
		others                    []gossip.Peer
		join, complete, bootstrap bool
		problem                   string
	}{
		"alone of one":             {self: booting(1, 1), complete: true, bootstrap: true},
		"alone of three":           {self: booting(1, 3)},
		"all there, not agreed":    {self: booting(1, 3), others: seen(booting(2, 3), booting(3, 3)), complete: true},
		"one has another view":     {self: booting(1, 3), others: seen(ready(2), booting(3, 3)), complete: true},
		"agreed, smallest":         {self: booting(1, 3), others: seen(ready(2), ready(3)), complete: true, bootstrap: true},
		"agreed, not the smallest": {self: booting(2, 3), others: seen(ready(1), ready(3)), complete: true},
		"a member is there":        {self: booting(1, 3), others: seen(member, ready(3)), join: true},
		"a dead member":            {self: booting(1, 1), others: []gossip.Peer{{Meta: member}}, join: true},
		"join only":                {self: booting(1, 0), others: seen(booting(2, 3))},
		"one too many":             {self: booting(1, 3), others: seen(ready(2), ready(3), ready(4)), problem: "4 nodes"},
		"other number":             {self: booting(1, 3), others: seen(booting(2, 5)), problem: "--bootstrap-expect 5"},
		"same node id twice":       {self: booting(1, 3), others: seen(booting(2, 3), twin), problem: "--node-id c2"},
		"a joiner does not count":  {self: booting(1, 3), others: seen(ready(2), booting(3, 0))},
	} {
		p := planBoot(c.self, c.others)
		if p.join != c.join || p.complete != c.complete || p.bootstrap != c.bootstrap || !strings.Contains(p.problem, c.problem) || (c.problem == "") != (p.problem == "") {
			t.Errorf("%s: %+v", name, p)
		}
		if waits := !p.join && !p.complete && p.problem == "" && c.self.Expect > 0; waits != (len(p.found) > 0) {
			t.Errorf("%s: found %v", name, p.found)
		}
	}
}

// begin lets nodes look around, each seeing any subset of the others' latest gossip,
// and returns who began with which set.
func begin(t *rapid.T, nodes, expect int) map[string][]int {
	metas, promises := make([]gossip.Meta, nodes), make([]promise, nodes)
	for i := range metas {
		metas[i] = booting(i, expect)
	}
	now, begun := time.Unix(1000, 0), map[string][]int{}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		i := rapid.IntRange(0, nodes-1).Draw(t, "node")
		var others []gossip.Peer
		for j, m := range metas {
			if j != i && rapid.IntRange(0, 3).Draw(t, "sees") > 0 {
				others = append(others, gossip.Peer{Meta: m, Alive: true})
			}
		}
		p := planBoot(metas[i], others)
		promises[i].apply(&p, now)
		metas[i].View = p.view
		if p.bootstrap && !metas[i].Bootstrapped {
			metas[i].Bootstrapped = true
			begun[p.view] = append(begun[p.view], i)
			for _, s := range p.servers {
				begun[string(s.ID)] = append(begun[string(s.ID)], i)
			}
		}
	}
	return begun
}

// With as many nodes as expected, or more, and whatever each of them sees: no node
// is ever part of two bootstraps.
func TestNoNodeIsInTwoBootstraps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(3, 6).Draw(t, "nodes")
		for what, by := range begin(t, nodes, 3) {
			if len(by) > 1 {
				t.Fatalf("%s was begun by %v", what, by)
			}
		}
	})
}

func TestPromiseIsReleasedInTheEnd(t *testing.T) {
	var b promise
	now := time.Unix(1000, 0)
	first, other := bootPlan{view: "a", complete: true}, bootPlan{view: "b", complete: true, bootstrap: true}
	b.apply(&first, now)
	p := other
	b.apply(&p, now.Add(promiseRelease))
	if p.view != "a" || p.bootstrap {
		t.Errorf("broken early: %+v", p)
	}
	p = other
	b.apply(&p, now.Add(promiseRelease+1))
	if p.view != "b" || !p.bootstrap {
		t.Errorf("kept for ever: %+v", p)
	}
}
