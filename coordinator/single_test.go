package coordinator_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestOneCoordinator walks everything a single coordinator serves, on one cluster.
func TestOneCoordinator(t *testing.T) {
	t.Parallel()
	cfg, clock := testConfig(t, 1, 1), newSlowable()
	cfg.Now = clock.now
	r := start(t, cfg)
	r.waitReady(t)
	t.Run("index", func(t *testing.T) { testIndex(t, r) })
	t.Run("status", func(t *testing.T) { testStatus(t, r) })
	t.Run("no rules yet", func(t *testing.T) { testNoRulesYet(t, r) })
	t.Run("rules", func(t *testing.T) { testRules(t, r) })
	t.Run("cold budget", func(t *testing.T) { testColdBudget(t, r) })
	t.Run("bad budget requests", func(t *testing.T) { testBadBudgetRequests(t, r) })
	// In these two each Hello has to come within three seconds of what was heard before.
	restore := clock.slow()
	t.Run("bad leases", func(t *testing.T) { testBadLeases(t, r) })
	t.Run("leaving", func(t *testing.T) { testLeaving(t, r) })
	restore()
	t.Run("hot budget", func(t *testing.T) { testHotBudget(t, r, clock) })
	t.Run("metrics", func(t *testing.T) { testMetrics(t, r) })
	clock.set(false)
	t.Run("grpc and health", func(t *testing.T) { testProtocols(t, r) })
}

func testIndex(t *testing.T, r *running) {
	if code, body := r.get(t, "http://"+r.RPC+"/"); code != 200 || !strings.Contains(body, "Aliquot coordinator") {
		t.Errorf("GET /: %d %q", code, body)
	}
	if code, _ := r.get(t, "http://"+r.RPC+"/nowhere"); code != 404 {
		t.Errorf("GET /nowhere: %d", code)
	}
	if code, body := r.get(t, "http://"+r.Ops+"/healthz"); code != 200 {
		t.Errorf("/healthz: %d %q", code, body)
	}
}

func testStatus(t *testing.T, r *running) {
	code, body := r.post(t, "ClusterService/GetStatus", "{}")
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	for _, want := range []string{`"nodeId":"c1"`, `"state":"leader"`, `"leaderId":"c1"`, `"rulesVersion":"0"`, `"hotKeys":"0"`, `"state":"silent"`, `"leaseRemaining":"0s"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	res, err := r.regions.ListRegions(t.Context(), &aliquotv1.ListRegionsRequest{})
	if err != nil || len(res.GetRegions()) != 3 || res.GetRegions()[0].GetName() != "us" {
		t.Errorf("ListRegions: %v, %v", res, err)
	}
}

func testNoRulesYet(t *testing.T, r *running) {
	if code, body := r.post(t, "RuleService/GetRules", "{}"); code != 200 || !strings.Contains(body, `"version":"0","yaml":""`) {
		t.Errorf("GetRules: %d %s", code, body)
	}
	if code, body := r.post(t, "BudgetService/ListBudgets", "{}"); code != 200 || body != `{"budgets":[],"nextPageToken":"","promises":{}}` {
		t.Errorf("ListBudgets: %d %s", code, body)
	}
	if code, body := r.post(t, "BudgetService/GetBudget", `{"ruleId":"r1"}`); code != 404 {
		t.Errorf("GetBudget: %d %s", code, body)
	}
	if hello := toldRules(t, r, 0); !hello.GetNoRules() || hello.GetRules() != nil {
		t.Errorf("a region is not told that there are no rules: %v", hello)
	}
}

// toldRules is what a region that has a version of the rules is told of them; it opens no session.
func toldRules(t *testing.T, r *running, has uint64) *aliquotv1.HelloResponse {
	t.Helper()
	hello, err := r.lease.Hello(t.Context(), &aliquotv1.HelloRequest{Region: "eu", Incarnation: 1, Nonce: 1, RulesVersion: has})
	if err != nil {
		t.Fatal(err)
	}
	return hello
}

func testRules(t *testing.T, r *running) {
	zero, nine := uint64(0), uint64(9)
	res, err := r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: someRules, ExpectedVersion: &zero, Author: "me"})
	if err != nil || res.GetVersion() != 1 {
		t.Fatalf("ApplyRules: %v, %v", res, err)
	}
	if hello := toldRules(t, r, 0); hello.GetNoRules() || hello.GetRules().GetVersion() != 1 {
		t.Errorf("a region is told: %v", hello)
	}
	if hello := toldRules(t, r, 1); hello.GetNoRules() || hello.GetRules() != nil {
		t.Errorf("a region that has the rules is told: %v", hello)
	}
	_, err = r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: someRules, ExpectedVersion: &nine})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "1 is in force") {
		t.Errorf("stale version: %v", err)
	}
	broken := "rules:\n  - id: a\n    capcity: 1\n  - id: a b\n    params: {capacity: 0, refill_rate: 1}\n"
	_, err = r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: broken, FileName: "my.yaml"})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "my.yaml:3:5:") || !strings.Contains(err.Error(), "my.yaml:4:9:") {
		t.Errorf("broken rules: %v", err)
	}
	const denies = "rules:\n  - {id: shut, params: {limit: 0}}\n"
	_, err = r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: denies})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "rule shut denies every request") || !strings.Contains(err.Error(), "--allow-deny-all") {
		t.Errorf("a rule that denies all: %v", err)
	}
	_, err = r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: denies, AllowDenyAll: true, ExpectedVersion: &nine})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "1 is in force") {
		t.Errorf("a rule that denies all, and is wanted: %v", err)
	}
	_, err = r.rules.ApplyRules(t.Context(), &aliquotv1.ApplyRulesRequest{Yaml: someRules, Author: strings.Repeat("x", 1000)})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("long author: %v", err)
	}
	got, err := r.rules.GetRules(t.Context(), &aliquotv1.GetRulesRequest{})
	if err != nil || got.GetVersion() != 1 || got.GetYaml() != someRules || got.GetAuthor() != "me" || got.GetAppliedUnixMs() == 0 {
		t.Errorf("GetRules: %v, %v", got, err)
	}
	testRulesFile(t, r)
}

func testRulesFile(t *testing.T, r *running) {
	if got := r.send(t, http.MethodGet, "/rules", ""); got.header.Get("ETag") != `"1"` || got.body != someRules {
		t.Errorf("GET /rules: %+v", got)
	}
	if got := r.send(t, http.MethodGet, "/rules", "", "If-None-Match", `"1"`); got.status != http.StatusNotModified {
		t.Fatalf("GET /rules with its ETag: %+v", got)
	}
}

func testColdBudget(t *testing.T, r *running) {
	code, body := r.post(t, "BudgetService/GetBudget", `{"ruleId":"r1","key":{"api_key":"k"}}`)
	if code != 200 || !strings.Contains(body, `"hot":false`) || !strings.Contains(body, `"worstCaseExcess":0`) {
		t.Fatalf("%d %s", code, body)
	}
	var got struct {
		Budget struct {
			KeyHash   string
			PoolShare float64
			Limit     struct{ Capacity, Window string }
			Regions   []struct {
				Region, State                  string
				Share, BurstShare, Rate, Burst float64
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	b := got.Budget
	sum := b.PoolShare
	for _, region := range b.Regions {
		sum += region.Share
		if region.State != "cold" || region.Rate != region.Share*10 || region.Burst != region.BurstShare*100 {
			t.Errorf("%+v", region)
		}
	}
	if sum != 1 || len(b.Regions) != 3 || b.PoolShare != 0 {
		t.Errorf("shares and pool sum to %v in %+v", sum, b)
	}
	raw, err := base64.RawURLEncoding.DecodeString(b.KeyHash)
	if err != nil || len(raw) != 16 {
		t.Errorf("key hash %q", b.KeyHash)
	}
	same, err := r.budgets.GetBudget(t.Context(), &aliquotv1.GetBudgetRequest{RuleId: "r1", KeyHash: raw})
	if err != nil || same.GetBudget().GetKeyHash() != b.KeyHash || len(same.GetBudget().GetRegions()) != 3 {
		t.Errorf("by its hash: %v, %v", same, err)
	}
	vip, err := r.budgets.GetBudget(t.Context(), &aliquotv1.GetBudgetRequest{RuleId: "r1", Key: map[string]string{"api_key": "vip"}})
	if err != nil || vip.GetBudget().GetLimit().GetCapacity() != 1000 || vip.GetBudget().GetLimit().GetRefillRate() != 100 {
		t.Errorf("override: %v, %v", vip, err)
	}
	other, err := r.budgets.GetBudget(t.Context(), &aliquotv1.GetBudgetRequest{RuleId: "r1", Key: map[string]string{"api_key": "k"}, Namespace: "other"})
	if err != nil || other.GetBudget().GetKeyHash() == b.KeyHash {
		t.Errorf("another namespace must be another key: %v", err)
	}
}

func testBadBudgetRequests(t *testing.T, r *running) {
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{"GetBudget", `{"ruleId":"none"}`, 404, `unknown rule \"none\" in rules version 1`},
		{"GetBudget", `{}`, 404, "unknown rule"},
		{"GetBudget", `{"ruleId":"r1"}`, 400, `\"api_key\" is missing`},
		{"GetBudget", `{"ruleId":"r1","key":{"api_key":"k","user":"u"}}`, 400, "keyed by api_key"},
		{"GetBudget", `{"ruleId":"all","key":{"api_key":"k"}}`, 400, "one bucket for all"},
		{"GetBudget", `{"ruleId":"r1","keyHash":"AAAA"}`, 400, "key_hash has 3 bytes; give 16"},
		{"GetBudget", `{"ruleId":"r1","key":{"api_key":"k"},"keyHash":"AAAAAAAAAAAAAAAAAAAAAA=="}`, 400, "neither key nor namespace"},
		{"GetBudget", `{"ruleId":"r1","key":{"api_key":"` + strings.Repeat("x", 5000) + `"}}`, 400, "at most 4096"},
		{"GetBudget", `{"ruleid":"r1"}`, 400, "unknown field"},
		{"GetBudget", `{"ruleId":1}`, 400, ""},
		{"GetBudget", `not json`, 400, ""},
		{"GetBudget", ``, 400, ""},
		{"GetBudget", strings.Repeat(" ", 1<<20+1), 413, "larger than"}, // so little above that all of it leaves before the connection ends
		{"ListBudgets", `{"pageSize":-1}`, 400, "page_size"},
		{"ListBudgets", `{"pageSize":1001}`, 400, "page_size"},
		{"ListBudgets", `{"pageToken":"zz"}`, 400, "page_token"},
		{"ListBudgets", `{"ruleId":"none"}`, 404, "unknown rule"},
	} {
		code, body := r.post(t, "BudgetService/"+c.method, c.body)
		if code != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %.80s: %d %.300s\nwant %d with %q", c.method, c.body, code, body, c.status, c.want)
		}
	}
}

func testBadLeases(t *testing.T, r *running) {
	hash := make([]byte, 16)
	for _, c := range []struct {
		name string
		req  *aliquotv1.HelloRequest
		code connect.Code
		want string
	}{
		{"undeclared", &aliquotv1.HelloRequest{Region: "mars", Nonce: 1}, connect.CodePermissionDenied, "declared are us, eu, ap"},
		{"long name", &aliquotv1.HelloRequest{Region: strings.Repeat("m", 9999), Nonce: 1}, connect.CodePermissionDenied, "mmm..."},
		{"no nonce", &aliquotv1.HelloRequest{Region: "us"}, connect.CodeInvalidArgument, "nonce"},
		{"long epoch", &aliquotv1.HelloRequest{Region: "us", Nonce: 1, RedisEpoch: strings.Repeat("e", 20_000)}, connect.CodeInvalidArgument, "redis_epoch"},
		{"short hash", &aliquotv1.HelloRequest{Region: "us", Nonce: 1, Held: []*aliquotv1.HeldKey{{}}}, connect.CodeInvalidArgument, "held[0]"},
		{"share", &aliquotv1.HelloRequest{Region: "us", Nonce: 1, Held: []*aliquotv1.HeldKey{{
			Key: &aliquotv1.KeyId{Hash: hash}, Share: &aliquotv1.Share{Rate: -1},
		}}}, connect.CodeInvalidArgument, "share outside"},
	} {
		_, err := r.lease.Hello(t.Context(), c.req)
		if connect.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Hello, %s: %v", c.name, err)
		}
	}
	_, err := r.lease.Report(t.Context(), &aliquotv1.ReportRequest{Region: "us", Epoch: 1, Session: 99, Seq: 1})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("Report of no session: %v", err)
	}
	_, err = r.lease.Report(t.Context(), &aliquotv1.ReportRequest{Region: "mars"})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("Report of no region: %v", err)
	}
	// A daemon whose store has not answered opens no session, and takes none away; one that
	// asks for a session waits until it has been told.
	storeless := func(want ...aliquotv1.FloorHolder) {
		t.Helper()
		got, err := r.lease.Hello(t.Context(), &aliquotv1.HelloRequest{Region: "us", Incarnation: 3, Nonce: 1})
		if err != nil || !got.GetBusy() || got.GetSession() != 0 || got.GetRules() == nil || !slices.Contains(want, got.GetFloorHolder()) {
			t.Errorf("a Hello of a daemon without a store: %v, %v", err, got)
		}
	}
	storeless(aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED, aliquotv1.FloorHolder_FLOOR_HOLDER_YOU)
	us := newRegion(r.lease, "us")
	us.daemon = 7
	if err := us.sayHello(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("a session beside a daemon that may go by the floor: %v", err)
	}
	storeless(aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER)
	if err := us.sayHello(t.Context()); err != nil {
		t.Fatal(err)
	}
	storeless(aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER)
	second := newRegion(r.lease, "us")
	second.inc, second.daemon = 2, 8
	err = second.sayHello(t.Context())
	if !errors.Is(err, errBusy) || len(second.hello.GetConfig().GetHashSecret()) == 0 || second.hello.GetRules() == nil {
		t.Errorf("second daemon of a live region: %v; it needs what to serve the floor by: %v", err, second.hello)
	}
	if got := second.hello; !slices.Equal(got.GetOthers(), []uint64{7}) || got.GetOthersEpoch() != us.hello.GetEpoch() {
		t.Errorf("it is told of %v, as known in epoch %d; the session is of daemon 7 in epoch %d", got.GetOthers(), got.GetOthersEpoch(), us.hello.GetEpoch())
	}
	negative := wants(1, strings.Repeat("h", 16), -1, 0)
	if _, err := us.report(t.Context(), negative); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("negative usage: %v", err)
	}
}

// testLeaving: the next daemon of a region has the place of one that says that it stops at
// once, and that of no other.
func testLeaving(t *testing.T, r *running) {
	first, second := newRegion(r.lease, "ap"), newRegion(r.lease, "ap")
	first.inc, second.inc = 11, 12
	leave := func(session uint64) {
		t.Helper()
		if _, err := r.lease.Report(t.Context(), &aliquotv1.ReportRequest{Region: "ap", Epoch: first.hello.GetEpoch(), Session: session, Leaving: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.sayHello(t.Context()); err != nil {
		t.Fatal(err)
	}
	leave(first.hello.GetSession() - 1)
	if err := second.sayHello(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("after the end of an earlier session: %v", err)
	}
	leave(first.hello.GetSession())
	if _, err := first.report(t.Context()); err != nil {
		t.Errorf("nobody wanted the place, and a report on its way was refused: %v", err)
	}
	if err := second.sayHello(t.Context()); err != nil {
		t.Errorf("after the first has left: %v", err)
	}
	if _, err := second.report(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.sayHello(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("the word of one session ended another: %v", err)
	}
}

// testHotBudget: a region asks for a key, which becomes hot, and gets what the
// others do not need; lists and watches show it. It leaves the clock slow, so that the key is hot still in the metrics.
func testHotBudget(t *testing.T, r *running, clock *slowable) {
	rule, start := map[string]uint32{}, time.Now()
	usage := func(name string, held bool) []*aliquotv1.KeyReport {
		if name != "us" {
			return nil
		}
		if !held {
			return []*aliquotv1.KeyReport{wants(rule["r1"], "0123456789abcdef", 0, 0)}
		}
		offered := time.Since(start).Milliseconds() // 1000 a second: far above the limit
		return []*aliquotv1.KeyReport{wants(rule["r1"], "0123456789abcdef", offered/200, offered)}
	}
	us := newRegion(r.lease, "us")
	eventually(t, func() string { return errorText(us.sayHello(t.Context())) })
	if us.hello.GetConfig().GetLeaseMicros() != 10e6 || len(us.hello.GetConfig().GetHashSecret()) != 32 ||
		us.hello.GetConfig().GetInitialRedisEpoch() != "n:us:1" || len(us.hello.GetConfig().GetRegions()) != 3 {
		t.Errorf("config %v", us.hello.GetConfig())
	}
	if us.hello.GetRules().GetVersion() != 1 || len(us.hello.GetRules().GetNumbers()) != 2 {
		t.Fatalf("rules %v", us.hello.GetRules())
	}
	rule["r1"] = us.hello.GetRules().GetNumbers()["r1"]
	us.rules = 0 // it refuses them, and reports that it decides by others
	if res, err := us.report(t.Context()); err != nil || res.GetRules() != nil {
		t.Errorf("rules that a region refused are sent again: %v, %v", res.GetRules(), err)
	}
	us.rules = 1

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := r.budgets.WatchBudgets(ctx, &aliquotv1.WatchBudgetsRequest{RuleId: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	inBackground(t, usage, us, newRegion(r.lease, "eu"), newRegion(r.lease, "ap"))

	var last float64
	for stream.Receive() {
		for _, b := range stream.Msg().GetBudgets() {
			checkSum(t, b)
			last = b.GetRegions()[0].GetShare()
		}
		if last > 0.9 {
			break
		}
	}
	if last <= 0.9 {
		t.Fatalf("the busy region's share came to %v; stream: %v", last, stream.Err())
	}
	clock.slow() // a lease ends in ten seconds
	eventually(t, func() string {
		list, err := r.budgets.ListBudgets(t.Context(), &aliquotv1.ListBudgetsRequest{PageSize: 1})
		if err != nil || len(list.GetBudgets()) != 1 || list.GetNextPageToken() != "" {
			return fmt.Sprintf("ListBudgets: %v, %v", list, err)
		}
		b := list.GetBudgets()[0]
		if b.GetRuleId() != "r1" || !b.GetHot() || b.GetAppliedIndex() == 0 || b.GetRegions()[0].GetState() != "live" ||
			b.GetRegions()[1].GetState() != "lent" || b.GetRegions()[0].GetAdmitted() == 0 || b.GetRegions()[0].GetGeneration() == "" {
			return fmt.Sprintf("listed %v", b)
		}
		return ""
	})
	eventually(t, func() string {
		for _, region := range status(t, r).GetRegions() {
			if region.GetState() != "live" || region.GetLeaseRemaining().AsDuration() <= 0 || region.GetRulesVersion() != 1 {
				return region.String()
			}
		}
		return ""
	})
	version := r.applyRules(t, someRules+"# changed\n")
	eventually(t, func() string {
		for _, region := range status(t, r).GetRegions() {
			if region.GetRulesVersion() != version {
				return region.String()
			}
		}
		return ""
	})
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func checkSum(t *testing.T, b *aliquotv1.Budget) {
	t.Helper()
	sum, burst := b.GetPoolShare(), 0.0
	for _, r := range b.GetRegions() {
		sum += r.GetShare()
		burst += r.GetBurstShare()
	}
	if sum > 1 || burst > 1 || b.GetPoolShare() < 0 {
		t.Errorf("shares sum to %v, bursts to %v: %v", sum, burst, b)
	}
}

func testMetrics(t *testing.T, r *running) {
	_, body := r.get(t, "http://"+r.Ops+"/metrics")
	for _, want := range []string{
		`aliquot_budget_share_ratio{region="us",rule="r1"} 0.`, `aliquot_global_admitted_total{region="us",rule="r1"}`,
		`aliquot_global_limit_utilisation_ratio{rule="r1"}`, `aliquot_excess_bound_tokens{rule="r1"} 0`,
		`aliquot_excess_observed_tokens{rule="r1"} 0`, "aliquot_rebalance_duration_seconds_count", "aliquot_rebalance_changes_total",
		`aliquot_lease_remaining_seconds{region="us"}`, "aliquot_hot_keys 1", `aliquot_reports_total{region="us",result="renewed"}`,
		"aliquot_rules_version 2", "aliquot_rules_reload_failures_total 1", "aliquot_build_info{", "aliquot_raft_applied_index", "go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(body, "mars") {
		t.Error("an undeclared region became a label")
	}
}

func testProtocols(t *testing.T, r *running) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	h2c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer h2c.CloseIdleConnections()
	client := aliquotv1connect.NewRuleServiceClient(h2c, "http://"+r.RPC, connect.WithGRPC())
	if res, err := client.GetRules(t.Context(), &aliquotv1.GetRulesRequest{}); err != nil || res.GetVersion() != 2 {
		t.Errorf("gRPC: %v, %v", res, err)
	}
	web := aliquotv1connect.NewRuleServiceClient(http.DefaultClient, "http://"+r.RPC, connect.WithGRPCWeb())
	if _, err := web.GetRules(t.Context(), &aliquotv1.GetRulesRequest{}); err != nil {
		t.Errorf("gRPC-Web: %v", err)
	}
	for service, want := range map[string]int{`{}`: 200, `{"service":"aliquot.v1.RuleService"}`: 200, `{"service":"x"}`: 404} {
		got := r.send(t, http.MethodPost, "/grpc.health.v1.Health/Check", service, "Content-Type", "application/json")
		if got.status != want {
			t.Fatalf("health %s: %+v", service, got)
		}
	}
}
