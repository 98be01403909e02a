package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/internal/recall"
	"aliquot/internal/roster"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/policy"
)

// slowList is a list of daemons with nobody else in it, which takes a while to read.
type slowList struct{}

// Roster answers after 50 ms.
func (slowList) Roster(ctx context.Context, _ string, _ roster.Call) (roster.Reply, error) {
	select {
	case <-ctx.Done():
		return roster.Reply{}, ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return roster.Reply{Number: 1, Last: 1}, nil
	}
}

// TestAReturnWaitsForTheListOfDaemons: a daemon that comes back to other contents tells them what it remembers with the
// shares of its first session. Nothing is told before the list of daemons was read, so the shares wait for that.
func TestAReturnWaitsForTheListOfDaemons(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, _ *silentChanges) {
		s.others = NewOthers(OthersConfig{
			Store: slowList{}, Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log,
			Now: s.auth.Now, Self: 7,
		})
		s.returns = &Return{Place: 1, Terms: s.Terms()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.others.Run(ctx, s.store.(Calls)) }()
		in := &aliquotv1.HelloRequest{RedisEpoch: s.auth.CurrentEpoch()}
		s.comeBack(ctx, in, &aliquotv1.HelloResponse{PlaceKept: true}, budget.HelloAnswered{})
		if s.others.Unread() {
			t.Error("it goes on although the list was not read")
		}
		cancel()
		<-ended
	})
}

// TestTheRulesOfTheStateFileAreNoChange: a daemon comes back to the contents that its last run left, by the rules that the
// last run had. It knows still that a client has used nothing that neither run has seen.
func TestTheRulesOfTheStateFileAreNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return 1000*second + budget.Instant(time.Since(began)) }
		s := newSession(&lastHello{}, nil, now, t.Output(), func(p *policy.Policies) {
			if err := p.SetRules(policy.RuleText{Version: 7, YAML: oneRule, Numbers: map[string]uint32{"r0": 1}}); err != nil {
				t.Fatal(err)
			}
			p.Restore(nil)
		})
		all := allOfIt()
		s.auth.Configure(0, budget.Config{Lease: time.Minute, Regions: []budget.RegionConfig{{Floor: all, Told: all, Low: all}}}, "")
		s.emergency.Return(&emergency.Kept{Contents: "contents-1", Records: &recall.Snapshot{At: now(), Whole: now() - 100*second}}, true)
		<-time.After(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-ended
		s.emergency.Resume("contents-1")
		client := newClient(nil)
		out := make([]limit.Outcome, 1)
		if !s.emergency.Take([]*charge.Charge{client}, false, "contents-1", out) {
			t.Errorf("%d micro-tokens are left to a new client, want all of 100 tokens", out[0].Tokens)
		}
	})
}

// allOfIt is the share of a region that has all of a limit.
func allOfIt() budget.Share { return budget.Share{Rate: budget.Unit, Burst: budget.Unit} }

// newClient is a request of a client of oneRule, who was never seen, for all of its limit. changed is the limit's change.
func newClient(changed *entitlement.Change) *charge.Charge {
	return &charge.Charge{
		Planned: charge.Planned{
			Cost: 100 * limit.Token, Key: budget.KeyID{Rule: 1}, Changed: changed,
			Limit: limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 10 * int64(limit.Token)}},
		},
		Right: budget.Right{Floor: allOfIt(), Told: allOfIt(), Phase: budget.CutOff},
	}
}

// TestOtherRulesTakeNothingFromNewClients: a daemon has been there for longer than a bucket takes to fill. Then another
// version of the rules comes, which leaves the bucket's limit as it was. A client that was never seen has all of it
// still while the store does not answer. If the limit was slower until now, the client has what it earned by that one.
func TestOtherRulesTakeNothingFromNewClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return 1000*second + budget.Instant(time.Since(began)) }
		s := newSession(&lastHello{}, nil, now, t.Output())
		s.setRules(t, oneRule, "r0")
		<-time.After(100 * time.Second)
		s.takeRules(&aliquotv1.Rules{Version: 9, Yaml: oneRule + "  - {id: r1, match: {attributes: {plan: free}}, params: {limit: 3, window: 1h}}\n", Numbers: map[string]uint32{"r0": 1, "r1": 2}})
		if s.policies.Load().Text.Version != 9 {
			t.Fatal("the rules were refused")
		}
		out := make([]limit.Outcome, 1)
		if changed := newClient(&entitlement.Change{At: now(), Slow: limit.Rate{Micro: int64(limit.Token) / 2}}); s.emergency.Take([]*charge.Charge{changed}, false, "", out) {
			t.Error("a client has all of a limit that was slower until now")
		}
		if !s.emergency.Take([]*charge.Charge{newClient(nil)}, false, "", out) {
			t.Errorf("%d micro-tokens are left to a new client, want all of 100 tokens", out[0].Tokens)
		}
	})
}
