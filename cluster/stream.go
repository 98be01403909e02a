package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/state"
)

const (
	// greetingMagic opens every Raft connection; then one length byte and the id of
	// the server that the caller means to reach, and one length byte and the id of the
	// caller's cluster, which is empty before it knows.
	greetingMagic = "AQR2"
	// greetingMagic1 is that of an earlier version, which names no cluster.
	greetingMagic1 = "AQR1"
	// askMagic opens a connection that only asks who is there. The same two texts follow;
	// the answer is two bytes of length and the node's meta.
	askMagic = "AQW2"
	// askTimeout bounds such a question with its answer.
	askTimeout = 2 * time.Second
	// greetingTimeout ends a connection that says nothing.
	greetingTimeout = 5 * time.Second
	// maxRaftConns bounds accepted connections: each peer holds a handful.
	maxRaftConns = 128
)

// streamLayer carries Raft over a listener and a dialer, which TLS can wrap. Raft's
// own messages do not say which server they are meant for, only the address. A node
// that lost its disk and came back at the same address would therefore receive, and
// acknowledge, what its predecessor was sent, and could vote a second time in a
// term. So each connection begins by naming the server it wants, and any other
// server hangs up; so does one of another cluster.
type streamLayer struct {
	net.Listener
	self      raft.ServerID
	advertise net.Addr
	cluster   func() string
	identify  func() gossip.Meta // what is answered to a question; set before the first use
	log       *slog.Logger
	quiet     *quiet

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // accepted
	dialed map[net.Conn]struct{}
	closed bool
}

var _ raft.StreamLayer = (*streamLayer)(nil)

// advertised is an address that is not resolved here: others may see it differently.
type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

func newStreamLayer(l net.Listener, self raft.ServerID, advertise string, cluster func() string, log *slog.Logger, q *quiet) *streamLayer {
	return &streamLayer{Listener: l, self: self, advertise: advertised(advertise), cluster: cluster, log: log, quiet: q,
		conns: map[net.Conn]struct{}{}, dialed: map[net.Conn]struct{}{}}
}

// Addr implements net.Listener with the address that others know.
func (s *streamLayer) Addr() net.Addr { return s.advertise }

// target packs a server and its address into what raft hands back to Dial.
func target(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + address
}

// Dial implements raft.StreamLayer for an address made by target.
func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, host, ok := strings.Cut(string(address), "@")
	if !ok {
		return nil, fmt.Errorf("cluster: %q is no raft target", address)
	}
	conn, err := s.dial(context.Background(), greetingMagic, raft.ServerID(id), host, timeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s.trackDialed(conn)
}

// dial opens a connection and greets; its deadline is the timeout's end.
func (s *streamLayer) dial(ctx context.Context, magic string, id raft.ServerID, host string, timeout time.Duration) (net.Conn, error) {
	cluster := s.cluster()
	if len(id) > state.MaxServerID || len(cluster) > 255 {
		return nil, fmt.Errorf("cluster: server %q of cluster %q is too long to be named", id, cluster)
	}
	dialer := net.Dialer{Deadline: time.Now().Add(timeout)}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	greeting := append([]byte(magic), byte(len(id)))
	greeting = append(append(greeting, id...), byte(len(cluster)))
	if err := conn.SetDeadline(dialer.Deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, err := conn.Write(append(greeting, cluster...)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// ask returns what the server at an address says of itself, and an error unless it is the one that was meant.
func (s *streamLayer) ask(ctx context.Context, server raft.Server) (gossip.Meta, error) {
	conn, err := s.dial(ctx, askMagic, server.ID, string(server.Address), askTimeout)
	if err != nil {
		return gossip.Meta{}, err
	}
	defer conn.Close()
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return gossip.Meta{}, fmt.Errorf("%s at %s does not say who it is: %w", server.ID, server.Address, err)
	}
	answer := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return gossip.Meta{}, fmt.Errorf("%s at %s does not say who it is: %w", server.ID, server.Address, err)
	}
	m, err := gossip.DecodeMeta(answer)
	if err != nil {
		return gossip.Meta{}, err
	}
	if m.Role != gossip.RoleCoordinator || m.ServerID() != server.ID {
		return gossip.Meta{}, fmt.Errorf("at %s is %s, not %s", server.Address, m.ServerID(), server.ID)
	}
	return m, nil
}

// errAsked ends a connection that only asked who is there.
var errAsked = errors.New("answered")

func (c *greetedConn) answer() error {
	if c.layer.identify == nil {
		return errors.New("nobody is here to be asked")
	}
	data, err := c.layer.identify().Encode()
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	if _, err := c.Conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...)); err != nil {
		return err
	}
	return errAsked
}

// trackDialed lets Close end the connection. There are a handful for each peer.
func (s *streamLayer) trackDialed(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	s.dialed[conn] = struct{}{}
	return dialedConn{conn, s}, nil
}

// dialedConn is forgotten when raft is done with it.
type dialedConn struct {
	net.Conn
	layer *streamLayer
}

func (c dialedConn) Close() error {
	c.layer.forget(c.Conn)
	return c.Conn.Close()
}

// Accept implements net.Listener. The greeting is read by the connection's own
// goroutine, with the first read, so that a silent caller holds up nobody.
func (s *streamLayer) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := s.track(conn); g != nil {
			return g, nil
		}
		s.warn(conn, "raft connection refused: too many are open", nil)
		if err := conn.Close(); err != nil {
			s.log.Debug("close a refused raft connection", "error", err)
		}
	}
}

func (s *streamLayer) track(conn net.Conn) *greetedConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxRaftConns {
		return nil
	}
	s.conns[conn] = struct{}{}
	return &greetedConn{Conn: conn, layer: s}
}

func (s *streamLayer) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	delete(s.dialed, conn)
}

// Close implements net.Listener and hangs up on everyone: raft's transport leaves
// accepted connections open, and waits for answers on its own. To a peer that hangs
// it may be sending a snapshot, for which it has minutes.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.Listener.Close()
	for _, conns := range []map[net.Conn]struct{}{s.conns, s.dialed} {
		for conn := range conns {
			err = errors.Join(err, conn.Close())
			delete(conns, conn)
		}
	}
	return err
}

func (s *streamLayer) warn(conn net.Conn, msg string, err error) {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	if s.quiet.allow(msg+host, time.Now()) {
		s.log.Warn(msg, "from", conn.RemoteAddr().String(), "error", err)
	}
}

// greetedConn checks the greeting before its first byte is believed.
type greetedConn struct {
	net.Conn
	layer *streamLayer
	once  sync.Once
	err   error
}

func (c *greetedConn) Read(p []byte) (int, error) {
	c.once.Do(func() {
		if c.err = c.greet(); c.err != nil {
			if !errors.Is(c.err, errAsked) {
				c.layer.warn(c.Conn, "raft connection refused", c.err)
			}
			c.err = io.EOF // said once above; raft's transport logs all but EOF each time
		}
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}

func (c *greetedConn) Close() error {
	c.layer.forget(c.Conn)
	return c.Conn.Close()
}

func (c *greetedConn) greet() error {
	if err := c.SetReadDeadline(time.Now().Add(greetingTimeout)); err != nil {
		return err
	}
	magic := make([]byte, len(greetingMagic))
	if _, err := io.ReadFull(c.Conn, magic); err != nil {
		return fmt.Errorf("no greeting: %w", err)
	}
	if string(magic) != greetingMagic && string(magic) != greetingMagic1 && string(magic) != askMagic {
		return errors.New("the caller does not speak this protocol")
	}
	id, err := readText(c.Conn)
	if err != nil {
		return err
	}
	if raft.ServerID(id) != c.layer.self {
		return fmt.Errorf("it is meant for server %q, this is %q: the address was taken over from a node that is gone", id, c.layer.self)
	}
	if string(magic) != greetingMagic1 {
		cluster, err := readText(c.Conn)
		if err != nil {
			return err
		}
		if own := c.layer.cluster(); own != "" && cluster != "" && cluster != own {
			return fmt.Errorf("the caller is of cluster %q, this node of %s", cluster, own)
		}
	}
	if string(magic) == askMagic {
		return c.answer()
	}
	return c.SetReadDeadline(time.Time{})
}

// readText reads a text with its length in one byte before it.
func readText(r io.Reader) (string, error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", fmt.Errorf("greeting cut short: %w", err)
	}
	text := make([]byte, length[0])
	if _, err := io.ReadFull(r, text); err != nil {
		return "", fmt.Errorf("greeting cut short: %w", err)
	}
	return string(text), nil
}
