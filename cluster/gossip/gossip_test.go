package gossip

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
)

func TestGossipLog(t *testing.T) {
	var out strings.Builder
	warned := map[string]bool{}
	once := func(key string, _ time.Time) bool {
		news := !warned[key]
		warned[key] = true
		return news
	}
	w := &lineWriter{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), allow: once}
	say := func(line string) string {
		out.Reset()
		if _, err := w.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	label := `[ERR] memberlist: discarding stream with unacceptable label "other": from=10.0.0.9:4711`
	if got := say(label); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "another cluster label") || !strings.Contains(got, "10.0.0.9:4711") {
		t.Errorf("first refusal: %s", got)
	}
	if got := say(strings.Replace(label, "4711", "4712", 1)); !strings.Contains(got, "level=DEBUG") {
		t.Errorf("a repetition must be quiet: %s", got)
	}
	if got := say(strings.Replace(label, "0.9", "0.8", 1)); !strings.Contains(got, "level=WARN") {
		t.Errorf("another host is news: %s", got)
	}
	if got := say("[INFO] memberlist: Suspect x has failed"); !strings.Contains(got, "level=INFO") {
		t.Errorf("info: %s", got)
	}
}

func TestDeadStrangersAreForgotten(t *testing.T) {
	t.Parallel()
	peers := NewPeers()
	now := time.Now()
	for i, name := range []string{"c1/00000001", "c2/00000002", "c3/00000003"} {
		node, instance := SplitServerID(raft.ServerID(name))
		data, err := Meta{Role: RoleCoordinator, NodeID: node, InstanceID: instance, Raft: "127.0.0.1:1"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		peers.put(&memberlist.Node{Name: name, Meta: data}, i == 0)
	}
	peers.put(&memberlist.Node{Name: "another name", Meta: []byte(`{"r":"coordinator","n":"c4","i":"00000004","a":"127.0.0.1:1"}`)}, true)
	member := func(id raft.ServerID) bool { return id == "c2/00000002" }
	peers.Expire(now, member)
	if got := len(peers.Others("")); got != 3 {
		t.Errorf("%d peers at once, want 3", got)
	}
	peers.Expire(now.Add(2*expireAfter), member)
	if _, dead := peers.Get("c3/00000003"); dead || len(peers.Others("")) != 2 {
		t.Errorf("after a while: %v", peers.Others(""))
	}
}

func TestMetaListsMembers(t *testing.T) {
	one := Meta{Role: RoleCoordinator, NodeID: "c1", InstanceID: "00000001", Raft: "10.0.0.1:1", Expect: 3}
	config := raft.Configuration{Servers: []raft.Server{{ID: "c1/00000001"}, {ID: "c2/000000a2"}, {ID: "c3/10000000"}}}
	m := one.WithMembers(config)
	for instance, want := range map[string]bool{"00000001": true, "000000a2": true, "10000000": true, "00000100": false, "": false} {
		if got := m.Lists(instance); got != want {
			t.Errorf("%q among %q: %v", instance, m.Members, got)
		}
	}
	long := one
	long.RPC = strings.Repeat("x", 420) // a list would not fit beside it
	if m := long.WithMembers(config); m.Members != "" {
		t.Errorf("gossip cannot carry %q", m.Members)
	}
}
