package regional

import (
	"fmt"
	"testing"

	"aliquot/lua/redistest"
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
	servers := redistest.StartCluster(t, 3)
	c := testConfig(newLeader(t, twoKeysRules).address())
	c.Redis = servers.URL()
	d, _ := startLive(t, c)
	modes := func(i int) (all string, allowed bool) {
		a := post(t, d, fmt.Sprintf(`{"attributes":{"api_key":"key %d","team":"team %d"}}`, i, i))
		if a.Status != 200 || a.Mode != modeNoRulesYet && len(a.Limits) != 2 {
			t.Fatalf("%+v", a)
		}
		return a.Mode, a.Allowed
	}
	eventually(t, "the store decides", func() bool { mode, ok := modes(0); return mode == modeStore && ok })
	servers.Nodes[1].Kill()
	seen := map[string]int{}
	eventually(t, "some are decided by the store and some are not", func() bool {
		mode, _ := modes(1 + seen[modeStore] + seen[modeEmergency])
		seen[mode]++
		return seen[modeStore] >= 5 && seen[modeEmergency] >= 5
	})
}
