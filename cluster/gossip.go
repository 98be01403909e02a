package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// gossipInterval: news crosses a small cluster in a few of these.
	gossipInterval = 100 * time.Millisecond
	// gossipTCPTimeout ends a state exchange with a peer that hangs.
	gossipTCPTimeout = 3 * time.Second
	// deadNodeReclaim is how long a failed name keeps its address to itself.
	deadNodeReclaim = 30 * time.Second
	// updateTimeout is how long to wait for a change of meta to be on its way.
	updateTimeout = time.Second
	// leaveTimeout is how long a shutdown waits for its goodbye to be on its way.
	leaveTimeout = time.Second
	// maxKeyFileBytes bounds what is read of a key file; 44 is the longest base64.
	maxKeyFileBytes = 256
)

// gossip finds the other coordinators. It is a source of hints: who is up, and before
// the first bootstrap, who is there.
type gossip struct {
	list  *memberlist.Memberlist
	peers *peerTable
	log   *slog.Logger
	quiet *quiet
	meta  atomic.Pointer[meta]
	// address is where others reach this node's gossip, ip:port.
	address string
}

var (
	_ memberlist.Delegate      = (*gossip)(nil)
	_ memberlist.AliveDelegate = (*gossip)(nil)
	_ memberlist.MergeDelegate = (*gossip)(nil)
)

// startGossip listens and announces self; it contacts nobody yet.
func startGossip(c Config, self meta, q *quiet) (*gossip, error) {
	key, err := loadGossipKey(c.GossipKeyFile)
	if err != nil {
		return nil, err
	}
	if _, err := self.encode(); err != nil {
		return nil, err
	}
	g := &gossip{peers: newPeerTable(), log: c.Logger.With("component", "gossip"), quiet: q}
	g.meta.Store(&self)
	mc, err := g.listConfig(c, self, key)
	if err != nil {
		return nil, err
	}
	if g.list, err = memberlist.Create(mc); err != nil {
		return nil, fmt.Errorf("--gossip-listen %s: %w: choose a free address", c.GossipListen, err)
	}
	// Read once: memberlist rewrites its own node, unguarded, at each change of meta.
	g.address = g.list.LocalNode().Address()
	return g, nil
}

// listConfig replaces the library's unsafe defaults: no key, no label, no way back
// for a node whose name is taken by its own dead predecessor.
func (g *gossip) listConfig(c Config, self meta, key []byte) (*memberlist.Config, error) {
	mc := memberlist.DefaultLANConfig()
	mc.Name = string(self.serverID())
	mc.Label = c.Label
	mc.SecretKey = key
	mc.TCPTimeout = gossipTCPTimeout
	mc.GossipInterval = gossipInterval
	mc.DeadNodeReclaimTime = deadNodeReclaim
	mc.Delegate, mc.Events, mc.Alive, mc.Merge = g, g.peers, g, g
	mc.Logger = log.New(&gossipLog{log: g.log, quiet: g.quiet}, "", 0)
	host, port, err := net.SplitHostPort(c.GossipListen)
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
	for _, cidr := range c.GossipCIDRs {
		_, block, err := net.ParseCIDR(cidr)
		if err != nil {
			return nil, fmt.Errorf("--gossip-allow: %w", err)
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

// loadGossipKey reads an AES key; nil for no file.
func loadGossipKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("gossip key file: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("gossip key file %s may be read by everyone: chmod 600 it", path)
	}
	data, err := readBounded(path, maxKeyFileBytes)
	if err != nil {
		return nil, fmt.Errorf("gossip key file: %w", err)
	}
	// Base64 first: the text of a 16-byte key is as long as a raw 24-byte one.
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data))); err == nil && aesKey(key) {
		return key, nil
	}
	if aesKey(data) {
		return data, nil
	}
	return nil, fmt.Errorf("gossip key file %s must hold 16, 24 or 32 bytes, raw or in base64; it holds %d", path, len(data))
}

func aesKey(b []byte) bool { return len(b) == 16 || len(b) == 24 || len(b) == 32 }

// announce changes what others see of this node.
func (g *gossip) announce(m meta) {
	if *g.meta.Load() == m {
		return
	}
	g.meta.Store(&m)
	if err := g.list.UpdateNode(updateTimeout); err != nil {
		g.log.Debug("announce a change", "error", err)
	}
}

// stop says goodbye, so that nobody has to find out, and closes the ports.
func (g *gossip) stop() error {
	if err := g.list.Leave(leaveTimeout); err != nil {
		g.log.Debug("leave gossip", "error", err)
	}
	return g.list.Shutdown()
}

// NodeMeta implements memberlist.Delegate.
func (g *gossip) NodeMeta(int) []byte {
	b, err := g.meta.Load().encode()
	if err != nil {
		// startGossip checked the constant part; what varies is a few bytes below the
		// limit at worst, and empty meta is refused by peers rather than misread.
		g.log.Error("gossip meta", "error", err)
		return nil
	}
	return b
}

// NotifyMsg implements memberlist.Delegate; there are no user messages.
func (*gossip) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (*gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (*gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (*gossip) MergeRemoteState([]byte, bool) {}

// NotifyAlive implements memberlist.AliveDelegate: members of another cluster are
// no peers, whatever label they use.
func (g *gossip) NotifyAlive(n *memberlist.Node) error { return g.admit(n) }

// NotifyMerge implements memberlist.MergeDelegate: one live member of another
// cluster cancels the whole exchange.
func (g *gossip) NotifyMerge(nodes []*memberlist.Node) error {
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

func (g *gossip) admit(n *memberlist.Node) error {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return fmt.Errorf("node %s at %s refused: %w", n.Name, n.Address(), err)
	}
	if m.Role == roleCoordinator && n.Name != string(m.serverID()) {
		return fmt.Errorf("node %s at %s refused: it gossips as %s", n.Name, n.Address(), m.serverID())
	}
	own := g.meta.Load().Cluster
	if own != "" && m.Cluster != "" && m.Cluster != own {
		return fmt.Errorf("node %s at %s refused: %w, %s; this one is %s", n.Name, n.Address(), errOtherCluster, m.Cluster, own)
	}
	return nil
}
