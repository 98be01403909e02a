package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// healthy is an installation in which nothing is wrong. Tests change one thing of it.
func healthy() View {
	members := []*aliquotv1.Member{
		{NodeId: "c1", Address: "c1:7400", Suffrage: "voter"}, {NodeId: "c2", Address: "c2:7400", Suffrage: "voter"}, {NodeId: "c3", Address: "c3:7400", Suffrage: "voter"},
	}
	var v View
	for _, m := range members {
		v.Coordinators = append(v.Coordinators, Coordinator{Address: m.Address, NodeID: m.NodeId, Status: &aliquotv1.GetStatusResponse{
			NodeId: m.NodeId, State: "follower", LeaderId: "c1", ClusterId: "1", RulesVersion: 7, Members: members, Version: "0.1.0",
			Regions: []*aliquotv1.Region{{Name: "us", Status: "active", State: "live", RulesVersion: 7, DaemonVersion: "0.1.0"}},
		}})
	}
	v.Coordinators[0].Status.State = "leader"
	v.Daemons = []Daemon{{Region: "us", Ops: "us:7503", Ready: Readiness{Ready: true, Region: "us", Phase: "live", Session: true}, Store: Store{Kind: "redis"}}}
	v.Daemons[0].Store.Servers = []Server{{Server: "r:6379", EvictionPolicy: "noeviction", Hz: 100}}
	return v
}

// TestNoClusterYet: coordinators that wait for others are no cluster without rules and regions.
func TestNoClusterYet(t *testing.T) {
	v := View{Coordinators: []Coordinator{{Address: "c1:7400", NodeID: "c1", Status: &aliquotv1.GetStatusResponse{NodeId: "c1", State: "starting", Version: "0.1.0"}}}}
	if got := Examine(v); len(got) != 1 || got[0].Severity != Problem || !strings.Contains(got[0].What, "no cluster has been formed yet: 1 of the coordinators") {
		t.Errorf("found %+v", got)
	}
}

func TestNothingIsWrong(t *testing.T) {
	if got := Examine(healthy()); len(got) != 0 {
		t.Errorf("found %+v", got)
	}
}

// Each case breaks one thing of a healthy installation. The first finding says what.
func TestFindings(t *testing.T) {
	gone := errors.New("connection refused")
	for name, c := range map[string]struct {
		breaks                func(v *View)
		severity, about, what string
	}{
		"a coordinator is down": {func(v *View) { v.Coordinators[2].Status, v.Coordinators[2].Err = nil, gone }, Problem, "coordinator c3", "does not answer: connection refused"},
		"a coordinator that is a region": {func(v *View) {
			v.Coordinators[2] = Coordinator{Address: "us:7500", Err: connect.NewError(connect.CodeUnimplemented, errors.New("404 Not Found"))}
		}, Problem, "us:7500", "does not serve this (unimplemented: 404 Not Found); is --addr that of a coordinator?"},
		"no leader": {func(v *View) {
			for _, c := range v.Coordinators {
				c.Status.State, c.Status.LeaderId = "follower", ""
			}
		}, Problem, cluster, "no coordinator leads: 3 of 3 voters answer, and a majority is 2"},
		"another cluster":            {func(v *View) { v.Coordinators[1].Status.ClusterId = "2" }, Problem, "coordinator c2", "is of cluster 2, the others of 1"},
		"no vote":                    {func(v *View) { v.Coordinators[0].Status.Members[2].Suffrage = "nonvoter" }, Warning, "coordinator c3", "has no vote yet"},
		"no rules":                   {func(v *View) { v.Coordinators[0].Status.RulesVersion = 0 }, Problem, cluster, "there are no rules: every request passes"},
		"a region without the rules": {func(v *View) { v.Coordinators[0].Status.Regions[0].RulesVersion = 6 }, Warning, "region us", "enforces version 6 of the rules, and 7 is in force"},
		"a crowded table":            {func(v *View) { v.Coordinators[0].Status.HotKeys = 170_000 }, Warning, cluster, "170000 of 200000 places for hot keys"},
		"a silent region":            {func(v *View) { v.Coordinators[0].Status.Regions[0].State = "silent" }, Problem, "region us", "has not been heard"},
		"a new region": {func(v *View) {
			v.Coordinators[0].Status.Regions[0].Status, v.Coordinators[0].Status.Regions[0].State = "joining", "silent"
		}, Warning, "region us", "has no floor yet"},
		"a store of another kind": {func(v *View) {
			v.Daemons[0].Ready = Readiness{Region: "us", Ready: true, Phase: "limbo", StoreReached: new(bool)}
			v.Daemons[0].Store = Store{Kind: "redis", Error: "ERR unknown command", Remedy: "another kind"}
		}, Problem, "region us", "its store has not answered since the daemon's start, so it has no session, and each rule's on_redis_failure decides: ERR unknown command"},
		"a region that makes its way in": {func(v *View) {
			v.Coordinators[0].Status.Regions[0].Status = "joining"
			v.Coordinators[0].Status.Regions[0].State = "live"
		}, Note, "region us", "the other regions make room"},
		"a fenced region whose daemon runs": {func(v *View) {
			v.Coordinators[0].Status.Regions[0].Status, v.Daemons[0].Ready.Phase = "fenced", "limbo"
		}, Problem, "region us", "is fenced, and its daemon at us:7503 still runs"},
		"a store that only the leader knows to be down": {func(v *View) {
			v.Coordinators[0].Status.Regions[0].Storeless = true
			v.Daemons = nil
		}, Problem, "region us", "its store does not answer: its daemon goes on by what it remembers"},
		"a shared store":             {func(v *View) { v.Coordinators[0].Status.Regions[0].StoreSharedWith = "eu" }, Problem, "region us", "shares its store with region eu"},
		"a daemon out of reach":      {func(v *View) { v.Daemons[0].Err = gone }, Warning, "region us", "us:7503 cannot be asked from here"},
		"a daemon that is not ready": {func(v *View) { v.Daemons[0].Ready = Readiness{Region: "us", Reason: "no rules yet"} }, Problem, "region us", "is not ready: no rules yet"},
		"a region at its floor":      {func(v *View) { v.Daemons[0].Ready.Phase = "floor" }, Problem, "region us", "is in phase floor"},
		"a store that is down":       {func(v *View) { v.Daemons[0].Store.Down, v.Daemons[0].Store.Error = true, "i/o timeout" }, Problem, "region us", "its store does not answer, and each rule's on_redis_failure decides: i/o timeout"},
		"a store that evicts":        {func(v *View) { v.Daemons[0].Store.Servers[0].EvictionPolicy = "allkeys-lru" }, Problem, "region us", "maxmemory-policy allkeys-lru"},
		"a store that pauses":        {func(v *View) { v.Daemons[0].Store.Servers[0].Hz = 10 }, Note, "region us", "r:6379 has hz 10: it answers nobody for up to 25 ms"},
		"a store with a disk":        {func(v *View) { v.Daemons[0].Store.Servers[0].AppendOnly = true }, Warning, "region us", "r:6379 writes to its disk"},
		"a region without a session": {func(v *View) { v.Coordinators[0].Status.Regions[0].State = "no_session" }, Warning, "region us", "is heard and has no session"},
		"an outage that is over": {func(v *View) {
			v.Daemons[0].WithoutStore = []Decisions{{"login", "emergency", 12}, {"", "fail_open", 3}}
		}, Note, "region us", "its store answers now; 15 requests were decided without the store since the daemon's start: 12 of login (emergency), 3 of - (fail_open)"},
		"an older daemon": {func(v *View) { v.Coordinators[0].Status.Regions[0].DaemonVersion = "0.0.9" }, Warning, cluster, "several versions: 0.0.9, 0.1.0"},
		"a clock ahead": {func(v *View) {
			v.Coordinators[0].Clock = Clock{Known: true, Min: -time.Second, Max: time.Second}
			v.Daemons[0].Clock = Clock{Known: true, Min: 9 * time.Second, Max: 11 * time.Second}
		}, Warning, "region us", "its clock is at least 8s ahead of that of coordinator c1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := healthy()
			c.breaks(&v)
			got := Examine(v)
			if len(got) == 0 || got[0].Severity != c.severity || got[0].About != c.about || !strings.Contains(got[0].What, c.what) || got[0].Remedy == "" {
				t.Errorf("found %+v\nwant %s of %s: %s", got, c.severity, c.about, c.what)
			}
		})
	}
}

// TestOutOnPurpose: a region that was drained or fenced is told once, as a note, whether its daemon still answers or not.
func TestOutOnPurpose(t *testing.T) {
	gone := errors.New("connection refused")
	for name, c := range map[string]struct {
		status string
		daemon Daemon
		what   string
	}{
		"drained, stopped": {"drained", Daemon{Region: "us", Ops: "us:7503", Err: gone}, "is drained: nothing of any limit is left there"},
		"drained, stops":   {"drained", Daemon{Region: "us", Ops: "us:7503", Ready: Readiness{Region: "us", Reason: "stopping"}}, "is drained"},
		"drained, cut off": {"drained", Daemon{Region: "us", Ops: "us:7503", Ready: Readiness{Region: "us", Ready: true, Phase: "floor"}, Store: Store{Down: true}}, "is drained"},
		"fenced, stopped":  {"fenced", Daemon{Region: "us", Ops: "us:7503", Err: gone}, "is fenced: what it held was given to the others"},
	} {
		t.Run(name, func(t *testing.T) {
			v := healthy()
			v.Coordinators[0].Status.Regions[0].Status, v.Coordinators[0].Status.Regions[0].State = c.status, "silent"
			v.Daemons[0] = c.daemon
			if got := Examine(v); len(got) != 1 || got[0].Severity != Note || !strings.Contains(got[0].What, c.what) || !strings.Contains(got[0].Remedy, "aliquot region add us") {
				t.Errorf("found %+v", got)
			}
		})
	}
}

// TestOutages: an outage that lasts is a warning beside the problem that the store is down, and one that is over is told
// last.
func TestOutages(t *testing.T) {
	v := healthy()
	for i := range 12 {
		v.Daemons[0].WithoutStore = append(v.Daemons[0].WithoutStore, Decisions{string(rune('a' + i)), "emergency", 1})
	}
	v.Daemons[0].Store.Servers[0].AppendOnly = true
	if got := Examine(v); len(got) != 2 || got[0].Severity != Warning || got[1].Severity != Note || !strings.HasSuffix(got[1].What, "1 of j (emergency), and of 2 others") {
		t.Errorf("over: %+v", got)
	}
	v.Daemons[0].Store.Down = true
	if got := Examine(v); len(got) != 3 || got[0].Severity != Problem || got[2].Severity != Warning || !strings.HasPrefix(got[2].What, "12 requests were decided without") {
		t.Errorf("it lasts: %+v", got)
	}
}

// One address of a cluster is enough: the others are asked because it names them, and so are the daemons.
func TestLookFindsEverybody(t *testing.T) {
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"ready":false,"region":"us","phase":"limbo","reason":"stopping"}`))
		case "/store":
			_, _ = w.Write([]byte(`{"kind":"redis","servers":[{"server":"r:1","eviction_policy":"allkeys-lru"}]}`))
		case "/metrics":
			_, _ = w.Write([]byte(`aliquot_decisions_total{mode="store",outcome="allowed",region="us",rule="a"} 7
aliquot_decisions_total{mode="emergency",outcome="allowed",region="us",rule="a"} 2
aliquot_decisions_total{mode="emergency",outcome="denied",region="us",rule="a"} 3
aliquot_decisions_total{mode="fail_open",outcome="allowed",region="us",rule="a"} 0
`))
		}
	}))
	defer ops.Close()
	other := &fake{status: &aliquotv1.GetStatusResponse{NodeId: "c2", State: "leader", LeaderId: "c2"}}
	second := serve(t, other)
	first := serve(t, &fake{status: &aliquotv1.GetStatusResponse{NodeId: "c1", State: "follower", Members: []*aliquotv1.Member{
		{NodeId: "c1", Address: "another-name:7400"}, {NodeId: "c2", Address: second},
	}}})
	other.status.Members = []*aliquotv1.Member{{NodeId: "c1", Address: "another-name:7400"}, {NodeId: "c2", Address: second}, {NodeId: "c3"}}
	other.status.Regions = []*aliquotv1.Region{{Name: "us", OpsAddress: ops.URL}}

	v := Look(context.Background(), []string{first}, nil, time.Minute)
	var nodes []string
	for _, c := range v.Coordinators {
		nodes = append(nodes, c.NodeID)
	}
	if want := []string{"c1", "c2", "c3"}; !reflect.DeepEqual(nodes, want) {
		t.Fatalf("asked %v, want %v", nodes, want)
	}
	if v.Coordinators[0].Status == nil || !v.Coordinators[0].Clock.Known || v.Coordinators[1].Status == nil || v.Coordinators[2].Err == nil {
		t.Errorf("coordinators: %+v", v.Coordinators)
	}
	if len(v.Daemons) != 1 {
		t.Fatalf("daemons: %+v", v.Daemons)
	}
	d := v.Daemons[0]
	if d.Err != nil || d.Ready.Reason != "stopping" || d.Store.Servers[0].EvictionPolicy != "allkeys-lru" || !reflect.DeepEqual(d.WithoutStore, []Decisions{{"a", "emergency", 5}}) {
		t.Errorf("daemon: %+v", d)
	}
}

// fake is a coordinator that answers GetStatus.
type fake struct {
	aliquotv1connect.UnimplementedClusterServiceHandler
	status *aliquotv1.GetStatusResponse
}

func (f *fake) GetStatus(context.Context, *aliquotv1.GetStatusRequest) (*aliquotv1.GetStatusResponse, error) {
	return f.status, nil
}

func serve(t *testing.T, f *fake) string {
	mux := http.NewServeMux()
	mux.Handle(aliquotv1connect.NewClusterServiceHandler(f))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}
