package leader

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/rules"
)

// TestFillIsByTheSlowestClock: that every bucket has filled is waited for as long as the
// slowest store's clock that rho allows may take, at the smallest floor there is.
func TestFillIsByTheSlowestClock(t *testing.T) {
	set, _, err := rules.Parse("rules.yaml", []byte(`rules:
  - {id: strict, params: {capacity: 10, refill_rate: 1}}
  - {id: elastic, params: {capacity: 10, refill_rate: 1}, override: {vip: {capacity: 70, refill_rate: 1}}}
`)) // the slowest is the override: 70 at 1 a second
	if err != nil {
		t.Fatal(err)
	}
	for _, rho := range []int32{budget.MinRhoPPM, 20_000, budget.MaxRhoPPM} {
		c := budget.NewConfig([]string{"a", "b", "c", "d"}, 10*time.Second, rho)
		filled := 280 * time.Second
		least := filled + filled*time.Duration(rho)/1_000_000
		if got := slowestFill(set, &c); got < least || got > least+2*fillSlack {
			t.Errorf("rho %d ppm: %v, want %v and a little", rho, got, least)
		}
	}
	denying, _, err := rules.Parse("rules.yaml", []byte(`rules:
  - {id: denied, algorithm: sliding_window_log, params: {limit: 0, window: 60}}
  - {id: strict, params: {capacity: 3600, refill_rate: 1}}
  - {id: tenant, algorithm: fixed_window, params: {limit: 9, window: 60}, override: {blocked: {limit: 0, window: 60}}}
`)) // a limit of 0 earns nothing and holds nothing
	if err != nil {
		t.Fatal(err)
	}
	c := budget.NewConfig([]string{"a", "b"}, 10*time.Second, 20_000)
	if got, least := slowestFill(denying, &c), 2*time.Hour+2*time.Hour/50; got < least || got > least+2*fillSlack {
		t.Errorf("beside limits of 0: %v, want %v and a little", got, least)
	}
	if c := budget.NewConfig([]string{"a"}, 10*time.Second, 20_000); slowestFill(nil, &c) != fillSlack {
		t.Error("without rules there is nothing to wait for but what is under way")
	}
}

// A change of floors is forgotten once every bucket could fill under limits that stayed the same. A block
// changes none of them, an override does.
func TestABlockDoesNotProlongAChangeOfFloors(t *testing.T) {
	file, _, err := rules.Parse("rules.yaml", []byte("rules: [{id: slow, params: {capacity: 95, refill_rate: 1}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	block := rules.Entry{EntryID: rules.EntryID{Kind: rules.BlockEntry, Name: "a"}}
	override := rules.Entry{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: "slow", Name: "a"}, ParamsText: rules.ParamsText{Capacity: 5}}
	for name, c := range map[string]struct {
		sets []*rules.Set // after 60 s
		want bool         // at 110 s, after the 100 s of the slowest bucket with its slack
	}{
		"nothing":     {[]*rules.Set{file}, true},
		"a block":     {[]*rules.Set{file.With([]rules.Entry{block})}, true},
		"an override": {[]*rules.Set{file.With([]rules.Entry{override})}, false},
		"a stage":     {[]*rules.Set{file, file}, false},
	} {
		config := budget.Config{Lease: 10 * time.Second, Version: 1, Regions: []budget.RegionConfig{{Name: "gone", FloorVersion: 1}}}
		machine := budget.NewLeader(&budget.Ledger{Config: config}, second(1))
		f := newFloorChange(&config, second(1))
		f.setRules(&config, file)
		f.steps.Due(machine, second(1))
		f.setRules(&config, c.sets...)
		f.steps.Due(machine, second(61))
		if p, _ := f.steps.Due(machine, second(111)); p.Settled != c.want {
			t.Errorf("%s: forgotten: %v, want %v", name, p.Settled, c.want)
		}
	}
}
