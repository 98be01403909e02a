package load

import (
	"context"
	"net"
	"strings"
)

// unixPrefix begins the address of a socket in the file system.
const unixPrefix = "unix:"

func dial(ctx context.Context, c *Config) (net.Conn, error) {
	d := net.Dialer{Timeout: c.Timeout}
	if path, ok := strings.CutPrefix(c.Address, unixPrefix); ok {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, "tcp", hostOf(c.Address))
}

// hostOf is host:port of an address that may be a URL.
func hostOf(address string) string {
	if strings.HasPrefix(address, unixPrefix) {
		return "localhost"
	}
	address = strings.TrimPrefix(address, "http://")
	host, _, _ := strings.Cut(address, "/")
	return host
}
