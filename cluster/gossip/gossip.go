// Package gossip finds the coordinators that are there: who is up and where, before the first bootstrap and after it.
// What it says is a hint. Anybody who can send a packet may forge it, so nothing here decides who votes, who leads or
// where calls go.
package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// gossipInterval is how often memberlist gossips: news reaches a small cluster in a few of these.
	gossipInterval = 100 * time.Millisecond
	// gossipTCPTimeout is the time limit of a state exchange with a peer.
	gossipTCPTimeout = 3 * time.Second
	// deadNodeReclaim is how long no other address can take the name of a failed node.
	deadNodeReclaim = 30 * time.Second
	// updateTimeout is how long Announce waits until a change is sent.
	updateTimeout = time.Second
	// leaveTimeout is how long Stop waits until the farewell is sent.
	leaveTimeout = time.Second
	// rejoinEvery is how often join addresses without a live member are tried again. memberlist forgets a node that
	// stayed dead; without this, two halves of a healed partition would never meet again.
	rejoinEvery = 2 * time.Second
	// rejoinJitter spreads nodes that were started together.
	rejoinJitter = 500 * time.Millisecond
	// maxResolved is the largest number of addresses that one name contributes.
	maxResolved = 16
)

// Config has the settings of a node's gossip.
type Config struct {
	// Listen is host:port; port 0 picks one.
	Listen string
	// AdvertiseHost is what others reach this node by; empty: the listen host.
	AdvertiseHost string
	// Label keeps this cluster's gossip apart from others'.
	Label string
	// Key is an AES key of 16, 24 or 32 bytes; nil: no encryption.
	Key []byte
	// CIDRs are the networks that members may gossip from; none: any.
	CIDRs  []string
	Logger *slog.Logger
	// Allow reports whether a warning with this key may be logged now.
	Allow func(key string, now time.Time) bool
}

// Gossip is this node's part in the gossip of its cluster. It is safe for concurrent use; make it with Start.
type Gossip struct {
	// Peers are the other coordinators.
	Peers *Peers

	list    *memberlist.Memberlist
	log     *slog.Logger
	allow   func(key string, now time.Time) bool
	meta    atomic.Pointer[Meta]
	address string
}

var (
	_ memberlist.Delegate      = (*Gossip)(nil)
	_ memberlist.AliveDelegate = (*Gossip)(nil)
	_ memberlist.MergeDelegate = (*Gossip)(nil)
)

// Start listens and announces self; it contacts nobody yet. Its errors name the flag that is at fault.
func Start(c Config, self Meta) (*Gossip, error) {
	if _, err := self.Encode(); err != nil {
		return nil, err
	}
	g := &Gossip{Peers: NewPeers(), log: c.Logger.With("component", "gossip"), allow: c.Allow}
	g.meta.Store(&self)
	mc, err := g.listConfig(c, self)
	if err != nil {
		return nil, err
	}
	t, err := listen(mc)
	if err != nil {
		return nil, fmt.Errorf("--gossip-listen %s: %w: choose a free address", c.Listen, err)
	}
	mc.Transport = t
	if g.list, err = memberlist.Create(mc); err != nil {
		_ = t.Shutdown()
		return nil, fmt.Errorf("--gossip-listen %s: %w: choose a free address", c.Listen, err)
	}
	// Read it once: memberlist changes its own node without a lock at each change of meta.
	g.address = g.list.LocalNode().Address()
	return g, nil
}

// listConfig replaces unsafe defaults of the library: no key, no label, and no return for a node whose name its
// dead predecessor still has.
func (g *Gossip) listConfig(c Config, self Meta) (*memberlist.Config, error) {
	mc := memberlist.DefaultLANConfig()
	mc.Name = string(self.ServerID())
	mc.Label = c.Label
	mc.SecretKey = c.Key
	mc.TCPTimeout = gossipTCPTimeout
	mc.GossipInterval = gossipInterval
	mc.DeadNodeReclaimTime = deadNodeReclaim
	mc.Delegate, mc.Events, mc.Alive, mc.Merge = g, g.Peers, g, g
	mc.Logger = log.New(&lineWriter{log: g.log, allow: c.Allow}, "", 0)
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("--gossip-listen: %w", err)
	}
	if mc.BindAddr, err = resolveIP(host); err != nil {
		return nil, fmt.Errorf("--gossip-listen: %w", err)
	}
	if mc.BindPort, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("--gossip-listen: %w", err)
	}
	mc.AdvertisePort = mc.BindPort
	if c.AdvertiseHost != "" {
		if mc.AdvertiseAddr, err = resolveIP(c.AdvertiseHost); err != nil {
			return nil, fmt.Errorf("--advertise: %w", err)
		}
	}
	for _, cidr := range c.CIDRs {
		_, block, err := net.ParseCIDR(cidr)
		if err != nil {
			return nil, fmt.Errorf("--gossip-cidr: %w", err)
		}
		mc.CIDRsAllowed = append(mc.CIDRsAllowed, *block)
	}
	return mc, nil
}

// resolveIP is one address of host; gossip carries addresses, not names.
func resolveIP(host string) (string, error) {
	if host == "" {
		return netip.IPv4Unspecified().String(), nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), nil
	}
	addrs, err := net.LookupHost(host)
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// Address returns the address at which others reach this node's gossip, ip:port.
func (g *Gossip) Address() string { return g.address }

// Announced returns the Meta that others see of this node.
func (g *Gossip) Announced() Meta { return *g.meta.Load() }

// Join exchanges all knowledge of members with the node that gossips from an address, ip:port.
func (g *Gossip) Join(address string) error {
	_, err := g.list.Join([]string{address})
	return err
}

// Announce changes the Meta that others see of this node.
func (g *Gossip) Announce(m Meta) {
	if *g.meta.Load() == m {
		return
	}
	g.meta.Store(&m)
	if err := g.list.UpdateNode(updateTimeout); err != nil {
		g.log.Debug("announce a change", "error", err)
	}
}

// Rejoin contacts every join address from which no live member gossips, until ctx ends. It resolves names each
// time.
func (g *Gossip) Rejoin(ctx context.Context, addresses []string) {
	for {
		for _, address := range addresses {
			g.joinAddress(ctx, address)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rejoinEvery + rand.N(rejoinJitter)):
		}
	}
}

func (g *Gossip) joinAddress(ctx context.Context, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return // cluster.Config.Validate refused it
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		g.logJoinError(address, err)
		return
	}
	for _, ip := range ips[:min(len(ips), maxResolved)] {
		hostPort := net.JoinHostPort(ip, port)
		if ctx.Err() != nil || g.Peers.aliveAt(hostPort) {
			continue
		}
		if err := g.Join(hostPort); err != nil {
			g.logJoinError(hostPort, err)
		}
	}
}

// logJoinError logs, at the rate of Allow, why an address cannot be joined. While nodes start, it is normal that
// nothing listens there.
func (g *Gossip) logJoinError(address string, err error) {
	if !g.allow("join "+address, time.Now()) {
		return
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(text, "refused") && !strings.Contains(text, errOtherCluster.Error()) {
		g.log.Info("join address does not answer yet", "address", address, "error", text)
		return
	}
	g.log.Warn("join address cannot be joined; give the gossip address (--gossip-listen, port 7402 by default); there, a closed connection means another cluster label or gossip key",
		"address", address, "error", text)
}

// Stop announces that this node leaves, so that others need not detect it, and closes the ports.
func (g *Gossip) Stop() error {
	if err := g.list.Leave(leaveTimeout); err != nil {
		g.log.Debug("leave gossip", "error", err)
	}
	return g.list.Shutdown()
}

// NodeMeta implements memberlist.Delegate.
func (g *Gossip) NodeMeta(int) []byte {
	b, err := g.meta.Load().Encode()
	if err != nil {
		// Start checked the constant part; what varies is a few bytes below the
		// limit at worst, and empty meta is refused by peers rather than misread.
		g.log.Error("gossip meta", "error", err)
		return nil
	}
	return b
}

// NotifyMsg implements memberlist.Delegate; there are no user messages.
func (*Gossip) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (*Gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (*Gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (*Gossip) MergeRemoteState([]byte, bool) {}

// NotifyAlive implements memberlist.AliveDelegate. It refuses members of other clusters, whatever label they use.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error { return g.admit(n) }

// NotifyMerge implements memberlist.MergeDelegate. One live member of another cluster cancels the whole exchange.
func (g *Gossip) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if n.State != memberlist.StateAlive {
			continue
		}
		if err := g.admit(n); err != nil {
			return err
		}
	}
	return nil
}

var errOtherCluster = errors.New("it belongs to another cluster")

func (g *Gossip) admit(n *memberlist.Node) error {
	m, err := DecodeMeta(n.Meta)
	if err != nil {
		return fmt.Errorf("node %s at %s refused: %w", n.Name, n.Address(), err)
	}
	if m.Role == RoleCoordinator && n.Name != string(m.ServerID()) {
		return fmt.Errorf("node %s at %s refused: it gossips as %s", n.Name, n.Address(), m.ServerID())
	}
	own := g.meta.Load().Cluster
	if own != "" && m.Cluster != "" && m.Cluster != own {
		return fmt.Errorf("node %s at %s refused: %w, %s; this one is %s", n.Name, n.Address(), errOtherCluster, m.Cluster, own)
	}
	return nil
}
