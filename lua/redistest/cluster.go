package redistest

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	clusterSlots = 16384
	// configEpoch is the word of a line of CLUSTER NODES that numbers a server's
	// configuration.
	configEpoch = 6
)

// Cluster is a Redis Cluster of the test's own: servers without replicas, each with its
// part of the slots, that serve what they have when others are gone.
type Cluster struct {
	Nodes   []*Server
	clients []*redis.Client
	ids     []string
}

// StartCluster runs a cluster of so many servers, with more arguments for each if wanted.
func StartCluster(t testing.TB, servers int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range servers {
		c.add(t, args...)
	}
	for i, client := range c.clients {
		first, last := i*clusterSlots/servers, (i+1)*clusterSlots/servers-1
		must(t, client.Do(t.Context(), "cluster", "addslotsrange", first, last).Err())
		must(t, client.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err())
	}
	for _, other := range c.Nodes[1:] {
		c.meet(t, other)
	}
	c.agree(t)
	return c
}

func (c *Cluster) add(t testing.TB, args ...string) {
	t.Helper()
	s := start(t, func() *Server {
		_, bus := freePort(t)
		return &Server{bus: bus, args: append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "15000",
			"--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no"}, args...)}
	})
	client := s.Client(t)
	id, err := client.Do(t.Context(), "cluster", "myid").Text()
	must(t, err)
	c.Nodes, c.clients, c.ids = append(c.Nodes, s), append(c.clients, client), append(c.ids, id)
}

// Join adds a server without slots and returns its number.
func (c *Cluster) Join(t testing.TB, args ...string) int {
	t.Helper()
	c.add(t, args...)
	last := len(c.Nodes) - 1
	c.meet(t, c.Nodes[last])
	c.agree(t)
	return last
}

func (c *Cluster) meet(t testing.TB, s *Server) {
	t.Helper()
	must(t, c.clients[0].Do(t.Context(), "cluster", "meet", "127.0.0.1", s.port, s.bus).Err())
}

// agree waits until every server knows all others and all slots.
func (c *Cluster) agree(t testing.TB) {
	t.Helper()
	Until(t, "the cluster's servers agree", func() bool {
		for _, client := range c.clients {
			info, err := client.ClusterInfo(t.Context()).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Nodes))) ||
				!strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r", clusterSlots)) {
				return false
			}
			nodes, err := client.Do(t.Context(), "cluster", "nodes").Text()
			if err != nil || strings.Contains(nodes, "handshake") {
				return false
			}
		}
		return true
	})
}

// URL names all servers, in the form of a store's configuration.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Client is a plain client of one server.
func (c *Cluster) Client(i int) *redis.Client { return c.clients[i] }

// ownerBy is the number of the server that has a slot, as another one says; -1 if none.
func (c *Cluster) ownerBy(t testing.TB, says, slot int) int {
	t.Helper()
	slots := redis.NewClusterSlotsCmd(t.Context(), "cluster", "slots")
	must(t, c.clients[says].Process(t.Context(), slots))
	for _, part := range slots.Val() {
		if slot < part.Start || slot > part.End {
			continue
		}
		for i, id := range c.ids {
			if id == part.Nodes[0].ID {
				return i
			}
		}
	}
	return -1
}

// Move moves a slot from one server to another as redis-cli --cluster reshard does, a few
// keys at a time; between, which may be nil, is called after each few.
func (c *Cluster) Move(t testing.TB, slot, from, to int, between func()) {
	t.Helper()
	ctx := t.Context()
	Until(t, "the servers know each other's configurations", func() bool { return c.known(t) })
	must(t, c.clients[to].Do(ctx, "cluster", "setslot", slot, "importing", c.ids[from]).Err())
	must(t, c.clients[from].Do(ctx, "cluster", "setslot", slot, "migrating", c.ids[to]).Err())
	for {
		keys, err := c.clients[from].ClusterGetKeysInSlot(ctx, slot, 2).Result()
		must(t, err)
		if len(keys) == 0 {
			break
		}
		port, err := strconv.Atoi(c.Nodes[to].port)
		must(t, err)
		words := []any{"migrate", "127.0.0.1", port, "", 0, 5000, "keys"}
		for _, key := range keys {
			words = append(words, key)
		}
		must(t, c.clients[from].Do(ctx, words...).Err())
		if between != nil {
			between()
		}
	}
	// Servers that gossip of older times reaches meanwhile may take it back, so they are
	// told until all agree.
	Until(t, "the servers agree on who has the slot", func() bool {
		agreed := true
		for _, i := range append([]int{to, from}, c.others(from, to)...) {
			if c.ownerBy(t, i, slot) != to {
				agreed = false
				must(t, c.clients[i].Do(ctx, "cluster", "setslot", slot, "node", c.ids[to]).Err())
			}
		}
		return agreed
	})
}

// known: every server has heard of the latest configuration of all others. One that takes
// a slot makes its own configuration later than all it knows of; were it to know too little,
// an older claim to the slot that is still on its way would count for more, and Redis would
// delete what stands in the slot.
func (c *Cluster) known(t testing.TB) bool {
	t.Helper()
	var first map[string]string
	for _, client := range c.clients {
		nodes, err := client.ClusterNodes(t.Context()).Result()
		must(t, err)
		epochs := map[string]string{} // by the server's id
		for line := range strings.Lines(nodes) {
			if words := strings.Fields(line); len(words) > configEpoch {
				epochs[words[0]] = words[configEpoch]
			}
		}
		if first == nil {
			first = epochs
		}
		if !maps.Equal(epochs, first) {
			return false
		}
	}
	return true
}

func (c *Cluster) others(from, to int) (others []int) {
	for i := range c.Nodes {
		if i != from && i != to {
			others = append(others, i)
		}
	}
	return others
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Replica adds a replica of server i, which is not among Nodes, and returns it in step with
// its primary, a client of it and its node id.
func (c *Cluster) Replica(t testing.TB, i int) (*Server, *redis.Client, string) {
	t.Helper()
	s := start(t, func() *Server {
		_, bus := freePort(t)
		return &Server{bus: bus, args: []string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "15000",
			"--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"}}
	})
	client := s.Client(t)
	id, err := client.Do(t.Context(), "cluster", "myid").Text()
	must(t, err)
	c.meet(t, s)
	Until(t, "it knows its primary", func() bool {
		nodes, err := client.ClusterNodes(t.Context()).Result()
		return err == nil && strings.Contains(nodes, c.ids[i]) && !strings.Contains(nodes, "handshake")
	})
	Until(t, "it replicates", func() bool {
		return client.Do(t.Context(), "cluster", "replicate", c.ids[i]).Err() == nil
	})
	InStep(t, client, c.clients[i])
	return s, client, id
}

// ID is the node id of server i.
func (c *Cluster) ID(i int) string { return c.ids[i] }

// Owns reports whether all servers of Nodes say that the node of an id has slots.
func (c *Cluster) Owns(t testing.TB, id string) bool {
	t.Helper()
	const words = 8 // of a line of CLUSTER NODES before the slots
	for _, client := range c.clients {
		says, err := client.ClusterNodes(t.Context()).Result()
		if err != nil {
			return false
		}
		owns := false
		for line := range strings.Lines(says) {
			owns = owns || strings.HasPrefix(line, id) && strings.Contains(line, "master") && len(strings.Fields(line)) > words
		}
		if !owns {
			return false
		}
	}
	return true
}
