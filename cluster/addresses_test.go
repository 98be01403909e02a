package cluster

import (
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
)

// forgedAlive is the packet by which memberlist learns that a node is alive, as anybody can send it: a label's header,
// the message's type, and six fields in msgpack.
func forgedAlive(t *testing.T, label string, of raft.ServerID, gossip string, incarnation uint32, m gossip.Meta) []byte {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(gossip)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	b := append([]byte{244, byte(len(label))}, label...)
	b = append(b, 4, 0x86)
	text := func(s string) { b = append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s))), s...) }
	text("Incarnation")
	b = binary.BigEndian.AppendUint32(append(b, 0xce), incarnation)
	text("Node")
	text(string(of))
	text("Addr")
	text(string(net.ParseIP(host).To4()))
	text("Port")
	b = binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(number))
	text("Meta")
	text(string(data))
	text("Vsn")
	text("\x01\x05\x02\x00\x05\x00")
	return b
}

// One packet with a high incarnation would send every call that a follower forwards to the attacker's address.
func TestGossipDoesNotSayWhereTheLeaderIs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.slow = true
	nodes := l.three()
	leader := l.leader(nodes...)
	other, want := follower(leader, nodes), "rpc-"+leader.NodeID()
	eventually(t, "the leader's address on a follower", func() bool {
		_, address := other.Leader()
		return address == want
	})
	forged := leader.identify()
	forged.RPC = "attacker:1"
	conn, err := net.Dial("udp", other.GossipAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	incarnation := uint32(1000)
	eventually(t, "gossip to believe the packet", func() bool {
		if incarnation++; err == nil {
			_, err = conn.Write(forgedAlive(t, other.cfg.Label, leader.serverID, leader.GossipAddress(), incarnation, forged))
		}
		if err != nil {
			t.Fatal(err)
		}
		p, _ := other.gossip.Peers.Get(leader.serverID)
		_, address := other.Leader()
		if address != want {
			t.Fatalf("a follower sends its calls to %q, the leader is at %q", address, want)
		}
		return p.RPC == forged.RPC
	})
	_, err = other.CreateEpoch(t.Context())
	if not, ok := errors.AsType[ErrNotLeader](err); !ok || not.RPCAddress != want {
		t.Errorf("%v, the leader is at %q", err, want)
	}
	for _, m := range other.Status().Members {
		if m.RPCAddress == forged.RPC {
			t.Errorf("%s is listed at %q", m.NodeID, m.RPCAddress)
		}
	}
}

// An address that has changed reaches the others by way of the leader, which asks the server itself.
func TestAnAddressThatHasChangedIsReplicated(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.three()
	victim := follower(l.leader(nodes...), nodes)
	c := l.stop(victim)
	c.RPCAddress = "rpc-moved"
	victim = l.start(c)
	for _, n := range l.all() {
		eventually(t, "the new address on "+n.NodeID(), func() bool {
			return n.rpcAddress(victim.serverID) == "rpc-moved" && n.addresses()[victim.serverID] == "rpc-moved"
		})
	}
}

// A leader whose own table is not yet that of the cluster would take the addresses of servers that are down from it.
func TestALeaderThatHasNotCaughtUpReplicatesNoAddresses(t *testing.T) {
	t.Parallel()
	n, notify := bareNode(t, newTransport(newWires().listen("a")))
	n.cfg.RPCAddress, n.cluster, n.dir = "rpc-a", "c1", &dataDir{}
	defer func() {
		n.cancel()
		if err := n.raft.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		n.loops.Wait()
	}()
	m := &membership{Node: n}
	eventually(t, "a leader", n.Leads)
	if m.keepAddresses(time.Now()); m.book.done != nil {
		t.Error("the leader asks for addresses before it has applied what earlier leaders committed")
	}
	n.loops.Go(func() { n.watchLeadership(notify) })
	eventually(t, "its address in the log", func() bool {
		m.book = addressBook{}
		m.keepAddresses(time.Now())
		if m.book.done != nil {
			<-m.book.done
		}
		return n.addresses()[n.serverID] == "rpc-a"
	})
}

// A node without a leader that hears by gossip alone that it was removed goes on.
func TestGossipRemovesNobody(t *testing.T) {
	t.Parallel()
	_, n := startLeader(t)
	forged := gossip.Meta{
		Role: gossip.RoleCoordinator, NodeID: "c9", InstanceID: "00000009", Raft: "127.0.0.1:1", RPC: "attacker:1",
		Bootstrapped: true, Leader: true, Cluster: clusterOf(n), Members: "00000009",
	}
	data, err := forged.Encode()
	if err != nil {
		t.Fatal(err)
	}
	n.gossip.Peers.NotifyJoin(&memberlist.Node{Name: string(forged.ServerID()), Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: data})
	m := &membership{Node: n}
	if !m.forgottenByGossip() {
		t.Error("the forged word did not arrive")
	}
	if m.forgottenByLeader(n.configuration()) {
		t.Error("the node believes it")
	}
}

func TestGossipFromOtherNetworksIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.config("c1")
	c.GossipListen, c.GossipCIDRs = "127.0.0.1:0", []string{"127.0.0.1/32"}
	n := l.leader(l.start(c))
	send := func(from, node string) {
		to, err := net.ResolveUDPAddr("udp", n.GossipAddress())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, to)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		m := gossip.Meta{Role: gossip.RoleCoordinator, NodeID: node, InstanceID: "00000009", Raft: "127.0.0.1:1"}
		if _, err := conn.Write(forgedAlive(t, c.Label, m.ServerID(), "127.0.0.1:1", 1, m)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a packet from the network that is allowed", func() bool {
		send("127.0.0.2", "outside")
		send("127.0.0.1", "inside")
		_, known := n.gossip.Peers.Get("inside/00000009")
		return known
	})
	if _, known := n.gossip.Peers.Get("outside/00000009"); known {
		t.Error("a packet from another network was taken")
	}
}
