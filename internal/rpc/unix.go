package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	unixScheme = "unix://"
	// unixMode lets the owner and the group connect: the permissions of the file decide who may
	// call.
	unixMode = 0o660
	// maxUnixPath is the longest path that a socket address can have, without the terminating zero.
	maxUnixPath = 107
	// unixProbe is how long a probe waits to learn whether a process listens on a socket. On one
	// host the answer is immediate.
	unixProbe = time.Second
)

// UnixPath returns the path of an address like unix:///run/aliquot.sock, and false for an address
// of another kind.
func UnixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// CheckUnix returns an error if the path cannot be that of a socket.
func CheckUnix(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q: give an absolute path, such as unix:///run/aliquot/region.sock", path)
	case len(path) > maxUnixPath:
		return fmt.Errorf("the path has %d bytes; a socket's has at most %d", len(path), maxUnixPath)
	}
	return nil
}

// AddressOf returns a listener's address in the form that Listen takes.
func AddressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixScheme + l.Addr().String()
	}
	return l.Addr().String()
}

// listenUnix opens a socket that its owner and its group may connect to. Closing the listener
// removes it. A socket that an earlier process left behind is replaced. A socket on which a process
// listens is not replaced, and neither is a file of another kind.
func listenUnix(flag, path string) (net.Listener, error) {
	refuse := func(err error) (net.Listener, error) {
		return nil, fmt.Errorf("--%s %s%s: %w", flag, unixScheme, path, err)
	}
	if err := CheckUnix(path); err != nil {
		return refuse(err)
	}
	if err := removeStale(path); err != nil {
		return refuse(err)
	}
	// The socket gets its mode before its name, so that others cannot connect at any moment.
	// Afterwards Chmod restores the bits that the umask removed.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), unixMode) })
		return errors.Join(err, controlErr)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return refuse(fmt.Errorf("%w; the folder must exist, and this process must be allowed to write to it", err))
	}
	if err := os.Chmod(path, unixMode); err != nil {
		l.Close()
		return refuse(err)
	}
	return l, nil
}

// removeStale removes a socket on which no process listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is not a socket; remove it, or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, unixProbe)
	switch {
	case err == nil:
		conn.Close()
		return errors.New("the socket is in use; stop what listens there, or choose another path")
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
	default:
		return fmt.Errorf("the socket that is there: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ClientOf returns a client for the daemon at an address, and the base URL of its services. The
// address is host:port, a URL, or that of a unix socket. The client is like that of NewHTTPClient.
func ClientOf(address string) (client *http.Client, base string) {
	client = NewHTTPClient()
	path, ok := UnixPath(address)
	if !ok {
		return client, BaseURL(address)
	}
	if transport, ok := client.Transport.(*http.Transport); ok {
		dialer := &net.Dialer{Timeout: dialTimeout}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	}
	return client, "http://localhost"
}
