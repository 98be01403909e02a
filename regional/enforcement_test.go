package regional

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// ruled is one rule of 400 requests that hardly refill.
func ruled(enforcement string) string {
	return fmt.Sprintf("rules:\n  - id: r0\n    enforcement: %s\n    params: {capacity: 400, refill_rate: 0.001}\n", enforcement)
}

// switchTo puts another version of ruled in force.
func switchTo(t *testing.T, l *leader, d *Daemon, version uint64, enforcement string) {
	t.Helper()
	l.setRules(version, ruled(enforcement))
	eventually(t, enforcement+" in force", func() bool { return d.policies.Load().Text.Version == version })
}

// TestElastic: a cold key has the whole burst; what is left of it when the key
// becomes hot stays spendable, beside the share, and comes back as it cools down.
func TestElastic(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Elastic))
		d, _ := startLive(t, testConfig(l.address()))
		exactly(t, "cold: the whole capacity is 400", burst(t, d, "cold"), 400, d)
		for range 250 {
			check(t, d, "k")
		}
		l.lend(l.asked(), budget.Unit/8)
		exactly(t, "hot, one less than the cold burst left", int(check(t, d, "k").Remaining), 149, d)
		l.cool(keyOf(d, "k"))
		exactly(t, "cold again", burst(t, d, "k"), 149, d)
		l.lend(keyOf(d, "new"), budget.Unit/8)
		exactly(t, "hot from full: 200 above the floor, and 50 of the floor's 200 that the share holds", burst(t, d, "new"), 250, d)
	})
}

// TestElasticWithoutFloor: a drained region has no part in the burst either.
func TestElasticWithoutFloor(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Elastic))
		l.set(func() { l.us.Floor = oneOf(0) })
		d, _ := startLive(t, testConfig(l.address()))
		if n := burst(t, d, "k"); n != 0 {
			t.Errorf("%d passed in a region without a floor", n)
		}
	})
}

// TestIndependent: the region has the whole limit, whatever becomes of its lease,
// and no coordinator ever hears of the key.
func TestIndependent(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Independent))
		l.set(func() { l.lease = 500 * time.Millisecond; l.us.Floor = oneOf(0) })
		d, _ := startLive(t, testConfig(l.address()))
		exactly(t, "live", burst(t, d, "live"), 400, d)
		l.set(func() { l.down = true })
		phase(t, d, budget.Limbo)
		exactly(t, "limbo", burst(t, d, "limbo"), 400, d)
		phase(t, d, budget.CutOff)
		exactly(t, "cut off", burst(t, d, "floor"), 400, d)
		l.set(func() {
			for _, r := range l.reports {
				if len(r.GetKeys()) > 0 {
					t.Errorf("the leader was told of %v", r.GetKeys())
				}
			}
		})
	})
}

// TestIndependentWithoutTheStore: the whole limit, earned by a clock that may run fast by rho.
func TestIndependentWithoutTheStore(t *testing.T) {
	a := charge.Charge{Planned: charge.Planned{Enforcement: rules.Independent, Limit: limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 10e6}}}}
	a.Right = entitlement.Whole(budget.Right{Phase: budget.Limbo})
	if b := entitlement.WithoutStore(a.Right, a.Limit, false, 20_000); b.Cap != 100*limit.Token || b.Rate.Micro != 9_803_921 {
		t.Errorf("%+v, want 100 and 10/s divided by 1.02", b)
	}
}

// TestIndependentAndBack: a key that is lent stays lent while its rule is
// independent, whatever happens to it meanwhile, and is found so afterwards.
func TestIndependentAndBack(t *testing.T) {
	for _, enforcement := range []string{rules.Strict, rules.Elastic} {
		t.Run(enforcement, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, ruled(enforcement))
				d, _ := startLive(t, testConfig(l.address()))
				burst(t, d, "k") // a share that shrinks has nothing to give up
				burst(t, d, "other")
				key, other := keyOf(d, "k"), keyOf(d, "other")
				l.lend(key, budget.Unit/8)
				l.lend(other, budget.Unit/8)

				switchTo(t, l, d, 2, rules.Independent)
				exactly(t, "independent", burst(t, d, "k"), 400, d)
				l.lend(key, budget.Unit/4) // shares go on moving
				l.lend(other, budget.Unit/16)
				l.cool(other)

				switchTo(t, l, d, 3, enforcement)
				if n := burst(t, d, "k"); n != 0 {
					t.Errorf("%s again: %d passed; the key's share was used up, and grew empty", enforcement, n)
				}
				if got, want := enforced(t, d, "k"), part(400, 4); got != want {
					t.Errorf("%s again: enforced is %+v, the share is %+v", enforcement, got, want)
				}
				if n := burst(t, d, "other"); n != 0 {
					t.Errorf("%s again: %d passed; the bucket was empty when the key cooled down", enforcement, n)
				}
				if n := l.sessions(); n != 1 {
					t.Errorf("%d sessions; nothing should have ended the first", n)
				}
			})
		})
	}
}

// TestEnforcementChangesUnderLoad: with checks from all sides, rules that come and
// go and shares that move, every check is answered, no session ends, and at the end
// the region enforces its share.
func TestEnforcementChangesUnderLoad(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, ruled(rules.Strict))
		d, _ := startLive(t, testConfig(l.address()))
		key := keyOf(d, "k")
		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for ctx.Err() == nil {
					in := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}}
					if _, err := d.service.Check(t.Context(), in); err != nil {
						t.Error(err)
					}
					<-time.After(time.Millisecond)
				}
			})
		}
		version := uint64(1)
		for range 3 {
			for _, enforcement := range []string{rules.Independent, rules.Elastic, rules.Independent, rules.Strict} {
				version++
				switchTo(t, l, d, version, enforcement)
				l.lend(key, budget.Unit/4)
				l.lend(key, budget.Unit/16)
			}
		}
		stop()
		clients.Wait()
		burst(t, d, "k")
		if got, want := enforced(t, d, "k"), part(400, 16); got != want {
			t.Errorf("enforced is %+v, the share is %+v", got, want)
		}
		if n := l.sessions(); n != 1 {
			t.Errorf("%d sessions; nothing should have ended the first", n)
		}
	})
}

// part is one part in so many of ruled's limit with another capacity.
func part(capacity limit.Tokens, of int32) limit.Bucket {
	l := limit.Limit{Capacity: capacity * limit.Token, Rate: limit.Rate{Micro: 1000}}
	return entitlement.Bucket(l, budget.Share{Rate: budget.Unit / of, Burst: budget.Unit / of})
}

// enforced is the bucket that the store enforces for a client.
func enforced(t *testing.T, d *Daemon, apiKey string) (bucket limit.Bucket) {
	t.Helper()
	eventually(t, "the store decides", func() bool {
		groups := planOf(d, apiKey).Groups
		head := d.auth.Grant(groups)
		results, _, err := d.guard.Take(t.Context(), head.Epoch, func() []lua.Group {
			return new(charge.CallBuffer).CallOf(&head, groups, nil)
		})
		if err == nil {
			bucket = results[0].Limits[0].Bucket
		}
		return err == nil
	})
	return bucket
}

// TestEmergencyDebtLastsUntilFull: what an emergency limit admitted is owed until the
// store's bucket could be full without it: an elastic one has more to fill, and a
// floor that was smaller once may have filled it more slowly.
func TestEmergencyDebtLastsUntilFull(t *testing.T) {
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	tenth := budget.Share{Rate: budget.Unit / 10, Burst: budget.Unit / 10}
	l := limit.Limit{Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 10e6}}
	for _, c := range []struct {
		enforcement string
		right       budget.Right
		least       time.Duration
	}{
		{rules.Strict, budget.Right{Floor: half}, 10 * time.Second},
		{rules.Elastic, budget.Right{Floor: half}, 20 * time.Second},
		{rules.Elastic, budget.Right{Floor: half, FloorSince: 1, Low: tenth}, 100 * time.Second},
		{rules.Strict, budget.Right{Floor: half, FloorSince: 1}, 100 * 365 * 24 * time.Hour},
		{rules.Elastic, budget.Right{Hot: true, Floor: half, Share: tenth}, 100 * time.Second},
		{rules.Independent, entitlement.Whole(budget.Right{FloorSince: 1}), 10 * time.Second},
	} {
		a := charge.Charge{Planned: charge.Planned{Enforcement: c.enforcement, Limit: l}, Right: c.right}
		got := a.TimeToFull()
		if got < c.least || got > c.least+c.least/20+2*time.Second {
			t.Errorf("%s, %+v: %v, want a little more than %v", c.enforcement, c.right, got, c.least)
		}
	}
}
