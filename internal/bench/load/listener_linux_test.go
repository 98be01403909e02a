package load

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestTheListeningProcessIsFound(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, address := range []string{tcp.Addr().String(), "http://" + tcp.Addr().String() + "/", "unix://" + path} {
		if got := listener(address); got != os.Getpid() {
			t.Errorf("%s: process %d, want %d", address, got, os.Getpid())
		}
	}
	if got := listener("127.0.0.1:1"); got != 0 {
		t.Errorf("process %d listens where nobody does", got)
	}
}
