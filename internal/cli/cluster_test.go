package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"aliquot/coordinator"
	"aliquot/internal/testaddr"
)

// coordinators runs three that form a cluster and returns their RPC addresses by
// node id.
func coordinators(t *testing.T) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	var join []string
	for i := range 3 {
		cfg := coordinator.DefaultConfig()
		cfg.NodeID, cfg.DataDir, cfg.BootstrapExpect, cfg.Join = fmt.Sprintf("c%d", i+1), t.TempDir(), 3, join
		address := testaddr.Free()
		cfg.Listen, cfg.RaftListen, cfg.GossipListen, cfg.OpsListen = address, address, address, address
		cfg.Regions, cfg.Logger = []string{"us"}, slog.New(slog.DiscardHandler)
		cfg.RaftMultiplier = 3 // a pause of this machine is no reason for an election
		listening, ended := make(chan coordinator.Addresses, 1), make(chan error, 1)
		cfg.OnListening = func(a coordinator.Addresses) { listening <- a }
		ctx, stop := context.WithCancel(context.Background())
		go func() { ended <- coordinator.Run(ctx, cfg) }()
		select {
		case a := <-listening:
			addresses[cfg.NodeID], join = a.RPC, append(join, a.Gossip)
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(patience):
			t.Fatal("a coordinator did not come up")
		}
		t.Cleanup(func() {
			stop()
			<-ended
		})
	}
	return addresses
}

func TestClusterMembersAndRemove(t *testing.T) {
	at := coordinators(t)
	for _, address := range at { // each node hears of the others, and of the leader, in its own time
		for _, part := range []string{"c1", "c2", "c3", "yes"} {
			await(t, part, func() string { return command(t, "", "cluster", "members", "--addr", address).out })
		}
	}
	var answer struct {
		Members []struct {
			NodeID string `json:"nodeId"`
			Leader bool   `json:"leader"`
		} `json:"members"`
	}
	members := func(args ...string) (leader, other string) {
		t.Helper()
		got := command(t, "", append(args, "-o", "json")...)
		answer.Members = nil
		if err := json.Unmarshal([]byte(got.out), &answer); err != nil || got.code != exitOK {
			t.Fatalf("exit %d, %v: %s%s", got.code, err, got.out, got.err)
		}
		for _, m := range answer.Members {
			if m.Leader {
				leader = m.NodeID
			} else {
				other = m.NodeID
			}
		}
		return leader, other
	}
	leader, other := members("cluster", "members", "--addr", at["c1"])
	if len(answer.Members) != 3 || leader == "" {
		t.Fatalf("members: %+v", answer.Members)
	}
	command(t, "", "cluster", "members", "--addr", at[other]).want(t, exitOK, "COORDINATOR", "voter", "c1", "c2", "c3")
	command(t, "", "cluster", "members", "--addr", at[other], "-o", "yaml").want(t, exitOK, "members:", "nodeId: c3")
	await(t, "lease 10s  rho 0.02", func() string { return command(t, "", "cluster", "timing", "--addr", at[other]).out })
	command(t, "", "cluster", "timing", "--addr", at[other], "--lease", "30s", "--rho", "0.05").want(t, exitOK,
		"lease 10s (becomes 30s; until then everyone waits for 30s)  rho 0.05 (not acknowledged")
	command(t, "", "cluster", "status", "--addr", at[leader]).want(t, exitOK, "becomes 30s")
	command(t, "", "cluster", "timing", "--addr", at[other], "--lease", "1s").want(t, exitError, "from 2s to 10m")
	command(t, "", "cluster", "timing", "--addr", at[other], "--rho", "2").want(t, exitError, "invalid_argument")
	command(t, "", "cluster", "remove").want(t, exitUsage, "remove NODE")
	command(t, "", "cluster", "remove", "c7", "--addr", at[other]).want(t, exitError, "c1, c2, c3", "not_found")
	command(t, "", "cluster", "remove", leader, "--addr", at[other]).want(t, exitError, "nothing was removed", "stop its process")
	removed := command(t, "", "cluster", "remove", other, "--addr", at[leader])
	removed.want(t, exitOK, other+" is removed; what remains:", leader)
	if rows := strings.Count(removed.out, "voter"); rows != 2 {
		t.Errorf("%d voters remain in\n%s", rows, removed.out)
	}
	if _, third := members("cluster", "remove", lastOf(leader, other), "--addr", at[leader]); third != "" || len(answer.Members) != 1 {
		t.Errorf("what remains: %+v", answer.Members)
	}
}

// lastOf the three node ids.
func lastOf(leader, other string) string {
	for _, id := range []string{"c1", "c2", "c3"} {
		if id != leader && id != other {
			return id
		}
	}
	return ""
}
