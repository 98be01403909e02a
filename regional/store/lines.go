package store

import (
	"context"
	"net"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// lines are the open connections of a client, which go-redis keeps for as long as they
// work. A primary that became a replica goes on answering, with refusals: connections to it
// have to be ended by whoever learns of it. The zero value is ready. Safe for concurrent
// use.
type lines struct {
	mu   sync.Mutex
	open map[*line]struct{}
}

// line is one connection.
type line struct {
	net.Conn
	set *lines
	to  string // host:port
}

// systemLine is a line whose state go-redis can look up in the system, as it does before it
// uses a connection again.
type systemLine struct {
	*line
	system syscall.Conn
}

func (l systemLine) SyscallConn() (syscall.RawConn, error) { return l.system.SyscallConn() }

// add takes a new connection to an address.
func (s *lines) add(conn net.Conn, to string) net.Conn {
	l := &line{Conn: conn, set: s, to: to}
	s.mu.Lock()
	if s.open == nil {
		s.open = map[*line]struct{}{}
	}
	s.open[l] = struct{}{}
	s.mu.Unlock()
	if system, ok := conn.(syscall.Conn); ok {
		return systemLine{line: l, system: system}
	}
	return l
}

// Close ends the connection.
func (l *line) Close() error {
	l.set.mu.Lock()
	delete(l.set.open, l)
	l.set.mu.Unlock()
	return l.Conn.Close()
}

// end closes all connections but those to an address; the empty one spares none. Calls
// under way on them fail, and nobody knows whether they were made.
func (s *lines) end(butTo string) {
	s.mu.Lock()
	var ending []*line
	for l := range s.open {
		if butTo == "" || l.to != butTo {
			ending = append(ending, l)
		}
	}
	s.mu.Unlock()
	for _, l := range ending {
		_ = l.Close() // it is of no use any more, however it ends
	}
}

// refusals calls demoted whenever a server answers that it is a replica.
type refusals struct{ demoted func() }

func (h refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if ofReplica(err) {
			h.demoted()
		}
		return err
	}
}

func (h refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if ofReplica(cmd.Err()) {
				h.demoted()
				break
			}
		}
		return err
	}
}

func ofReplica(err error) bool { return err != nil && redis.HasErrorPrefix(err, "READONLY") }
