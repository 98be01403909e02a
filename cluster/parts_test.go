package cluster

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/cluster/state"
)

// hashicorp/raft issues 696 and 503: a leader that cannot get anything applied gives up.
func TestStuckLeaderFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.start(l.config("c1"))
	l.leader(n)
	release := make(chan struct{})
	var held sync.WaitGroup
	held.Go(func() { n.View(func(*state.State) { <-release }) })
	defer held.Wait()
	defer close(release)
	select {
	case err := <-n.Failed():
		if !errors.Is(err, ErrLeaderStuck) {
			t.Errorf("failed with %v", err)
		}
	case <-time.After(patience):
		t.Error("the leader went on leading nothing")
	}
}

func TestGossipKeyFile(t *testing.T) {
	raw := []byte("0123456789abcdef")
	for name, c := range map[string]struct {
		data []byte
		mode os.FileMode
		want []byte
	}{
		"raw 16":         {raw, 0o600, raw},
		"raw 32":         {append(raw, "0123456789abcde\x00"...), 0o600, append(raw, "0123456789abcde\x00"...)},
		"base64":         {[]byte(base64.StdEncoding.EncodeToString(raw) + "\n"), 0o600, raw},
		"wrong length":   {raw[1:], 0o600, nil},
		"world-readable": {raw, 0o644, nil},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, c.data, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := loadGossipKey(path)
		if !bytes.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// count is how many lines hold both parts.
func (l *logged) count(parts ...string) (lines int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines++
		}
	}
	return lines
}

func TestStrangersAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, c *Config)
		says   string
	}{
		"another label": {func(_ *testing.T, c *Config) { c.Label = "other" }, "another cluster label"},
		"another key": {func(t *testing.T, c *Config) {
			c.GossipKeyFile = filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(c.GossipKeyFile, []byte("0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "another gossip key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			var heard logged
			first := l.config("c1")
			first.Logger = slog.New(slog.NewTextHandler(&heard, &slog.HandlerOptions{Level: slog.LevelDebug}))
			host := l.start(first)
			l.leader(host)
			stranger := l.config("c2")
			stranger.BootstrapExpect = 0
			stranger.Join = []string{host.GossipAddress()}
			c.change(t, &stranger)
			other := l.start(stranger)
			for range 3 {
				if err := other.gossip.Join(stranger.Join[0]); err == nil {
					t.Error("the stranger's join succeeded")
				}
			}
			eventually(t, "four refusals", func() bool { return heard.count("", c.says) >= 4 })
			if got := heard.count("level=WARN", c.says); got != 1 {
				t.Errorf("%d warnings, want one a minute", got)
			}
			if len(host.gossip.Peers.Others(host.serverID)) != 0 || other.Status().State != "starting" {
				t.Error("the stranger got in")
			}
		})
	}
}

func TestTwoClustersOfOneLabelStayApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.start(l.config("a1"))
	l.leader(a)
	b := l.config("b1")
	second := l.start(b)
	l.leader(second)
	eventually(t, "b's identity on disk", func() bool {
		return second.gossip.Announced().Cluster != "" && a.gossip.Announced().Cluster != ""
	})
	if err := second.gossip.Join(a.GossipAddress()); err == nil {
		t.Error("two clusters merged")
	}
	for _, n := range []*Node{a, second} {
		if got := len(n.gossip.Peers.Others(n.serverID)); got != 0 {
			t.Errorf("%s sees %d peers", n.NodeID(), got)
		}
	}
}

func TestSecondNodeOfOneIDGivesWay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.start(l.config("c1"))
	l.leader(first)
	c := l.config("twin")
	c.NodeID, c.RPCAddress = "c1", "rpc-twin"
	c.Join = []string{first.GossipAddress()}
	c.BootstrapExpect = 0
	twin := l.start(c)
	select {
	case err := <-twin.Failed():
		if !errors.Is(err, ErrNodeAlive) {
			t.Errorf("failed with %v", err)
		}
	case <-time.After(duplicatePatience + patience):
		t.Error("two nodes share an id")
	}
	if err := first.Join(t.Context(), "c1", twin.InstanceID(), twin.RaftAddress()); !errors.Is(err, ErrNodeAlive) {
		t.Errorf("join under a live node's id: %v", err)
	}
}
