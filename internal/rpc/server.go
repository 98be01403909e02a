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
	// readHeaderTimeout ends slow-header attacks.
	readHeaderTimeout = 5 * time.Second
	// idleTimeout closes a connection nobody uses, longer than the keep-alive of
	// the usual proxies (60-75 s) so that the client side closes first.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes leaves room for cookies and traces, not for a flood.
	maxHeaderBytes = 16 << 10
	// maxStreams bounds the concurrent requests of one HTTP/2 connection.
	maxStreams = 250
	// MaxConnections bounds a listener's open connections, so that idle ones
	// cannot use up the process's file descriptors.
	MaxConnections = 16_384
	// MaxPeerConnections bounds those of one address, so that one peer cannot take them all. A unix
	// socket's peers have no address.
	MaxPeerConnections = MaxConnections / 4
	// pingAfter finds a dead HTTP/2 peer.
	pingAfter   = 15 * time.Second
	pingTimeout = 5 * time.Second
	// blockedTimeout ends an HTTP/2 connection that takes no byte. Pings do not find one
	// whose client sends and does not read: any frame counts as a sign of life, and the ping
	// stands behind what is not read.
	blockedTimeout = 10 * time.Second
)

// NewServer is an HTTP/1.1 and HTTP/2 server, the latter without TLS too (h2c,
// which gRPC clients use), with limits set. readTimeout bounds the reading of one
// request, its body included; 0 means no bound, which a server of long streams
// over HTTP/1.1 needs (net/http ends the stream at that deadline).
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

// Listen opens the TCP address, or the unix socket (unix:///path), that flag was given,
// for at most MaxConnections connections at a time. Its error names the flag, the address
// and what to do.
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

// IsLoopback reports whether a listen address can only be reached from this
// machine. A host that is neither "localhost" nor an IP address is not.
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
