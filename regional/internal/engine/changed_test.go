package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/policy"
)

// drainedStore has nothing of any key, and half of 1000, 100 a second, to earn. Its clock goes as the daemon's.
type drainedStore struct {
	moodyStore
	now func() budget.Instant
}

func (s *drainedStore) Take(ctx context.Context, epoch string, groups []lua.Group) ([]lua.Result, int64, error) {
	if s.silent.Load() {
		return s.moodyStore.Take(ctx, epoch, groups)
	}
	empty := limit.Outcome{Bucket: limit.Bucket{Cap: 500 * limit.Token, Rate: limit.Rate{Micro: 50 * int64(limit.Token)}}}
	return slices.Repeat([]lua.Result{{Limits: []limit.Outcome{empty}}}, len(groups)), int64(s.now()) / 1000, nil
}

// TestACheckThatIsGivenUpKeepsTheChangeOfItsLimit: a client is refused, and then its limit is a fiftieth for ten and a
// half seconds. The store falls silent. The client has the ten that it earned by the lower limit, and no more, although
// its first check then waits for the store.
func TestACheckThatIsGivenUpKeepsTheChangeOfItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() budget.Instant { return budget.Instant(100*time.Second) + budget.Instant(time.Since(began)) }
		s, fast := &drainedStore{now: now}, strictRule(1000, 100, "")
		l := limiterBefore(t, s, "e1", now, fast)
		defer func() { <-time.After(time.Minute) }() // of the bubble's clock: no call is under way any more
		admits := func() bool {
			out, err := l.Decide(t.Context(), asked("k"))
			if err != nil {
				t.Fatal(err)
			}
			return out[0].Groups[0].Allowed
		}
		change := func(version uint64, yaml string) {
			if err := l.Policies.SetRules(policy.RuleText{Version: version, YAML: yaml, Numbers: map[string]uint32{"r0": 1}}); err != nil {
				t.Fatal(err)
			}
			l.Auth.Post(budget.RulesReplaced{Rules: l.Policies.Load().State()})
		}
		if admits() {
			t.Fatal("the store has nothing")
		}
		change(2, strictRule(1000, 2, ""))
		<-time.After(10500 * time.Millisecond) // of the bubble's clock
		change(3, fast)
		s.silent.Store(true)
		admitted := 0
		for range 600 {
			if admits() {
				admitted++
			}
		}
		if admitted != 10 {
			t.Errorf("admitted %d, want 10", admitted)
		}
	})
}
