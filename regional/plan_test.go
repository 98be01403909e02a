package regional

import (
	"context"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
	"aliquot/rules"
)

// TestAPlanGoesWithTheReports: the task comes with an answer, the result with a report,
// once; what is replayed is what was decided, with the shares there are.
func TestAPlanGoesWithTheReports(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, "rules: [{id: r0, params: {capacity: 100, refill_rate: 0.001}, enforcement: strict}]\n")
		d, _ := startLive(t, testConfig(l.address()))
		for range 10 {
			check(t, d, "k")
		}
		check(t, d, "l")
		task := &aliquotv1.PlanTask{
			Id: 7, Yaml: "rules: [{id: r0, params: {capacity: 8, refill_rate: 0.001}, enforcement: strict}]\n", WithinMicros: 5_000_000,
		}
		l.set(func() { l.plan = task })
		var result *aliquotv1.PlanResult
		told := func() (n int) {
			l.set(func() {
				for _, r := range l.reports {
					if r.GetPlan() != nil {
						result = r.GetPlan()
						n++
					}
				}
			})
			return n
		}
		eventually(t, "the result is told", func() bool { return told() > 0 })
		of := result.GetReplayed()
		if result.GetId() != 7 || of.GetError() != "" || of.GetRequests() != 11 || of.GetKeys() != 2 || of.GetOneIn() != 1 {
			t.Errorf("%v", result)
		}
		// The region's half of 8 is 4.
		if len(result.GetRules()) != 1 || result.GetNewlyDeniedRequests() != 6 || result.GetRules()[0].GetNewlyDeniedKeys() != 1 ||
			strings.Join(result.GetRules()[0].GetDeniedKeyHashes(), " ") != charge.HashText([16]byte(keyOf(d, "k").GetHash())) {
			t.Errorf("%v", result)
		}
		reports := 0
		l.set(func() { reports = len(l.reports) })
		eventually(t, "three more reports", func() (more bool) {
			l.set(func() { more = len(l.reports) >= reports+3 })
			return more
		})
		if n := told(); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// TestPlansThatCannotBe end with a reason, and the latest one ends those before.
func TestPlansThatCannotBe(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, manyRules).address()))
		recent := sample.New(d.cfg.Now)
		recent.See(planOf(d, "k"), &charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": "k"}), Cost: limit.Token})
		p := sample.NewPlanner(d.policies, d.auth, recent)
		run := func(id uint64, yaml string, within time.Duration) *aliquotv1.PlanResult {
			task := &aliquotv1.PlanTask{Id: id, Yaml: yaml, WithinMicros: within.Microseconds()}
			p.Take(task)
			p.Run(context.Background(), task)
			return p.Pending()
		}
		if got := run(1, "rulez: []", time.Second).GetReplayed(); !strings.Contains(got.GetError(), "cannot read the rules") {
			t.Errorf("%v", got)
		}
		if got := run(2, "rules: []", -time.Second).GetReplayed(); !strings.Contains(got.GetError(), "time") || got.GetRequests() != 0 {
			t.Errorf("%v", got)
		}
		first := &aliquotv1.PlanTask{Id: 3, Yaml: "rules: []", WithinMicros: 1e6}
		if !p.Take(first) || p.Take(first) || p.Take(nil) {
			t.Error("a task is taken once")
		}
		if !p.Take(&aliquotv1.PlanTask{Id: 4}) {
			t.Error("the next one is taken")
		}
		if p.Run(context.Background(), first); p.Pending() != nil {
			t.Errorf("nobody waits for %v", p.Pending())
		}
		empty := sample.NewPlanner(policy.New("us", false, d.cfg.Now, d.log, d.metrics), d.auth, sample.New(d.cfg.Now))
		empty.Take(first)
		if empty.Run(context.Background(), first); !strings.Contains(empty.Pending().GetReplayed().GetError(), "no rules") {
			t.Errorf("%v", empty.Pending())
		}
	})
}
