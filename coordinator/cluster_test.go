package coordinator_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/coordinator"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestThreeCoordinators: any node takes writes and leases and shows the same
// shares; the leader's death costs an election and nothing else.
func TestThreeCoordinators(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	leader, followers := split(t, all)

	version := uint64(0)
	for _, r := range all { // each from the version the one before made
		res, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: someRules, ExpectedVersion: &version})
		if err != nil || res.GetVersion() != version+1 {
			t.Fatalf("ApplyRules at %s: %v, %v", r.cfg.NodeID, res, err)
		}
		version = res.GetVersion()
	}
	_, err := followers[0].rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: "rules: 1"})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "rules:1:8") {
		t.Errorf("a refusal should be forwarded as it is: %v", err)
	}
	testHopLimit(t, leader, followers[0])

	var admitted atomic.Int64
	usage := func(name string, held bool) []*aliquotv1.KeyReport {
		if name != "us" {
			return nil
		}
		if !held {
			return []*aliquotv1.KeyReport{wants(1, "0123456789abcdef", 0, 0)}
		}
		n := admitted.Add(10)
		return []*aliquotv1.KeyReport{wants(1, "0123456789abcdef", n, 100*n)}
	}
	// Regions speak to followers: the lease is forwarded.
	inBackground(t, usage, newRegion(followers[0].lease, "us"), newRegion(followers[1].lease, "eu"), newRegion(followers[0].lease, "ap"))
	for _, r := range all {
		waitShare(t, r, 0.9)
	}
	testSameEverywhere(t, all)

	before := status(t, leader)
	leader.stop(t)
	split(t, followers)
	for _, r := range followers {
		eventually(t, func() string {
			if s := status(t, r); s.GetEpoch() <= before.GetEpoch() {
				return "no new epoch"
			}
			return ""
		})
	}
	for _, r := range followers {
		waitShare(t, r, 0.9)
		if s := status(t, r); s.GetRulesVersion() != version || s.GetClusterId() != before.GetClusterId() {
			t.Errorf("after the election: %v", s)
		}
	}
	testSameEverywhere(t, followers)

	again := start(t, leader.cfg)
	again.waitReady(t)
	if s := status(t, again); s.GetRulesVersion() != version || len(s.GetMembers()) != 3 {
		t.Errorf("the old leader came back as %v", s)
	}
}

func testHopLimit(t *testing.T, leader, follower *running) {
	const hello = `{"region":"us","nonce":"1"}`
	if code, body := follower.post(t, "LeaseService/Hello", hello, "Aliquot-Hops", "1"); code != http.StatusServiceUnavailable || !strings.Contains(body, "no leader is known; retry") {
		t.Errorf("a second hop: %d %s", code, body)
	}
	if code, body := leader.post(t, "LeaseService/Hello", hello, "Aliquot-Hops", "1"); code != http.StatusOK {
		t.Errorf("a first hop at the leader: %d %s", code, body)
	}
	// Reads stay local, and do not ask the leader a second time.
	code, body := follower.post(t, "BudgetService/GetBudget", `{"ruleId":"all"}`, "Aliquot-Hops", "1")
	if code != http.StatusOK {
		t.Errorf("a forwarded read: %d %s", code, body)
	}
}

// waitShare waits until r shows the busy region with more than this share.
func waitShare(t *testing.T, r *running, above float64) {
	t.Helper()
	eventually(t, func() string {
		res, err := r.budgets.ListBudgets(t.Context(), &aliquotv1.ListBudgetsRequest{})
		switch {
		case err != nil:
			return err.Error()
		case len(res.GetBudgets()) == 0:
			return "no hot key at " + r.cfg.NodeID
		}
		checkSum(t, res.GetBudgets()[0])
		if us := res.GetBudgets()[0].GetRegions()[0]; us.GetShare() <= above || us.GetState() != "live" {
			return r.cfg.NodeID + " shows " + us.String()
		}
		return ""
	})
}

// testSameEverywhere: at one applied index all coordinators show the same shares.
func testSameEverywhere(t *testing.T, all []*running) {
	t.Helper()
	eventually(t, func() string {
		var first *aliquotv1.Budget
		for _, r := range all {
			res, err := r.budgets.ListBudgets(t.Context(), &aliquotv1.ListBudgetsRequest{})
			if err != nil || len(res.GetBudgets()) != 1 {
				return "not one budget at " + r.cfg.NodeID
			}
			b := res.GetBudgets()[0]
			checkSum(t, b)
			for _, region := range b.GetRegions() { // the ledger's part only
				region.Tokens, region.Admitted, region.Offered, region.LeaseRemaining, region.Generation, region.State = 0, 0, 0, nil, "", ""
			}
			b.AppliedIndex = 0
			if first == nil {
				first = b
			} else if !proto.Equal(first, b) {
				return "they differ: " + first.String() + " and " + b.String()
			}
		}
		return ""
	})
}

// TestReadYourWrites: a client that changes the rules through a follower finds them in
// force there at once.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	_, followers := split(t, startCluster(t, 3))
	for i := range 20 {
		r := followers[i%len(followers)]
		var want uint64
		eventually(t, func() string { // a slow disk may cost an election meanwhile
			res, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: someRules})
			want = res.GetVersion()
			return errorText(err)
		})
		res, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
		if err != nil || res.GetVersion() != want {
			t.Fatalf("%s made version %d, then answered version %d (%v)", r.cfg.NodeID, want, res.GetVersion(), err)
		}
	}
}

// TestWipedCoordinatorJoinsAgain: a node that lost its disk comes back as a new
// instance of itself, by the join RPC alone: a voter again, its older instance gone.
func TestWipedCoordinatorJoinsAgain(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	leader, followers := split(t, all)
	version := leader.applyRules(t, someRules)
	wiped, other := followers[0], followers[1]
	wiped.cfg.Join = []string{leader.Gossip, other.Gossip} // the first one was started without
	before := identityOf(t, wiped.cfg.DataDir)
	wiped.stop(t)
	if err := os.RemoveAll(wiped.cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	wiped = start(t, wiped.cfg)
	if after := identityOf(t, wiped.cfg.DataDir); after.Instance == before.Instance {
		t.Fatalf("the wiped node is still instance %s", before.Instance)
	}
	eventually(t, func() string {
		if !identityOf(t, wiped.cfg.DataDir).Member {
			return "it has not found itself a voter"
		}
		return ""
	})
	for _, r := range []*running{leader, other, wiped} {
		eventually(t, func() string {
			s := status(t, r)
			voters := map[string]bool{}
			for _, m := range s.GetMembers() {
				if m.GetSuffrage() == "voter" {
					voters[m.GetNodeId()] = true
				}
			}
			if len(s.GetMembers()) != 3 || len(voters) != 3 || s.GetRulesVersion() != version {
				return r.cfg.NodeID + " shows " + s.String()
			}
			return ""
		})
	}
	// It counts: without the third node nothing commits but with its vote.
	other.stop(t)
	eventually(t, func() string {
		_, err := wiped.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: someRules})
		return errorText(err)
	})
}

// identity is part of what a data directory knows of its node.
type identity struct {
	Instance string `json:"instance_id"`
	Member   bool   `json:"member"` // this instance found itself a voter
}

func identityOf(t *testing.T, dir string) (id identity) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "node.json"))
	if err == nil {
		err = json.Unmarshal(data, &id)
	}
	if err != nil || id.Instance == "" {
		t.Fatalf("node.json: %s (%v)", data, err)
	}
	return id
}

// TestNoMajority: without a leader reads are answered, writes are unavailable.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	leader, followers := split(t, all)
	leader.applyRules(t, someRules)
	eventually(t, func() string {
		if v := status(t, followers[0]).GetRulesVersion(); v != 1 {
			return "rules have not arrived"
		}
		return ""
	})
	leader.stop(t)
	followers[1].stop(t)
	last := followers[0]
	eventually(t, func() string {
		if code, _ := last.get(t, "http://"+last.Ops+"/readyz"); code != http.StatusServiceUnavailable {
			return "still ready"
		}
		return ""
	})
	eventually(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := last.rules.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: someRules})
		if connect.CodeOf(err) != connect.CodeUnavailable {
			return "ApplyRules: " + errorText(err)
		}
		return ""
	})
	if err := newRegion(last.lease, "us").sayHello(t.Context()); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("Hello: %v", err)
	}
	b, err := last.budgets.GetBudget(t.Context(), &aliquotv1.GetBudgetRequest{RuleId: "all"})
	if err != nil || len(b.GetBudget().GetRegions()) != 3 {
		t.Errorf("GetBudget: %v, %v", b, err)
	}
	if s := status(t, last); s.GetLeaderId() != "" || s.GetRegions()[0].GetState() != "unknown" {
		t.Errorf("status %v", s)
	}
}

func TestRefusedConfig(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name   string
		change func(*coordinator.Config)
		want   string
	}{
		{"no node id", func(c *coordinator.Config) { c.NodeID = "" }, "--node-id"},
		{"no data dir", func(c *coordinator.Config) { c.DataDir = "" }, "--data-dir"},
		{"open listener", func(c *coordinator.Config) { c.Listen = "0.0.0.0:0" }, "--insecure"},
		{"open ops listener", func(c *coordinator.Config) { c.OpsListen = ":0" }, "--ops-listen :0"},
		{"same port twice", func(c *coordinator.Config) { c.Listen, c.OpsListen = "127.0.0.1:7", "127.0.0.1:7" }, "--listen has the same address"},
		{"no port", func(c *coordinator.Config) { c.Listen = "localhost" }, "give host:port"},
		{"port in use", func(c *coordinator.Config) { c.Listen = taken.Addr().String() }, "--listen " + taken.Addr().String()},
		{"ops port in use", func(c *coordinator.Config) { c.OpsListen = taken.Addr().String() }, "--ops-listen " + taken.Addr().String()},
		{"raft port in use", func(c *coordinator.Config) { c.RaftListen = taken.Addr().String() }, "--raft-listen " + taken.Addr().String()},
		{"no rules file", func(c *coordinator.Config) { c.RulesFile = "/nowhere.yaml" }, "--rules"},
		{"no regions", func(c *coordinator.Config) { c.Regions = nil }, "--regions"},
		{"multiplier", func(c *coordinator.Config) { c.RaftMultiplier = 0 }, "--raft-multiplier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t, 1, 1)
			c.change(&cfg)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := coordinator.Run(ctx, cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// TestStopEndsWatchesAndHeldReports: nothing that a caller waits for holds up the daemon's end.
func TestStopEndsWatchesAndHeldReports(t *testing.T) {
	cfg := coordinator.CutOffAfter(testConfig(t, 1, 1), 2*patience) // not before stop fails the test
	r := start(t, cfg)
	r.waitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	stream, err := r.budgets.WatchBudgets(ctx, &aliquotv1.WatchBudgetsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	us := newRegion(r.lease, "us")
	eventually(t, func() string { return errorText(us.sayHello(t.Context())) })
	inBackground(t, func(string, bool) []*aliquotv1.KeyReport { return nil }, us)
	r.stop(t)
	for stream.Receive() {
	}
	if err := stream.Err(); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "this coordinator is stopping") {
		t.Errorf("the watch ended with %v", err)
	}
}
