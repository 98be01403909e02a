package rpc

import (
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Limits of an HTTP listener.
const (
	// readHeaderTimeout ends attacks by slow headers.
	readHeaderTimeout = 5 * time.Second
	// idleTimeout closes an unused connection. It is longer than the keep-alive of the usual
	// proxies (60-75 s), so that the client side closes first.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes has room for cookies and traces, but not for a flood.
	maxHeaderBytes = 16 << 10
	// maxStreams caps the concurrent requests of one HTTP/2 connection, at the least that RFC 9113 (5.1.2)
	// recommends. Each has a goroutine with a stack of some 30 KB, also while it is refused.
	maxStreams = 100
	// MaxConnections caps a listener's open connections, so that idle ones cannot use up the
	// process's file descriptors.
	MaxConnections = 16_384
	// MaxPeerConnections caps the connections of one address, so that one peer cannot take them
	// all. The peers of a unix socket have no address.
	MaxPeerConnections = MaxConnections / 4
	// pingAfter is the silence after which a ping checks whether an HTTP/2 peer is dead.
	pingAfter   = 15 * time.Second
	pingTimeout = 5 * time.Second
	// blockedTimeout ends an HTTP/2 connection that takes no byte. Pings do not find a client that
	// sends and does not read: any frame counts as a sign of life, and the ping waits behind the
	// data that is not read.
	blockedTimeout = 10 * time.Second
)

// NewServer returns a server for HTTP/1.1 and HTTP/2 with limits. HTTP/2 also works without TLS
// (h2c, which gRPC clients use). readTimeout bounds the reading of one request with its body. 0
// means no bound, which a server of long streams over HTTP/1.1 needs, because net/http ends the
// stream at that deadline.
func NewServer(h http.Handler, log *slog.Logger, readTimeout time.Duration) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
			WriteByteTimeout:     blockedTimeout,
		},
		ErrorLog: stdlog.New(serverLog{log}, "", 0),
	}
}

// Listen opens the TCP address, or the unix socket (unix:///path), that the flag has, for at most
// MaxConnections connections at a time. Its error names the flag, the address and what to do.
func Listen(flag, address string) (*Listener, error) {
	if path, ok := UnixPath(address); ok {
		l, err := listenUnix(flag, path)
		if err != nil {
			return nil, err
		}
		return newListener(flag, l), nil
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--%s %s: the port is in use; stop what listens there or choose another port", flag, address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("--%s %s: not permitted; ports below 1024 need privileges, choose a higher one", flag, address)
	case err != nil:
		return nil, fmt.Errorf("--%s %s: %w; give host:port of an address of this machine", flag, address, err)
	}
	return newListener(flag, l), nil
}

// IsLoopback reports whether a listen address can be reached only from this host. It returns false
// for a name other than "localhost".
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
