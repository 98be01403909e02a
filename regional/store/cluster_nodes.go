package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/lua"
	"aliquot/regional/store/breaker"
	"aliquot/regional/store/replies"
)

const (
	// maxNodes bounds the servers of one cluster. Redis is made for up to a thousand.
	maxNodes = 1000
	// queryTimeout bounds each read of a connection for queries about the contents. Such a connection
	// carries thousands of keys at once.
	queryTimeout = 2 * time.Second
	// refreshEvery is the minimum interval between questions for the slots' owners.
	refreshEvery = 50 * time.Millisecond
	// keepNode is how long a server without slots is kept, because it may be about to get some.
	keepNode = time.Minute
)

// errUnvouched: a call reached a process that is not vouched, or a node whose clock was not known; see nodes.vouched.
var errUnvouched = errors.New("store: a node of the Redis Cluster has to be asked again for what it is")

// node is one server of the cluster.
type node struct {
	addr string
	// calls carries scripts. Its connections are to vouched processes only.
	calls *redis.Client
	// queries carries the queries about contents and owners.
	queries   *redis.Client
	clock     nodeClock
	breaker   breaker.Breaker
	trying    atomic.Bool // a goroutine makes trials; see Cluster.tryUntilWell
	imports   atomic.Bool // an answer said that a slot is on its way to it
	lastNamed time.Time   // when an answer last named it; guarded by nodes.mu
}

// nodes knows the servers and which slots each has. Safe for concurrent use.
type nodes struct {
	options *redis.Options
	seeds   []string
	owners  [lua.Slots]atomic.Pointer[node]
	start   time.Time // where this process's clock begins
	// unvouched: a call reached a process that is not vouched, or a node whose clock was not known, so the epoch
	// has to be learned again. It is read without mu.
	unvouched atomic.Bool
	// onDrop is called for each node that is dropped while its breaker is open; may be nil.
	onDrop func(addr string)

	mu sync.Mutex
	// vouched are the run ids of the processes whose contents are known to be those of the epoch.
	vouched    map[string]bool
	known      map[string]*node
	refreshing bool
	refreshed  time.Time
	// readingClocks: the nodes are asked for their clocks. The latest such reading ended at clocksRead.
	readingClocks bool
	clocksRead    time.Time
	closed        bool
}

func newNodes(options *redis.Options, seeds []string) *nodes {
	return &nodes{options: options, seeds: seeds, known: map[string]*node{}, start: time.Now()}
}

// at returns the node of an address, and creates it if it is new. It returns nil if there are too many
// nodes, or if nodes is closed.
func (n *nodes) at(addr string) *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found := n.known[addr]; found != nil {
		found.lastNamed = time.Now()
		return found
	}
	if n.closed || len(n.known) >= maxNodes {
		return nil
	}
	calls := *n.options
	replies.Bound(&calls, nil)
	queries := calls
	calls.Addr, queries.Addr = addr, addr
	calls.OnConnect = n.connected
	queries.ReadTimeout, queries.WriteTimeout, queries.PoolTimeout = queryTimeout, queryTimeout, queryTimeout
	queries.PoolSize, queries.MinIdleConns = 2, 0
	made := &node{addr: addr, calls: redis.NewClient(&calls), queries: redis.NewClient(&queries), lastNamed: time.Now()}
	n.known[addr] = made
	return made
}

// connected checks on every new connection, before its first use, that the process is vouched. A
// restarted process may have loaded an old state, and a promoted replica may lack the latest.
func (n *nodes) connected(ctx context.Context, cn *redis.Conn) error {
	info, err := cn.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	return n.checkProcess(lua.RunID(info))
}

// checkProcess returns errUnvouched if a process is not vouched, and remembers that.
func (n *nodes) checkProcess(process string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.vouched[process] {
		n.unvouched.Store(true)
		return errUnvouched
	}
	return nil
}

// vouch makes the processes whose contents were just learned the vouched ones.
func (n *nodes) vouch(processes []string) {
	set := map[string]bool{}
	for _, id := range processes {
		set[id] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.vouched = set
	n.unvouched.Store(false)
}

// localTime returns this process's clock, in microseconds since n.start.
func (n *nodes) localTime() int64 { return time.Since(n.start).Microseconds() }

// refresh asks a server for the owner of each slot. Servers that have long had no slot are dropped.
func (n *nodes) refresh(ctx context.Context) error {
	err := errors.New("store: the Redis Cluster has no address")
	for _, addr := range n.addresses() {
		asked := n.at(addr)
		if asked == nil {
			continue
		}
		// CLUSTER SLOTS, because Redis before 7 does not know CLUSTER SHARDS.
		cmd := redis.NewClusterSlotsCmd(ctx, "cluster", "slots")
		if err = asked.queries.Process(ctx, cmd); err != nil {
			err = fmt.Errorf("store: ask %s for the cluster's slots: %w", addr, err)
			if ctx.Err() != nil {
				return err
			}
			continue
		}
		n.setOwners(asked, cmd.Val())
		return nil
	}
	return err
}

// addresses returns the servers to ask for the slots: those that have slots and whose breaker is
// closed, then the configured ones, then those without slots, which may be gone.
func (n *nodes) addresses() []string {
	serving := n.primaries()
	n.mu.Lock()
	defer n.mu.Unlock()
	var list, idle []string
	for addr, known := range n.known {
		switch {
		case known.breaker.Open():
		case serving[known]:
			list = append(list, addr)
		default:
			idle = append(idle, addr)
		}
	}
	return append(append(list, n.seeds...), idle...)
}

// setOwners stores an answer about the slots' owners, and drops servers that have long had no slot.
func (n *nodes) setOwners(asked *node, slots []redis.ClusterSlot) {
	for _, part := range slots {
		if len(part.Nodes) == 0 {
			continue
		}
		owner := n.at(addrOf(part.Nodes[0].Addr, asked))
		if owner == nil {
			continue
		}
		owner.imports.Store(false) // its slots name it from now on
		for slot := max(part.Start, 0); slot <= min(part.End, lua.Slots-1); slot++ {
			n.owners[slot].Store(owner)
		}
	}
	serving := n.primaries()
	n.mu.Lock()
	var gone []*node
	for addr, known := range n.known {
		if !serving[known] && time.Since(known.lastNamed) > keepNode {
			gone = append(gone, known)
			delete(n.known, addr)
		}
	}
	n.refreshed = time.Now()
	n.mu.Unlock()
	for _, old := range gone {
		old.close()
		old.imports.Store(false) // so its trials end
		if old.breaker.Reset() && n.onDrop != nil {
			n.onDrop(old.addr)
		}
	}
}

// addrOf returns an address as another node reported it. Without a host it is on that node's host.
func addrOf(addr string, told *node) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" && host != "?" {
		return addr
	}
	own, _, _ := net.SplitHostPort(told.addr)
	return net.JoinHostPort(own, port)
}

// importers returns the servers that a slot is, or was, on its way to, and that have no slot.
func (n *nodes) importers() (list []*node) {
	serving := n.primaries()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.known {
		if one.imports.Load() && !serving[one] {
			list = append(list, one)
		}
	}
	return list
}

// primaries returns the servers that have slots.
func (n *nodes) primaries() map[*node]bool {
	serving := map[*node]bool{}
	for slot := range n.owners {
		if owner := n.owners[slot].Load(); owner != nil {
			serving[owner] = true
		}
	}
	return serving
}

// refreshSoon starts a refresh in the background, one at a time and at most once every
// refreshEvery.
func (s *Cluster) refreshSoon() {
	n := s.nodes
	n.mu.Lock()
	due := !n.refreshing && !n.closed && time.Since(n.refreshed) >= refreshEvery
	if due {
		n.refreshing = true
		n.refreshed = time.Now()
	}
	n.mu.Unlock()
	if !due {
		return
	}
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, queryTimeout)
		defer cancel()
		if err := safely(s.log, "a question for the slots", func() error { return n.refresh(ctx) }); err != nil {
			s.log.Debug("no node of the Redis Cluster says which node has which slot", "error", err)
		}
		n.mu.Lock()
		n.refreshing = false
		n.mu.Unlock()
	})
}

func (n *nodes) close() error {
	n.mu.Lock()
	n.closed = true
	all := n.known
	n.known = nil
	n.mu.Unlock()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}

func (n *node) close() error { return errors.Join(n.calls.Close(), n.queries.Close()) }

// redirected reads "MOVED <slot> <address>" and "ASK <slot> <address>".
func redirected(err error) (moved, ask bool, slot int, addr string) {
	words := strings.Fields(err.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return false, false, 0, ""
	}
	slot, bad := strconv.Atoi(words[1])
	if bad != nil || slot < 0 || slot >= lua.Slots {
		return false, false, 0, ""
	}
	return words[0] == "MOVED", words[0] == "ASK", slot, words[2]
}
