package rpc

import (
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// dialTimeout: a coordinator that does not accept within this time is tried later.
	dialTimeout = time.Second
	// keepAlive is the interval of probes that find a dead peer of an idle connection.
	keepAlive = 15 * time.Second
	// maxIdle suffices for one caller and a few concurrent forwards per peer.
	maxIdle = 32
)

// NewHTTPClient returns a client for calls between daemons. It uses HTTP/1.1 on purpose. A call
// that reaches its deadline closes its own connection, so that after a network cut the next call
// opens a new one. With HTTP/2 it would wait on a dead connection that many calls share. The client
// has no timeout: pass a context with a deadline.
func NewHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConns:        4 * maxIdle,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout / 2, // before the server closes the connection
		DisableCompression:  true,
	}}
}

// BaseURL returns the URL of an address given as host:port or as a URL.
func BaseURL(address string) string {
	if strings.Contains(address, "://") {
		return strings.TrimRight(address, "/")
	}
	return "http://" + address
}
