// Package raftnet carries Raft between the coordinators: connections that name the server they mean, a transport that
// knows which messages were answered, and a guard that checks messages before hashicorp/raft, which trusts its peers,
// acts on them.
package raftnet

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

	"aliquot/cluster/state"
)

const (
	// greetingMagic opens every Raft connection. One length byte and the id of the server that the caller means to
	// reach follow, then one length byte and the id of the caller's cluster, which is empty while it is unknown.
	greetingMagic = "AQR2"
	// greetingMagic1 is that of an earlier version, which sends no cluster.
	greetingMagic1 = "AQR1"
	// askMagic opens a connection that only asks which server is there. The same two texts follow. The answer is
	// two bytes of length and the bytes of Config.Identify.
	askMagic = "AQW2"
	// askTimeout is the time limit of such a question and its answer.
	askTimeout = 2 * time.Second
	// greetingTimeout closes a connection without a greeting.
	greetingTimeout = 5 * time.Second
	// maxRaftConns bounds accepted connections that have greeted, and maxRaftConnsOfOne those of one address: each
	// peer holds a handful, and all peers may be on one machine.
	maxRaftConns, maxRaftConnsOfOne = 128, 64
	// maxSilent bounds those that have not greeted yet, and maxSilentOfOne those of one address, so that
	// callers who say nothing take no place of a peer.
	maxSilent, maxSilentOfOne = 64, 16
)

// Config has the settings of a Layer.
type Config struct {
	// Self is this node's server.
	Self raft.ServerID
	// Advertise is the address that others know, host:port.
	Advertise string
	// Cluster returns the id of this node's cluster, empty before it knows.
	Cluster func() string
	// Identify returns what is answered to Ask, at most 65,535 bytes; nil: nothing is.
	Identify func() ([]byte, error)
	Logger   *slog.Logger
	// Allow reports whether a warning with this key may be logged now.
	Allow func(key string, now time.Time) bool
	// Refused is called for each message that is refused before it is decoded, with RefusedKind; nil: nothing is.
	Refused func(reason string, err error)
}

// Layer carries Raft over a listener and a dialer, which TLS can wrap. Raft's messages name only the address of
// their target, not the server. A node that lost its disk and came back at the same address would therefore
// receive, and acknowledge, messages for its predecessor, and could vote twice in a term. So each connection begins
// with the id of the server that it is meant for, and any other server closes it; so does a server of another
// cluster. A Layer is safe for concurrent use; make it with NewLayer.
type Layer struct {
	net.Listener
	Config

	mu     sync.Mutex
	conns  map[net.Conn]string // accepted, greeted: their hosts
	silent map[net.Conn]string // accepted, not greeted yet: their hosts
	dialed map[net.Conn]struct{}
	closed bool

	large chan struct{} // one place: for the large message that is being received
}

var _ raft.StreamLayer = (*Layer)(nil)

// advertised is an address that is not resolved: other machines may resolve it differently.
type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// NewLayer returns the layer of a node that listens at l, which it closes in the end.
func NewLayer(l net.Listener, c Config) *Layer {
	return &Layer{Listener: l, Config: c, conns: map[net.Conn]string{}, silent: map[net.Conn]string{}, dialed: map[net.Conn]struct{}{}, large: make(chan struct{}, 1)}
}

// Addr implements net.Listener with the address that others know.
func (s *Layer) Addr() net.Addr { return advertised(s.Advertise) }

// target packs a server and its address into one address, which raft hands back to Dial.
func target(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + address
}

// Dial implements raft.StreamLayer for an address made by target.
func (s *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
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

// dial opens a connection and sends the greeting. The deadline of the connection is the end of the timeout.
func (s *Layer) dial(ctx context.Context, magic string, id raft.ServerID, host string, timeout time.Duration) (net.Conn, error) {
	cluster := s.Cluster()
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

// Ask returns the answer of the server at an address to the question which server it is. The caller checks that it
// is the one that was meant.
func (s *Layer) Ask(ctx context.Context, server raft.Server) ([]byte, error) {
	conn, err := s.dial(ctx, askMagic, server.ID, string(server.Address), askTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, fmt.Errorf("%s at %s did not send its identity: %w", server.ID, server.Address, err)
	}
	answer := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, fmt.Errorf("%s at %s did not send its identity: %w", server.ID, server.Address, err)
	}
	return answer, nil
}

// errAnswered ends a connection that only asked which server is there.
var errAnswered = errors.New("answered")

func (c *greetedConn) answer() error {
	if c.layer.Identify == nil {
		return errors.New("no server is known to ask")
	}
	data, err := c.layer.Identify()
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	if _, err := c.Conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...)); err != nil {
		return err
	}
	return errAnswered
}

// trackDialed registers a connection, so that Close closes it. There are a handful for each peer.
func (s *Layer) trackDialed(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	s.dialed[conn] = struct{}{}
	return &dialedConn{watched{Conn: conn, layer: s}}, nil
}

// dialedConn unregisters itself when raft closes it.
type dialedConn struct{ watched }

// Close implements net.Conn.
func (c *dialedConn) Close() error {
	c.layer.forget(c.Conn)
	return c.Conn.Close()
}

// refuse counts a message that was refused before it was decoded.
func (s *Layer) refuse(err error) {
	if s.Refused != nil {
		s.Refused(RefusedKind, err)
	}
}

// Accept implements net.Listener. The greeting is read by the connection's own goroutine, with its first read, so
// that a silent caller delays no other.
func (s *Layer) Accept() (net.Conn, error) {
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
			s.Logger.Debug("close a refused raft connection", "error", err)
		}
	}
}

func (s *Layer) track(conn net.Conn) *greetedConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := hostOf(conn)
	if s.closed || len(s.silent) >= maxSilent || ofOne(s.silent, from) >= maxSilentOfOne {
		return nil
	}
	s.silent[conn] = from
	return &greetedConn{watched: watched{Conn: conn, layer: s, messages: messages{requests: true}}}
}

// ofOne returns how many connections are of a host.
func ofOne(conns map[net.Conn]string, host string) (n int) {
	for _, h := range conns {
		if h == host {
			n++
		}
	}
	return n
}

// admit moves a connection to those that have greeted.
func (s *Layer) admit(conn net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := hostOf(conn)
	if s.closed || len(s.conns) >= maxRaftConns || ofOne(s.conns, from) >= maxRaftConnsOfOne {
		return errors.New("too many connections are open")
	}
	delete(s.silent, conn)
	s.conns[conn] = from
	return nil
}

// hostOf is the address of a connection's peer, without the port.
func hostOf(conn net.Conn) string {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return host
}

func (s *Layer) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	delete(s.silent, conn)
	delete(s.dialed, conn)
}

// Close implements net.Listener and closes all connections. Raft's transport leaves accepted connections open, and
// waits for answers on its own; to a hung peer it may be sending a snapshot, for which it waits minutes.
func (s *Layer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.Listener.Close()
	for conn := range s.silent {
		err = errors.Join(err, conn.Close())
		delete(s.silent, conn)
	}
	for conn := range s.conns {
		err = errors.Join(err, conn.Close())
		delete(s.conns, conn)
	}
	for conn := range s.dialed {
		err = errors.Join(err, conn.Close())
		delete(s.dialed, conn)
	}
	return err
}

func (s *Layer) warn(conn net.Conn, msg string, err error) {
	if s.Allow(msg+hostOf(conn), time.Now()) {
		s.Logger.Warn(msg, "from", conn.RemoteAddr().String(), "error", err)
	}
}

// greetedConn checks the greeting before it returns the first byte.
type greetedConn struct {
	watched
	once sync.Once
	err  error
}

func (c *greetedConn) Read(p []byte) (int, error) {
	c.once.Do(func() {
		if c.err = c.greet(); c.err != nil {
			if !errors.Is(c.err, errAnswered) {
				c.layer.warn(c.Conn, "raft connection refused", c.err)
			}
			c.err = io.EOF // the warning above is enough; raft's transport logs every error except EOF
		}
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.watched.Read(p)
}

// Close implements net.Conn.
func (c *greetedConn) Close() error {
	c.release()
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
	if raft.ServerID(id) != c.layer.Self {
		return fmt.Errorf("it is meant for server %q, this is %q: the address was taken over from a node that is gone", id, c.layer.Self)
	}
	if string(magic) != greetingMagic1 {
		cluster, err := readText(c.Conn)
		if err != nil {
			return err
		}
		if own := c.layer.Cluster(); own != "" && cluster != "" && cluster != own {
			return fmt.Errorf("the caller is of cluster %q, this node of %s", cluster, own)
		}
	}
	if string(magic) == askMagic {
		return c.answer()
	}
	if err := c.layer.admit(c.Conn); err != nil {
		return err
	}
	return c.SetReadDeadline(time.Time{})
}

// readText reads a text that follows its length in one byte.
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
