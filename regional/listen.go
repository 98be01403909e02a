package regional

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"aliquot/internal/rpc"
	"aliquot/regional/internal/api"
	"aliquot/regional/internal/overload"
)

const (
	// readTimeout ends attacks by slow bodies. A batch of 4 MiB needs 0.4 MiB/s.
	readTimeout = 10 * time.Second
	// writeTimeout is how long a client may take to read an answer, and over HTTP/1.1 up to twice as long.
	writeTimeout = 10 * time.Second
)

// server is what the daemon serves on a listener of its own.
type server struct {
	// flag sets the address of the listener, and usage is its help text.
	flag, usage string
	// address returns the setting of the address. It may be empty for an optional server, which then is not served.
	address  func(c *Config) *string
	optional bool
	// serve serves the connections of the listener until it is closed or end is called.
	serve func(d *Daemon, l net.Listener) error
	// end ends the server after the calls under way, or when ctx ends. It runs beside the others. Nil: another
	// server's end does it.
	end func(ctx context.Context, d *Daemon)
}

// The flags of listeners that others name.
const (
	flagListen     = "listen"
	flagGRPCListen = "grpc-listen"
	flagOpsListen  = "ops-listen"
)

// servers are the servers of a daemon, in the order of its help. Clients reach theirs through the door, which
// bounds how much is decided at once, and the throttle.
var servers = [...]server{
	{
		flag: flagListen, usage: "`address` for Connect RPC, JSON over HTTP and GET /check: host:port or unix:///path",
		address: func(c *Config) *string { return &c.Listen },
		serve: func(d *Daemon, l net.Listener) error {
			return d.http.Serve(d.door.Listener(d.throttle.Listener(rpc.BoundWrites(l, writeTimeout)), overload.BringsHTTP))
		},
		end: func(ctx context.Context, d *Daemon) {
			d.drainer.wait(d.drainWithin)
			shutDown(ctx, d.http)
			shutDown(ctx, d.ops) // it answers until the clients of HTTP have left
		},
	},
	{
		flag: flagGRPCListen, usage: "`address` for gRPC: host:port or unix:///path",
		address: func(c *Config) *string { return &c.GRPCListen },
		serve: func(d *Daemon, l net.Listener) error {
			return d.grpc.Serve(api.PartialMessages().Listener(d.door.Listener(d.throttle.Listener(l), overload.BringsGRPC)))
		},
		end: func(ctx context.Context, d *Daemon) {
			hard := context.AfterFunc(ctx, d.grpc.Stop)
			d.grpc.GracefulStop()
			hard()
		},
	},
	{
		flag: flagOpsListen, usage: "`address` for /metrics, /healthz and /readyz",
		address: func(c *Config) *string { return &c.OpsListen },
		serve:   func(d *Daemon, l net.Listener) error { return d.ops.Serve(l) },
	},
}

// listener is one of the daemon's addresses, with the flag that sets it.
type listener struct{ flag, address string }

// listeners returns the addresses on which the daemon listens, in the order of servers.
func (c *Config) listeners() (all []listener) {
	for i := range servers {
		if address := *servers[i].address(c); address != "" || !servers[i].optional {
			all = append(all, listener{servers[i].flag, address})
		}
	}
	return all
}

// sockets are the daemon's open listeners, by their flags.
type sockets map[string]*rpc.Listener

// open returns the listeners in the order of servers.
func (s sockets) open() (open []*rpc.Listener) {
	for i := range servers {
		if l := s[servers[i].flag]; l != nil {
			open = append(open, l)
		}
	}
	return open
}

func openSockets(c *Config) (sockets, error) {
	s := sockets{}
	for _, l := range c.listeners() {
		socket, err := rpc.Listen(l.flag, l.address)
		if err != nil {
			s.close()
			return nil, err
		}
		s[l.flag] = socket
	}
	return s, nil
}

func (s sockets) close() {
	for _, l := range s.open() {
		l.Close()
	}
}

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return rpc.NewServer(h, log, readTimeout)
}
