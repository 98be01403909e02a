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
	// unixMode lets the owner and the group connect: who may ask is a matter of the file.
	unixMode = 0o660
	// maxUnixPath is what the address of a socket holds, less its end.
	maxUnixPath = 107
	// unixProbe is how long a socket is asked whether anybody listens; on one machine the
	// answer is there at once.
	unixProbe = time.Second
)

// UnixPath is the path of an address like unix:///run/aliquot.sock; false if it is an
// address of another kind.
func UnixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// CheckUnix says what is wrong with the path of a socket; nil if nothing is.
func CheckUnix(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q: give an absolute path, such as unix:///run/aliquot/region.sock", path)
	case len(path) > maxUnixPath:
		return fmt.Errorf("the path has %d bytes; a socket's has at most %d", len(path), maxUnixPath)
	}
	return nil
}

// AddressOf is where a listener listens, as Listen takes it.
func AddressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixScheme + l.Addr().String()
	}
	return l.Addr().String()
}

// listenUnix opens a socket that its owner and its group may connect to; it is removed
// when it is closed. One that was left behind is replaced, one that somebody listens on is
// not, and neither is a file of another kind.
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
	// The socket has its mode before it has its name: there is no moment at which others
	// could connect. What the umask took is given back then.
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

// removeStale makes way for a socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket; remove it, or choose another path")
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

// ClientOf is a client for the daemon at an address, host:port, a URL or that of a unix
// socket, and the base URL of its services. It is like NewHTTPClient.
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
