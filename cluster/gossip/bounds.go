package gossip

import (
	"bufio"
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"

	"aliquot/cluster/msgpack"
)

// Bounds on the memory that one sender can make a node use. memberlist takes 128 state exchanges at once, each of 20 MiB,
// of a million nodes, or of 40 MiB decompressed from a few kilobytes. It also takes a packet that decompresses to packets
// without end. A cluster has few coordinators.
const (
	// maxExchange bounds the bytes of a state exchange, compressed and decompressed.
	maxExchange = 4 << 20
	// maxExchangeNodes bounds the nodes of a state exchange. memberlist makes room for all of them before it reads one.
	maxExchangeNodes = 1 << 14
	// maxPacket bounds a packet that was decompressed.
	maxPacket = 64 << 10
	// maxStreams and maxPeerStreams bound the connections that are open at once, of all and of one address.
	maxStreams, maxPeerStreams = 16, 8
)

// Kinds of memberlist's messages.
const (
	kindPushPull   = 6
	kindCompound   = 7
	kindUser       = 8
	kindCompressed = 9
	kindEncrypted  = 10
	kindChecked    = 12
	kindLabelled   = 244
)

var errTooLarge = errors.New("more than a cluster's gossip has")

// transport is memberlist's own transport, and drops messages beyond the bounds above. Safe for concurrent use.
type transport struct {
	*memberlist.NetTransport
	seal    *seal
	streams chan net.Conn
	packets chan *memberlist.Packet
	// Once ended is closed, the transport drops what arrives. Once stopped is closed, nothing arrives any more.
	ended, stopped chan struct{}
	end, stop      sync.Once

	mu    sync.Mutex
	open  map[string]int // connections, by their address
	total int
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen opens the sockets of c, and sets the port in c if it was 0.
func listen(c *memberlist.Config) (*transport, error) {
	seal, err := newSeal(c.SecretKey, c.Label)
	if err != nil {
		return nil, err
	}
	settings := &memberlist.NetTransportConfig{BindAddrs: []string{c.BindAddr}, BindPort: c.BindPort, Logger: c.Logger}
	inner, err := memberlist.NewNetTransport(settings)
	for range 10 { // a free TCP port may be taken for UDP
		if err == nil || c.BindPort != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		inner, err = memberlist.NewNetTransport(settings)
	}
	if err != nil {
		return nil, err
	}
	if c.BindPort == 0 {
		c.BindPort = inner.GetAutoBindPort()
		c.AdvertisePort = c.BindPort
	}
	t := &transport{
		NetTransport: inner, seal: seal, streams: make(chan net.Conn), packets: make(chan *memberlist.Packet),
		ended: make(chan struct{}), stopped: make(chan struct{}), open: map[string]int{},
	}
	go t.accept()
	go t.receive()
	return t, nil
}

// accept passes connections on to memberlist, and closes those beyond the bounds.
func (t *transport) accept() {
	for {
		var conn net.Conn
		select {
		case conn = <-t.NetTransport.StreamCh():
		case <-t.stopped:
			return
		}
		peer, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		if !t.admit(peer) {
			_ = conn.Close()
			continue
		}
		select {
		case t.streams <- &stream{Conn: conn, seal: t.seal, closed: sync.OnceFunc(func() { t.release(peer) })}:
		case <-t.ended:
			_ = conn.Close()
		}
	}
}

func (t *transport) admit(peer string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total == maxStreams || t.open[peer] == maxPeerStreams {
		return false
	}
	t.total++
	t.open[peer]++
	return true
}

func (t *transport) release(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total--
	if t.open[peer]--; t.open[peer] == 0 {
		delete(t.open, peer)
	}
}

// receive passes packets on to memberlist, and drops those beyond the bounds.
func (t *transport) receive() {
	for {
		select {
		case p := <-t.NetTransport.PacketCh():
			if !t.seal.fits(p.Buf) {
				continue
			}
			select {
			case t.packets <- p:
			case <-t.ended:
			}
		case <-t.stopped:
			return
		}
	}
}

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout implements memberlist.Transport. The answer has the bounds of a call.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: address}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport in the same way.
func (t *transport) DialAddressTimeout(address memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := t.NetTransport.DialAddressTimeout(address, timeout)
	if err != nil {
		return nil, err
	}
	return &stream{Conn: conn, seal: t.seal, closed: func() {}}, nil
}

// Shutdown implements memberlist.Transport. The inner transport waits for its listeners, and these wait until
// receive and accept take what they have read. So receive and accept run until the inner transport has ended.
func (t *transport) Shutdown() error {
	t.end.Do(func() { close(t.ended) })
	err := t.NetTransport.Shutdown()
	t.stop.Do(func() { close(t.stopped) })
	return err
}

// stream is a connection whose first message is checked before memberlist reads it.
type stream struct {
	net.Conn
	seal   *seal
	in     io.Reader // nil: nothing was read yet
	closed func()
}

// Read implements net.Conn.
func (s *stream) Read(p []byte) (int, error) {
	if s.in == nil {
		in, err := boundedReader(s.Conn, s.seal)
		if err != nil {
			return 0, err
		}
		s.in = in
	}
	return s.in.Read(p)
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.closed()
	return s.Conn.Close()
}

// boundedReader returns a reader of the same message, decompressed unless it is sealed. It returns an error if the
// message is beyond the bounds.
func boundedReader(conn io.Reader, seal *seal) (io.Reader, error) {
	in := bufio.NewReader(io.LimitReader(conn, maxExchange))
	label, err := labelOf(in)
	if err != nil {
		return nil, err
	}
	kind, err := in.Peek(1)
	if err != nil {
		return nil, err
	}
	switch {
	case kind[0] == kindEncrypted && seal != nil:
		message, err := seal.readExchange(in)
		if err != nil {
			return nil, err
		}
		return io.MultiReader(bytes.NewReader(append(label, message...)), in), nil
	case kind[0] == kindEncrypted: // memberlist, which has no key, refuses it
		return io.MultiReader(bytes.NewReader(label), in), nil
	}
	_, _ = in.Discard(1) // it is buffered
	first, message, err := decompressed(kind[0], in)
	if err != nil {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(append(label, first)), message), nil
}

// decompressed returns the kind of a connection's message after decompression, and a reader of what follows the kind. It
// returns an error if the message is beyond the bounds. The reader returns an error at the first byte beyond them.
func decompressed(kind byte, message io.Reader) (byte, io.Reader, error) {
	if kind == kindCompressed {
		out, err := decompress(message, maxExchange)
		if err != nil {
			return 0, nil, err
		}
		kind, message = out[0], bytes.NewReader(out[1:])
	}
	message = msgpack.Reader(message)
	switch kind {
	case kindUser:
		return 0, nil, fmt.Errorf("user messages: %w", errTooLarge)
	case kindPushPull:
		var err error
		if message, err = checkNodes(message); err != nil {
			return 0, nil, err
		}
	}
	return kind, message, nil
}

// labelOf reads a label with its frame, if there is one.
func labelOf(in *bufio.Reader) (label []byte, err error) {
	kind, err := in.Peek(1)
	if err != nil || kind[0] != kindLabelled {
		return nil, err
	}
	frame, err := in.Peek(2)
	if err != nil {
		return nil, err
	}
	label = make([]byte, 2+int(frame[1]))
	_, err = io.ReadFull(in, label)
	return label, err
}

// checkNodes reads the head of a state exchange, which follows the kind. It returns a reader of all that follows the
// kind, or an error if the exchange has too many nodes.
func checkNodes(message io.Reader) (io.Reader, error) {
	var read bytes.Buffer
	again := io.TeeReader(message, &read)
	var head struct{ Nodes, UserStateLen int }
	if err := codec.NewDecoder(again, &codec.MsgpackHandle{}).Decode(&head); err != nil {
		return nil, err
	}
	if head.Nodes > maxExchangeNodes || head.UserStateLen > 0 { // below 0 is refused by memberlist
		return nil, fmt.Errorf("%d nodes, and %d bytes of state: %w", head.Nodes, head.UserStateLen, errTooLarge)
	}
	return io.MultiReader(&read, message), nil
}

// decompress returns the decompressed bytes of a message: at least one, and at most max.
func decompress(in io.Reader, max int64) ([]byte, error) {
	var packed struct{ Buf []byte }
	if err := codec.NewDecoder(msgpack.Reader(in), &codec.MsgpackHandle{}).Decode(&packed); err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(lzw.NewReader(bytes.NewReader(packed.Buf), lzw.LSB, 8), max+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(out)) > max:
		return nil, fmt.Errorf("unpacked: %w", errTooLarge)
	case len(out) == 0:
		return nil, io.ErrUnexpectedEOF
	}
	return out, nil
}

// withoutLabel returns a packet without its label.
func withoutLabel(packet []byte) []byte {
	if len(packet) > 1 && packet[0] == kindLabelled {
		return packet[min(len(packet), 2+int(packet[1])):]
	}
	return packet
}

// fits reports whether a packet without its label is within the bounds after decompression, and its messages announce no
// more than they have. A packet that cannot be read fits: memberlist refuses it.
func fits(packet []byte) bool {
	const checksum = 5
	if len(packet) > checksum && packet[0] == kindChecked {
		packet = packet[checksum:]
	}
	return checkNesting(packet, false)
}

// checkNesting reports whether a message nests no deeper than a compressed compound message, and everything in it is
// within the bounds. nested: the message is a part of another one.
func checkNesting(message []byte, nested bool) bool {
	if len(message) == 0 {
		return true
	}
	switch message[0] {
	case kindCompressed:
		if nested {
			return false
		}
		out, err := decompress(bytes.NewReader(message[1:]), maxPacket)
		return err == nil && checkNesting(out, true)
	case kindCompound:
		for _, part := range splitCompound(message[1:]) {
			if part[0] == kindCompressed || part[0] == kindCompound || !checkNesting(part, true) {
				return false
			}
		}
	case kindUser, kindEncrypted:
	default:
		return msgpack.Check(message[1:]) == nil
	}
	return true
}

// splitCompound returns the parts of a compound message: a number, lengths of two bytes, and the parts. It leaves out
// parts that are cut off.
func splitCompound(message []byte) (out [][]byte) {
	if len(message) == 0 || len(message) < 1+2*int(message[0]) {
		return nil
	}
	lengths, rest := message[1:1+2*int(message[0])], message[1+2*int(message[0]):]
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n == 0 || n > len(rest) {
			return out
		}
		out, rest = append(out, rest[:n]), rest[n:]
	}
	return out
}
