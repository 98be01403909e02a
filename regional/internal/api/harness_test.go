package api

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/httpanswer"
	"aliquot/internal/identity"
	"aliquot/internal/storeclock"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/explain"
	"aliquot/regional/internal/keywatch"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
	"aliquot/regional/store/memory"
)

// Rules of tests: of a small capacity, and of one that no test reaches.
const (
	oneRule   = "defaults: {enforcement: independent}\nrules: [{id: r0, params: {capacity: 10, refill_rate: 1}}]\n"
	roomyRule = "defaults: {enforcement: independent}\nrules: [{id: r0, params: {capacity: 1000000, refill_rate: 1000000}}]\n"
	vastRule  = "rules: [{id: r0, params: {capacity: 1000000000, refill_rate: 1000000000}}]\n"
)

// discard is a log that nobody reads.
var discard = slog.New(slog.DiscardHandler)

// serviceOf returns a service of the rule r0 in a region that is cut off with half of it, over a store in
// memory.
func serviceOf(tb testing.TB, yaml string) *Service {
	tb.Helper()
	registry := prometheus.NewRegistry()
	m, bugs := telemetry.New("us", "test", registry), &background.Panics{Log: discard}
	bugs.Count = m.Panics
	kept, err := memory.New(memory.Config{Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		tb.Fatal(err)
	}
	auth := authority.New(budget.NewRegion(0, budget.Config{}, 1, boottime.Now()), storeclock.New(), boottime.Now)
	guard := storeguard.New(storeguard.Config{Store: kept, Observer: auth, Now: boottime.Now, Metrics: m, Changed: func(bool, error) {}, Failed: func() {}})
	if err := guard.Learn(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	auth.Configure(0, budget.Config{Regions: []budget.RegionConfig{{Floor: half, Told: half, Low: half}}}, auth.CurrentEpoch())
	policies := policy.New("us", false, boottime.Now, discard, m)
	policies.SetCluster(policy.Cluster{Secret: []byte("0123456789abcdef0123456789abcdef")})
	if err := policies.SetRules(policy.RuleText{Version: 1, YAML: yaml, Numbers: map[string]uint32{"r0": 1}}); err != nil {
		tb.Fatal(err)
	}
	auth.Post(budget.RulesReplaced{Rules: policies.Load().State()})
	limiter := engine.New(engine.Config{
		Policies: policies, Auth: auth, Guard: guard, Emergency: emergency.New(boottime.Now, storeclock.New(), nil),
		Keys: keywatch.New(boottime.Now, 0, m, discard), Metrics: m, Log: discard, Bugs: bugs, Slots: charge.NewSlotNames(1),
	})
	clients, err := identity.New(identity.DefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
	none, err := httpanswer.ParseHeaders("none")
	if err != nil {
		tb.Fatal(err)
	}
	holders := explain.NewHolders(nil, nil, http.DefaultClient)
	return New(Config{
		Region: "us", Limiter: limiter, Answers: explain.NewRecorder(limiter, m, sample.New(boottime.Now), holders), Metrics: m,
		Bugs: bugs, Stopping: make(chan struct{}), Identity: clients, EnvoyHeaders: none, Log: discard,
	}, registry)
}

// ask1 is a request of a stream.
func ask1(id uint64, apiKey string) *aliquotv1.StreamedCheck {
	return &aliquotv1.StreamedCheck{Id: id, Request: &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": apiKey}}}
}

// h2c is a client that speaks HTTP/2 without TLS.
func h2c() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// eventually waits until holds returns true.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > time.Minute {
			tb.Fatalf("not within a minute: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
