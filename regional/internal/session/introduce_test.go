package session

import (
	"bytes"
	"strings"
	"testing"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/policy"
)

// Contents that a new connection has told of end that, too: from then on the machine says
// Hello.
func TestNobodyIsIntroducedWhoseStoreIsKnown(t *testing.T) {
	s := newTestSession(t, &lastHello{})
	s.StoreFailed()
	s.auth.StoreEpoch("e1")
	s.introduceIfDue(t.Context())
	if !s.introduced.IsZero() {
		t.Error("a Hello without a store, of a daemon that knows its store")
	}
	s.calls.Wait()
}

// TestADaemonThatKnowsItsStoreSaysSo: once the contents are known, only the breaker decides whether a Hello says that the
// store does not answer, whatever failed before.
func TestADaemonThatKnowsItsStoreSaysSo(t *testing.T) {
	leader := &lastHello{}
	s := newTestSession(t, leader)
	s.others = NewOthers(OthersConfig{
		Store: slowList{}, Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log,
		Now: s.auth.Now, Self: 7,
	})
	s.StoreFailed()
	s.auth.StoreEpoch("e1")
	s.hello(t.Context(), budget.Hello{RedisEpoch: "e1"})
	if leader.heard.GetDaemon() != 7 || leader.heard.GetStoreless() {
		t.Errorf("%v", leader.heard)
	}
}

// TestEveryHelloNamesThePlace: one that does not would end it.
func TestEveryHelloNamesThePlace(t *testing.T) {
	leader := &lastHello{}
	s := newTestSession(t, leader)
	s.returns = &Return{Place: 5}
	s.introduce(t.Context())
	if got := leader.heard.GetPlace(); got != 5 {
		t.Errorf("a daemon whose store has not answered names place %d", got)
	}
}

// Rules that this daemon cannot read are not sent again with each of them, every second.
func TestRefusedRulesAreNotAskedForAgain(t *testing.T) {
	leader := &lastHello{}
	s := newTestSession(t, leader)
	if err := s.policies.SetRules(policy.RuleText{Version: 7, YAML: "rules: of another time"}); err == nil {
		t.Fatal("these rules are not refused")
	}
	s.introduce(t.Context())
	if got := leader.heard.GetRulesVersion(); got != 7 {
		t.Errorf("it tells of rules of version %d; version 7 is refused already", got)
	}
}

// configOf is the configuration of a cluster with the regions us and eu.
func configOf(cluster string) *aliquotv1.RegionConfig {
	half := &aliquotv1.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	return &aliquotv1.RegionConfig{
		ClusterId: cluster, ConfigVersion: 1, LeaseMicros: 10_000_000, RhoPpm: 20_000, HashSecret: []byte("0123456789abcdef0123456789abcdef"),
		Regions: []*aliquotv1.DeclaredRegion{{Name: "us", Floor: half}, {Name: "eu", Floor: half}},
	}
}

// TestWordsThatSayNothingOfTheFloor: a leader that does not know whose the floor is, and one of
// another cluster, leave a daemon that has not reached its store as it was, which is not ready.
func TestWordsThatSayNothingOfTheFloor(t *testing.T) {
	of := func(cluster string, whose aliquotv1.FloorHolder) *aliquotv1.HelloResponse {
		return &aliquotv1.HelloResponse{Epoch: 1, Nonce: 1, Busy: true, Config: configOf(cluster), FloorHolder: whose}
	}
	for _, c := range []struct {
		answer        *aliquotv1.HelloResponse
		heard, second bool
	}{
		{of("c1", aliquotv1.FloorHolder_FLOOR_HOLDER_UNSPECIFIED), false, false},
		{of("c2", aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER), false, false},
		{of("c1", aliquotv1.FloorHolder_FLOOR_HOLDER_OTHER), true, true},
		{of("c1", aliquotv1.FloorHolder_FLOOR_HOLDER_YOU), true, false},
	} {
		s := newTestSession(t, &lastHello{answer: c.answer})
		s.policies.SetCluster(clusterIn(configOf("c1")))
		s.introduce(t.Context())
		if heard, second := s.holderKnown.Load(), s.second.Load(); heard != c.heard || second != c.second {
			t.Errorf("%s says %s: heard %v, the floor is another's %v", c.answer.GetConfig().GetClusterId(), c.answer.GetFloorHolder(), heard, second)
		}
	}
}

// A daemon whose region shares a store with another one logs that once, and again if it is another region then.
func TestASharedStoreIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newSession(&lastHello{}, nil, func() budget.Instant { return second }, &log)
	for _, with := range []string{"", "us", "us", "", "us", "ap"} {
		s.sharesStore(with)
	}
	if n := strings.Count(log.String(), "give each region a Redis of its own"); n != 3 || !strings.Contains(log.String(), "with=ap") {
		t.Errorf("logged %d times, want 3:\n%s", n, log.String())
	}
}

// TestAnOlderAnswerIsLogged: an answer of an older leader or configuration is refused, and the log has it with what the
// region knows: once, however often it comes.
func TestAnOlderAnswerIsLogged(t *testing.T) {
	t.Parallel()
	for what, is := range map[string]struct {
		epoch, config uint64
		lines         int
		want          string
	}{
		"an older leader":        {4, 9, 1, "epoch=4 known_epoch=5 config=9 known_config=9"},
		"an older configuration": {5, 8, 1, "epoch=5 known_epoch=5 config=8 known_config=9"},
		"neither":                {5, 9, 0, ""},
	} {
		var log bytes.Buffer
		s := newSession(&lastHello{}, nil, func() budget.Instant { return second }, &log)
		s.policies.SetCluster(policy.Cluster{ClusterID: "c1", Version: 9, LeaderEpoch: 5})
		answer := &aliquotv1.HelloResponse{Epoch: is.epoch, Config: &aliquotv1.RegionConfig{ClusterId: "c1", ConfigVersion: is.config}}
		for range 2 {
			if s.outOfDate(answer) != (is.lines > 0) {
				t.Errorf("%s: out of date is %v", what, is.lines == 0)
			}
		}
		if strings.Count(log.String(), "is older than what this region knows") != is.lines || !strings.Contains(log.String(), is.want) {
			t.Errorf("%s: %s", what, log.String())
		}
	}
}
