package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpNamesWhatEnded: when a port of one daemon is taken, `make up` shows that daemon's log and no
// other, stops what it started, and exits with an error.
func TestUpNamesWhatEnded(t *testing.T) {
	u := newTerminals(t, "")
	u.offset = portOffset()
	u.copyDeploy(t)
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 7510+u.offset))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	out, err := exec.Command(filepath.Join(u.dir, "deploy/local/up.sh")).CombinedOutput()
	if err == nil {
		t.Errorf("it exits with 0")
	}
	text := string(out)
	if !strings.Contains(text, "eu-west ended") || !strings.Contains(text, "the port is in use") {
		t.Errorf("it does not name the daemon and the reason:\n%s", text)
	}
	if strings.Count(text, "--- ") != 1 || strings.Contains(text, "--- .run/c1.log") {
		t.Errorf("it shows other logs too:\n%s", text)
	}
	for _, port := range []int{7400, 7500, 7600} {
		other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+u.offset))
		if err != nil {
			t.Errorf("it leaves a process: %v", err)
			continue
		}
		other.Close()
	}
}
