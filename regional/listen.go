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

// sockets are the daemon's open listeners.
type sockets struct{ connect, grpc, ops *rpc.Listener }

func openSockets(c *Config) (s sockets, err error) {
	for i, at := range []**rpc.Listener{&s.connect, &s.grpc, &s.ops} {
		l := c.listeners()[i]
		if *at, err = rpc.Listen(l.flag, l.address); err != nil {
			s.close()
			return sockets{}, err
		}
	}
	return s, nil
}

func (s *sockets) close() {
	for _, l := range []*rpc.Listener{s.connect, s.grpc, s.ops} {
		if l != nil {
			l.Close()
		}
	}
}

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return rpc.NewServer(h, log, readTimeout)
}
