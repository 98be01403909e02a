package regional

import (
	"log/slog"
	"net/http"
	"time"

	"aliquot/internal/rpc"
)

const (
	// readTimeout ends attacks by slow bodies. A batch of 4 MiB needs 0.4 MiB/s.
	readTimeout = 10 * time.Second
	// writeTimeout is how long a call may take until its answer has left.
	writeTimeout = 10 * time.Second
)

// sockets are the daemon's listeners; nil: one that the configuration does not name.
type sockets struct{ connect, grpc, ops *rpc.Listener }

// fields returns the fields of s in the order of Config.listeners.
func (s *sockets) fields() []**rpc.Listener { return []**rpc.Listener{&s.connect, &s.grpc, &s.ops} }

// open returns the listeners that are open.
func (s *sockets) open() (open []*rpc.Listener) {
	for _, at := range s.fields() {
		if *at != nil {
			open = append(open, *at)
		}
	}
	return open
}

func openSockets(c *Config) (s sockets, err error) {
	fields := s.fields()
	for i, l := range c.listeners() {
		if *fields[i], err = rpc.Listen(l.flag, l.address); err != nil {
			s.close()
			return sockets{}, err
		}
	}
	return s, nil
}

func (s *sockets) close() {
	for _, l := range s.open() {
		l.Close()
	}
}

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return rpc.NewServer(h, log, readTimeout)
}
