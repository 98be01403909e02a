package budget

import (
	"errors"
	"testing"
	"time"
)

func TestLedgerRefusesWhatWouldBreakThePromise(t *testing.T) {
	key := KeyID{Rule: 1}
	for _, c := range []struct {
		name string
		plan Plan
		want error
	}{
		{"rates above the whole", Plan{Epoch: 1, Changes: []Entry{{Key: key, Shares: []Share{{Unit, 0}, {1, 0}}}}}, ErrOvercommitted},
		{"bursts above the whole", Plan{Epoch: 1, Changes: []Entry{{Key: key, Shares: []Share{{0, Unit}, {0, 1}}}}}, ErrOvercommitted},
		{"a negative share", Plan{Epoch: 1, Changes: []Entry{{Key: key, Shares: []Share{{Unit, 0}, {-1, 0}}}}}, ErrBadPlan},
		{"too few regions", Plan{Epoch: 1, Changes: []Entry{{Key: key, Shares: []Share{{Unit, 0}}}}}, ErrBadPlan},
		{"an older epoch", Plan{Epoch: 0, Changes: []Entry{{Key: key, Shares: []Share{{1, 1}, {1, 1}}}}}, ErrStalePlan},
		{"an unknown region", Plan{Epoch: 1, InitialRedisEpochs: []InitialRedisEpoch{{Region: 2}}}, ErrBadPlan},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &Ledger{Config: NewConfig([]string{"a", "b"}, 10*time.Second, 20_000)}
			l.MintEpoch()
			good := Entry{Key: KeyID{Rule: 2}, Shares: []Share{{1, 1}, {1, 1}}}
			c.plan.Changes = append([]Entry{good}, c.plan.Changes...)
			if err := l.Apply(c.plan); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if l.Len() != 0 {
				t.Error("part of a refused plan was applied")
			}
		})
	}
}

func TestFirstStoreContentsAreRecordedOnce(t *testing.T) {
	l := &Ledger{Config: NewConfig([]string{"a"}, 10*time.Second, 20_000)}
	l.MintEpoch()
	for _, epoch := range []string{"first", "second"} {
		if err := l.Apply(Plan{Epoch: 1, InitialRedisEpochs: []InitialRedisEpoch{{Region: 0, RedisEpoch: epoch}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Config.Regions[0].InitialRedisEpoch; got != "first" {
		t.Errorf("initial contents are %q, want the first", got)
	}
}

func TestGenerationsKeepTheirOrderWhenPacked(t *testing.T) {
	gens := []Gen{{}, {0, 1}, {0, 1<<32 - 1}, {1, 0}, {1, 5}, {2, 0}, {1<<21 - 1, 1<<32 - 1}}
	for i := 1; i < len(gens); i++ {
		if !gens[i-1].Before(gens[i]) || gens[i-1].Pack() >= gens[i].Pack() {
			t.Errorf("%v is not before %v", gens[i-1], gens[i])
		}
	}
	if p := gens[len(gens)-1].Pack(); p >= 1<<53 {
		t.Errorf("%d does not fit a Lua number", p)
	}
}
