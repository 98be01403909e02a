package load

import (
	"context"
	"net"
	"strings"

	"aliquot/internal/rpc"
)

func dial(ctx context.Context, c *Config) (net.Conn, error) {
	d := net.Dialer{Timeout: c.Timeout}
	if path, ok := rpc.UnixPath(c.Address); ok {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, "tcp", hostOf(c.Address))
}

// isAddress tells whether an address can be dialled.
func isAddress(address string) bool {
	if path, ok := rpc.UnixPath(address); ok {
		return rpc.CheckUnix(path) == nil
	}
	host, port, err := net.SplitHostPort(hostOf(address))
	return err == nil && host != "" && port != "" && !strings.Contains(host, "://")
}

// hostOf is host:port of an address that may be a URL.
func hostOf(address string) string {
	if _, ok := rpc.UnixPath(address); ok {
		return "localhost"
	}
	address = strings.TrimPrefix(address, "http://")
	host, _, _ := strings.Cut(address, "/")
	return host
}
