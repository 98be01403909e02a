package regional

import (
	"fmt"
	"testing"

	"aliquot/budget"
	"aliquot/internal/hashslot"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
	"aliquot/regional/internal/modes"
)

const twoKeysRules = `
defaults: {enforcement: strict}
rules:
  - id: r0
    key: [api_key]
    params: {capacity: 1000, refill_rate: 0.001}
  - id: r1
    match: {attributes: {team: "*"}}
    key: [team]
    params: {capacity: 1000, refill_rate: 0.001}
`

// With one node of a cluster lost, only the limits that stand there are decided without
// the store.
func TestClusterNodeLost(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	c := testConfig(newLeader(t, twoKeysRules).address())
	c.Redis = servers.URL()
	d, _ := startLive(t, c)
	modesOf := func(i int) (all string, allowed bool) {
		a := post(t, d, fmt.Sprintf(`{"attributes":{"api_key":"key %d","team":"team %d"}}`, i, i))
		if a.Status != 200 || a.Mode != modes.NoRulesYet && len(a.Limits) != 2 {
			t.Fatalf("%+v", a)
		}
		return a.Mode, a.Allowed
	}
	eventually(t, "the store decides", func() bool { mode, ok := modesOf(0); return mode == modes.Store && ok })
	servers.Nodes[1].Kill()
	seen := map[string]int{}
	eventually(t, "some are decided by the store and some are not", func() bool {
		mode, _ := modesOf(1 + seen[modes.Store] + seen[modes.Emergency])
		seen[mode]++
		return seen[modes.Store] >= 5 && seen[modes.Emergency] >= 5
	})
}

// A daemon names the slots of a node that does not answer until it does, with no client
// asking about a key there, and meanwhile shares of other keys are applied in one session.
func TestClusterNodeNamed(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	l := newLeader(t, twoKeysRules)
	c := testConfig(l.address())
	c.Redis = servers.URL()
	d, _ := startLive(t, c)
	slotOf := func(client string) int {
		return lua.SlotOf(lua.Key(limit.TokenBucket, 1, [16]byte(keyOf(d, client).GetHash())))
	}
	var lost, well string
	for i := 0; lost == "" || well == ""; i++ {
		client := fmt.Sprintf("key %d", i)
		if slotOf(client)*3/lua.Slots == 1 {
			lost = client
		} else {
			well = client
		}
	}
	named := func(client string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		last := l.reports[len(l.reports)-1].GetUnreachedSlots()
		if last == nil {
			return false
		}
		slots, err := hashslot.FromBytes(last)
		if err != nil {
			t.Fatal(err)
		}
		return slots.Has(slotOf(client))
	}
	l.lend(keyOf(d, well), budget.Unit/3)
	eventually(t, "no node that answers is named", func() bool { return !named(lost) && !named(well) })
	servers.Nodes[1].Kill()
	// The check is what finds out; nobody asks for the key again.
	eventually(t, "the node is known to be lost", func() bool {
		return named(lost) || post(t, d, fmt.Sprintf(`{"attributes":{"api_key":%q}}`, lost)).Mode == modes.Emergency && named(lost)
	})
	// On a busy machine a node that is well may miss a deadline too, which costs a session.
	eventually(t, "a share in reach is applied in one session, while what is out of reach is named", func() bool {
		before := l.sessions()
		l.lend(keyOf(d, well), budget.Unit/4)
		share := rightOf(d, keyOf(d, well)).Share.Rate
		return share == budget.Unit/4 && !named(well) && named(lost) && l.sessions() == before
	})
	servers.Nodes[1].Run(t)
	eventually(t, "the node is named no more", func() bool { return !named(lost) })
}
