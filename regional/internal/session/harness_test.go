package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"aliquot/budget"
	"aliquot/internal/boottime"
	"aliquot/internal/storeclock"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
)

const second = budget.Instant(time.Second)

const oneRule = "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    key: [api_key]\n    params: {capacity: 100, refill_rate: 10}\n"

// lastHello is a coordinator that keeps the last Hello.
type lastHello struct {
	aliquotv1connect.LeaseServiceClient
	heard  *aliquotv1.HelloRequest
	answer *aliquotv1.HelloResponse // nil: it is no leader
}

// Hello returns the coordinator's answer.
func (l *lastHello) Hello(_ context.Context, in *aliquotv1.HelloRequest) (*aliquotv1.HelloResponse, error) {
	l.heard = in
	if l.answer != nil {
		return l.answer, nil
	}
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("no leader"))
}

// noFile is the state file of a daemon that has none.
type noFile struct{}

func (noFile) Name() string                  { return "" }
func (noFile) Outdated(*policy.Cluster) bool { return false }
func (noFile) Save() bool                    { return true }

// newSession returns the session of a daemon of region us with one coordinator, a store and a boot
// clock. It logs to log. begins gets the rules before the session does, as from a state file.
func newSession(leader aliquotv1connect.LeaseServiceClient, store storeguard.Store, now func() budget.Instant, log io.Writer, begins ...func(*policy.Policies)) *Session {
	logger, reg, clock := slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry(), storeclock.New()
	m := telemetry.New("us", "test", reg)
	auth := authority.New(budget.NewRegion(0, budget.Config{}, 1, now()), clock, now)
	policies, recent := policy.New("us", false, boottime.Now, logger, m), sample.New(now)
	for _, begin := range begins {
		begin(policies)
	}
	s := New(Config{
		Region: "us", Incarnation: 1, Authority: auth, Policies: policies, Emergency: emergency.New(now, clock, nil), File: noFile{},
		Store:  storeguard.New(storeguard.Config{Store: store, Observer: auth, Now: now, Metrics: m, Changed: func(bool, error) {}, Failed: func() {}}),
		Recent: recent, Planner: sample.NewPlanner(policies, auth, recent),
		Coordinators: []string{"127.0.0.1:1"}, HTTP: http.DefaultClient, Metrics: m, Registry: reg, Log: logger,
		Bugs: &background.Panics{Count: m.Panics, Log: logger}, WrongCluster: func(error) {},
	})
	s.peers.clients[0] = leader
	return s
}

// newTestSession is newSession without a store and with a clock that stands at a second.
func newTestSession(t *testing.T, leader aliquotv1connect.LeaseServiceClient) *Session {
	t.Helper()
	return newSession(leader, nil, func() budget.Instant { return second }, t.Output())
}

// setRules puts version 7 of rules in force, whose rule of a name has number 1.
func (s *Session) setRules(t *testing.T, yaml, rule string) {
	t.Helper()
	if err := s.policies.SetRules(policy.RuleText{Version: 7, YAML: yaml, Numbers: map[string]uint32{rule: 1}}); err != nil {
		t.Fatal(err)
	}
}
