package regional

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"aliquot/lua"
	"aliquot/lua/redistest"
	"aliquot/regional/internal/modes"
)

// clientOn is a client of rule r0 whose records stand on one of a cluster's three nodes.
func clientOn(d *Daemon, node int) string {
	for i := 0; ; i++ {
		client := fmt.Sprintf("on-%d-%d", node, i)
		a := &planOf(d, client).Groups[0].Charges[0]
		slot := lua.SlotOf(lua.Key(a.Limit.Algorithm, a.Key.Rule, a.Key.Hash))
		if slot*3/lua.Slots == node {
			return client
		}
	}
}

// TestOneShardStops: of a Redis Cluster with a node that does not answer only that node's
// clients are decided without the store, also when nobody else asks for anything.
func TestOneShardStops(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	l := newLeader(t, "rules:\n  - id: r0\n    key: [api_key]\n    local_cache: false\n    params: {capacity: 10000, refill_rate: 1000}\n")
	c := testConfig(l.address())
	c.Redis = servers.URL()
	d, _ := startLive(t, c)
	clients := []string{clientOn(d, 0), clientOn(d, 1), clientOn(d, 2)}
	for _, client := range clients {
		eventually(t, "the store decides", func() bool { return check(t, d, client).Mode == modes.Store })
	}
	for lost := range clients {
		t.Run(servers.Nodes[lost].Addr, func(t *testing.T) {
			servers.Nodes[lost].Signal(t, syscall.SIGSTOP)
			resume := func() { servers.Nodes[lost].Signal(t, syscall.SIGCONT) }
			defer resume()
			circuit := fmt.Sprintf("aliquot_store_circuit_open{shard=%q} 1", servers.Nodes[lost].Addr)
			eventually(t, "the node's circuit opens", func() bool {
				if a := check(t, d, clients[lost]); a.Mode != modes.Emergency {
					t.Fatalf("decided by %s", a.Mode)
				}
				return strings.Contains(scrape(t, d), circuit)
			})
			for range 50 {
				check(t, d, clients[lost])
			}
			for i, client := range clients {
				if i == lost {
					continue
				}
				eventually(t, "the others are decided by the store", func() bool { return check(t, d, client).Mode == modes.Store })
			}
			now := scrape(t, d)
			for _, want := range []string{`aliquot_degraded{reason="shard"} 1`, `aliquot_degraded{reason="store"} 0`, `aliquot_store_circuit_open{shard="store"} 0`} {
				if !strings.Contains(now, want) {
					t.Errorf("no %s", want)
				}
			}
			resume()
			eventually(t, "the store decides again", func() bool { return check(t, d, clients[lost]).Mode == modes.Store })
			if now := scrape(t, d); strings.Contains(now, circuit) || !strings.Contains(now, `aliquot_degraded{reason="shard"} 0`) {
				t.Error("the circuit's series is still there")
			}
		})
	}
}

// TestClusterRefuses: a Redis Cluster that refuses everything is degraded as a whole, and
// back once it serves.
func TestClusterRefuses(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	c := testConfig(newLeader(t, failRules).address())
	c.Redis = servers.URL()
	d, _ := startLive(t, c)
	eventually(t, "the store decides", func() bool { return on(t, d, "local").Mode == modes.Store })
	const slot = 1 // of no importance
	setAll := func(words ...any) {
		for i := range servers.Nodes {
			if err := servers.Client(i).Do(t.Context(), words...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	setAll("config", "set", "cluster-require-full-coverage", "yes")
	setAll("cluster", "delslots", slot)
	refuses := storeFault{reason: "clusterdown"}
	refuses.isFelt(t, d)
	setAll("config", "set", "cluster-require-full-coverage", "no")
	eventually(t, "the store decides again", func() bool { return on(t, d, "local").Mode == modes.Store })
	eventually(t, "the circuit is closed", func() bool {
		return strings.Contains(scrape(t, d), `aliquot_store_circuit_open{shard="store"} 0`)
	})
}
