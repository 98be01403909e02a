package regional

import (
	"net/http"
	"testing"
	"time"
)

// A request that comes on an idle connection after the daemon was told to stop is answered,
// and told to be the last there; a proxy is told to ask another daemon.
func TestIdleConnectionsAreSentAway(t *testing.T) {
	c := testConfig(newLeader(t, "rules: []\n").address())
	d, stop := startLive(t, c)
	d.drainWithin = time.Hour
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	get := func() *http.Response {
		t.Helper()
		out, err := client.Get("http://" + d.Addr() + "/check")
		if err != nil {
			t.Fatal(err)
		}
		out.Body.Close()
		return out
	}
	if get().Close {
		t.Fatal("a connection was ended by a daemon that goes on")
	}
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	<-d.stopping
	if out := get(); out.StatusCode != http.StatusOK || !out.Close {
		t.Errorf("while the daemon stops: %s, the last of its connection: %v", out.Status, out.Close)
	}
	if r := d.readiness(); r.Ready {
		t.Error("ready while it stops")
	}
	select {
	case <-stopped:
	case <-time.After(pollFor):
		t.Error("the daemon waits on though no connection is left")
	}
}
