package attack

import (
	"bytes"
	"compress/lzw"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"aliquot/internal/testaddr"
)

// gossip frames a message of memberlist's as the default label has it.
func gossip(t *testing.T, kind byte, message any) []byte {
	t.Helper()
	const label, labelled = "aliquot", 244
	return append(append(append([]byte{labelled, byte(len(label))}, label...), kind), msgpack(t, message)...)
}

func msgpack(t *testing.T, message any) []byte {
	t.Helper()
	var b bytes.Buffer
	h := codec.MsgpackHandle{}
	h.TimeNotBuiltin = true
	if err := codec.NewEncoder(&b, &h).Encode(message); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// alive, dead and pushPull are messages of memberlist's.
type alive struct {
	Incarnation uint32
	Node        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Vsn         []uint8
}

type dead struct {
	Incarnation uint32
	Node, From  string
}

type pushPull struct {
	Nodes, UserStateLen int
	Join                bool
}

const (
	kindSuspect, kindAlive, kindDead, kindPushPull, kindCompressed = 2, 4, 5, 6, 9

	highIncarnation = 1 << 31
)

// forgedGossip tells the followers by UDP that the leader is at an address of the attacker's, that all coordinators are
// dead, and that 2,000 others live; and opens state exchanges that say they have 2^31 nodes. No call goes to the
// attacker's address, and writes through each coordinator are in force.
func (p *peers) forgedGossip(t *testing.T) string {
	servers, cluster := p.gossiped(t)
	leader, _ := p.leader(t)
	trap, err := net.Listen("tcp", testaddr.Free())
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	var trapped atomic.Int64
	go func() {
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			trapped.Add(1)
			_ = c.Close()
		}
	}()
	meta := func(node, instance, raft string) []byte {
		out, _ := json.Marshal(map[string]any{"r": "coordinator", "n": node, "i": instance, "a": raft, "p": trap.Addr().String(), "b": true, "l": true, "c": cluster})
		return out
	}
	version := []uint8{1, 5, 2, 0, 5, 0}
	packets := 0
	for _, v := range p.nodes {
		c, err := net.Dial("udp", v.gossip)
		if err != nil {
			t.Fatal(err)
		}
		send := func(packet []byte) { _, _ = c.Write(packet); packets++ }
		id := string(servers[leader.id])
		for i := range uint32(3) {
			send(gossip(t, kindAlive, &alive{highIncarnation + i, id, []byte{127, 0, 0, 1}, 9, meta(leader.id, id[len(leader.id)+1:], leader.raft), version}))
		}
		if v != leader { // what else a forged leader says does not matter to the true one
			_, _ = p.write(t, v)
		}
		for _, server := range servers {
			send(gossip(t, kindSuspect, &dead{highIncarnation + 9, string(server), "stranger"}))
			send(gossip(t, kindDead, &dead{highIncarnation + 9, string(server), "stranger"}))
		}
		for i := range scaled(2000, 50_000) {
			send(gossip(t, kindAlive, &alive{1, fmt.Sprintf("f%d/%08x", i, i), []byte{127, 0, 0, 1}, 9, meta(fmt.Sprintf("f%d", i), fmt.Sprintf("%08x", i), "127.0.0.1:9"), version}))
		}
		for kind := range 16 {
			noise := make([]byte, 1200)
			_, _ = rand.Read(noise)
			send(append(gossip(t, byte(kind), map[string]int{"Nodes": 1 << 31}), noise...))
		}
		_ = c.Close()
		for _, head := range []pushPull{{1 << 31, 0, true}, {0, 1 << 31, true}, {-1, -1, true}} {
			onConnection(v.gossip, func(conn net.Conn) string {
				_, _ = conn.Write(gossip(t, kindPushPull, &head))
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
				return ""
			})
		}
	}
	p.commits(t)
	if n := trapped.Load(); n > 0 {
		t.Errorf("%d calls went to the address that gossip named", n)
	}
	return fmt.Sprintf("%d packets, no call to their address", packets)
}

// heavyExchanges opens state exchanges with a coordinator, 64 at once, that are within what the library accepts: a million
// nodes that do not come, 38 MiB in 60 KB of LZW, 19 MiB of state that nobody reads, 20 MiB of nodes, and silence.
func (p *peers) heavyExchanges(t *testing.T) string {
	var nodes bytes.Buffer
	for i := 0; nodes.Len() < 20<<20; i++ {
		nodes.Write(msgpack(t, &pushNode{Name: fmt.Sprintf("x%d/%08x", i, i), Addr: []byte{127, 0, 0, 1}, Port: 9, Meta: make([]byte, 400), Vsn: []uint8{1, 5, 2, 0, 5, 0}}))
	}
	const packed = 38 << 20
	var zipped bytes.Buffer
	z := lzw.NewWriter(&zipped, lzw.LSB, 8)
	_, _ = z.Write(append([]byte{kindPushPull}, msgpack(t, &pushPull{0, packed, true})...))
	_, _ = z.Write(make([]byte, packed))
	_ = z.Close()
	var all sync.WaitGroup
	sent := 0
	for range scaled(2, 10) {
		for _, message := range [][]byte{
			gossip(t, kindPushPull, &pushPull{1 << 20, 0, true}),
			gossip(t, kindCompressed, &struct {
				Algo uint8
				Buf  []byte
			}{0, zipped.Bytes()}),
			append(gossip(t, kindPushPull, &pushPull{0, 19 << 20, true}), make([]byte, 19<<20)...),
			append(gossip(t, kindPushPull, &pushPull{20 << 20 / 480, 0, true}), nodes.Bytes()...),
			{244, 7}, // a label that does not come
		} {
			for range 64 {
				all.Go(func() {
					onConnection(p.nodes[0].gossip, func(conn net.Conn) string {
						_, _ = conn.Write(message)
						_, _ = io.Copy(io.Discard, conn)
						return ""
					})
				})
				sent++
			}
			all.Wait()
		}
	}
	return fmt.Sprintf("%d exchanges", sent)
}

// pushNode is what a state exchange says of a node.
type pushNode struct {
	Name        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Incarnation uint32
	State       int
	Vsn         []uint8
}
