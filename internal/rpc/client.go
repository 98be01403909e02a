package rpc

import (
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// dialTimeout: a coordinator that does not accept within it is tried later.
	dialTimeout = time.Second
	// keepAlive finds a dead peer of an idle connection.
	keepAlive = 15 * time.Second
	// maxIdle is enough for one caller and a few concurrent forwards per peer.
	maxIdle = 32
)

// NewHTTPClient is a client for calls between daemons. It speaks HTTP/1.1 on
// purpose: a call that runs into its deadline closes its own connection, so after
// a network cut the next call dials afresh rather than waiting on a dead
// connection that many calls share. It has no timeout of its own: pass a context
// with a deadline.
func NewHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConns:        4 * maxIdle,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout / 2, // before the server closes it
		DisableCompression:  true,
	}}
}

// BaseURL is the URL of an address given as host:port or as a URL.
func BaseURL(address string) string {
	if strings.Contains(address, "://") {
		return strings.TrimRight(address, "/")
	}
	return "http://" + address
}
