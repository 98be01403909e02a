package gossip

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"

	"aliquot/cluster/msgpack"
)

func encoded(t testing.TB, kind byte, message any) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteByte(kind)
	if err := codec.NewEncoder(&out, &codec.MsgpackHandle{}).Encode(message); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func squeezed(t testing.TB, message []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := lzw.NewWriter(&out, lzw.LSB, 8)
	_, _ = z.Write(message)
	_ = z.Close()
	return encoded(t, kindCompressed, struct {
		Algo uint8
		Buf  []byte
	}{0, out.Bytes()})
}

func compound(messages ...[]byte) []byte {
	out := []byte{kindCompound, byte(len(messages))}
	for _, m := range messages {
		out = binary.BigEndian.AppendUint16(out, uint16(len(m)))
	}
	return append(out, bytes.Join(messages, nil)...)
}

func labelled(message []byte) []byte { return append([]byte{kindLabelled, 1, 'x'}, message...) }

type exchangeHead struct {
	Nodes, UserStateLen int
	Join                bool
}

// announcing is a message of which memberlist makes room for an extension of 64 KiB, or as much as it says, up to 4 GiB.
var announcing = []byte("\x81\xa1x\xc8\xff\xff\xff")

// TestExchangesAreBounded: a state exchange is read as it was sent, or unpacked, if it is not beyond the bounds.
func TestExchangesAreBounded(t *testing.T) {
	few := append(encoded(t, kindPushPull, exchangeHead{Nodes: 3}), "the nodes"...)
	for _, c := range []struct {
		name       string
		sent, read []byte // read nil: refused
	}{
		{"three nodes", few, few},
		{"with a label", labelled(few), labelled(few)},
		{"packed, with a label", labelled(squeezed(t, few)), labelled(few)},
		{"another kind", []byte("\x00ping"), []byte("\x00ping")},
		{"as many nodes as may be", encoded(t, kindPushPull, exchangeHead{Nodes: maxExchangeNodes}), encoded(t, kindPushPull, exchangeHead{Nodes: maxExchangeNodes})},
		{"a node more", encoded(t, kindPushPull, exchangeHead{Nodes: maxExchangeNodes + 1}), nil},
		{"a node more, packed", squeezed(t, encoded(t, kindPushPull, exchangeHead{Nodes: maxExchangeNodes + 1})), nil},
		{"state, which there is none of", encoded(t, kindPushPull, exchangeHead{UserStateLen: 1}), nil},
		{"a message that is for nobody", encoded(t, kindUser, struct{ UserMsgLen int }{1 << 20}), nil},
		{"more than may be, packed", squeezed(t, make([]byte, maxExchange+1)), nil},
		{"nothing, packed", squeezed(t, nil), nil},
		{"a packed message that is none", []byte{kindCompressed, 0xc1}, nil},
		{"half of a label", []byte{kindLabelled, 7, 'x'}, nil},
		{"nothing", nil, nil},
		{"a head that announces much", append([]byte{kindPushPull}, announcing...), nil},
		{"a packed message that announces much", append([]byte{kindCompressed}, announcing...), nil},
		{"one that announces much, packed", squeezed(t, append([]byte{kindPushPull}, announcing...)), nil},
	} {
		in, err := boundedReader(bytes.NewReader(c.sent), nil)
		if c.read == nil {
			if err == nil {
				t.Errorf("%s: accepted", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, c.read) {
			t.Errorf("%s: read %q, %v; want %q", c.name, got, err, c.read)
		}
	}
	for name, sent := range map[string][]byte{
		"a node": append(bytes.Clone(few), announcing...), "a node, packed": labelled(squeezed(t, append(bytes.Clone(few), announcing...))),
		"a ping": append([]byte{0}, announcing...),
	} {
		in, err := boundedReader(bytes.NewReader(sent), nil)
		if err == nil {
			_, err = io.ReadAll(in)
		}
		if !errors.Is(err, msgpack.ErrBeyond) {
			t.Errorf("%s that announces much: %v", name, err)
		}
	}
	if _, err := boundedReader(bytes.NewReader(encoded(t, kindPushPull, exchangeHead{Nodes: 1 << 20})), nil); !errors.Is(err, errTooLarge) {
		t.Errorf("a million nodes: %v", err)
	}
}

// TestPacketsUnpackToNoMoreThanAPacket: memberlist unpacks what it unpacked, 40 MiB each time.
func TestPacketsUnpackToNoMoreThanAPacket(t *testing.T) {
	ping := []byte("\x00ping")
	for _, c := range []struct {
		name   string
		packet []byte
		want   bool
	}{
		{"a ping", labelled(ping), true},
		{"pings together", labelled(compound(ping, ping)), true},
		{"pings together, packed, with a checksum", labelled(append([]byte{kindChecked, 1, 2, 3, 4}, squeezed(t, compound(ping, ping))...)), true},
		{"as much as a packet", squeezed(t, make([]byte, maxPacket)), true},
		{"more than a packet", labelled(squeezed(t, make([]byte, maxPacket+1))), false},
		{"packed in packed", labelled(squeezed(t, squeezed(t, ping))), false},
		{"packed in a part", labelled(compound(ping, squeezed(t, ping))), false},
		{"packed in a part of a packed one", squeezed(t, compound(squeezed(t, ping))), false},
		{"parts in a part", compound(compound(ping)), false},
		{"packed noise", []byte{kindCompressed, 0xc1}, false},
		{"lengths that are cut", []byte{kindCompound, 255, 0}, true},
		{"a label that is cut", []byte{kindLabelled, 200, 1}, true},
		{"nothing", nil, true},
		{"what announces much", labelled(append([]byte{2}, announcing...)), false},
		{"what announces much, in a part", compound(ping, append([]byte{4}, announcing...)), false},
		{"what announces much, packed, with a checksum", append([]byte{kindChecked, 1, 2, 3, 4}, squeezed(t, append([]byte{0}, announcing...))...), false},
		{"a packed message that announces much", append([]byte{kindCompressed}, announcing...), false},
		{"what is encrypted, or for nobody", compound(append([]byte{kindEncrypted}, announcing...), append([]byte{kindUser}, announcing...)), true},
	} {
		if got := (*seal)(nil).fits(c.packet); got != c.want {
			t.Errorf("%s: fits %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOnePeerHasAPartOfTheStreams: the connections of one address are few, and closed ones make room.
func TestOnePeerHasAPartOfTheStreams(t *testing.T) {
	tr := &transport{open: map[string]int{}}
	for range maxPeerStreams {
		if !tr.admit("a") {
			t.Fatal("refused")
		}
	}
	if tr.admit("a") || !tr.admit("b") {
		t.Error("one address has more than its part, or another one none")
	}
	tr.release("a")
	if !tr.admit("a") {
		t.Error("a closed connection made no room")
	}
	for i := tr.total; i < maxStreams; i++ {
		if !tr.admit(net.IPv4(10, 0, 0, byte(i)).String()) {
			t.Error("refused below the bound")
		}
	}
	if tr.admit("c") {
		t.Error("more than all")
	}
}

// TestATransportEndsWhileMessagesCome: memberlist takes nothing any more, and others still send packets and open connections.
func TestATransportEndsWhileMessagesCome(t *testing.T) {
	c := memberlist.DefaultLANConfig()
	c.BindAddr, c.BindPort, c.Logger = "127.0.0.1", 0, log.New(io.Discard, "", 0)
	transport, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort(c.BindAddr, strconv.Itoa(c.BindPort))
	stop := make(chan struct{})
	var senders sync.WaitGroup
	begun := make(chan struct{}, 1)
	senders.Go(func() {
		conn, err := net.Dial("udp", at)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = conn.Write([]byte{kindUser, 'x'}) // an error after the end
			if n == 100 {
				begun <- struct{}{}
			}
			if n < 100 {
				if conn, err := net.Dial("tcp", at); err == nil {
					_ = conn.Close()
				}
			}
		}
	})
	<-begun
	if err := transport.Shutdown(); err != nil {
		t.Error(err)
	}
	close(stop)
	senders.Wait()
}

func FuzzStream(f *testing.F) {
	few := append(encoded(f, kindPushPull, exchangeHead{Nodes: 3}), "the nodes"...)
	for _, seed := range [][]byte{few, labelled(few), labelled(squeezed(f, few)), squeezed(f, few), []byte("\x00ping"), {kindCompressed, 0xc1}} {
		f.Add(seed)
	}
	f.Add(append([]byte{kindPushPull}, announcing...))
	f.Add(append([]byte{kindCompressed}, announcing...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if in, err := boundedReader(bytes.NewReader(sent), nil); err == nil {
			if got, err := io.ReadAll(in); err != nil && !errors.Is(err, msgpack.ErrBeyond) || len(got) > 2*maxExchange {
				t.Errorf("%d bytes are read, %v", len(got), err)
			}
		}
	})
}

func FuzzPacket(f *testing.F) {
	ping := []byte("\x00ping")
	for _, seed := range [][]byte{ping, labelled(compound(ping, ping)), squeezed(f, compound(ping)), append([]byte{kindChecked, 1, 2, 3, 4}, ping...)} {
		f.Add(seed)
	}
	f.Add(append([]byte{4}, announcing...))
	f.Add(append([]byte{kindCompressed}, announcing...))
	f.Fuzz(func(_ *testing.T, packet []byte) { (*seal)(nil).fits(packet) })
}
