package cluster

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"aliquot/limit"
	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

const proRules = "rules: [{id: r1, tier: pro, match: {api_key_pattern: \"sk_*\"}, params: {limit: 100, window: 60}}]\n"

// proStaged is what is rolled out beside proRules.
var proStaged = strings.Replace(proRules, "100", "200", 1)

func tierCmd(tier string, limit int64) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeTier{ChangeTier: &raftlogv1.ChangeTier{
		Value: &raftlogv1.TierValue{Tier: tier, Limit: limit}, Remove: limit == 0, Author: "ann", Comment: "more", UnixMs: 3000,
	}}}
}

func limitOf(set *rules.Set) int64 { return int64(set.Rule("r1").Limit.Capacity / limit.Token) }

// A tier's value outlives other files, what is staged, and what was before, on both sides
// of a stage, and is in snapshots.
func TestTierValueOutlivesTheRules(t *testing.T) {
	f := newFSM()
	drive(t, f, bootstrapCmd("one"), mintCmd())
	b := func() *RuleBook { return &f.state.Rules }
	step := func(what string, cmd *raftlogv1.Command, version uint64, inForce, staged int64) {
		t.Helper()
		if got := drive(t, f, cmd); got != version {
			t.Fatalf("%s: %v, want version %d", what, got, version)
		}
		for name, f := range map[string]*fsm{"as it went": f, "from a snapshot": restored(t, f)} {
			b := &f.state.Rules
			if limitOf(b.Set) != inForce || staged != 0 && limitOf(b.Rollout.Set) != staged {
				t.Errorf("%s, %s: %d in force, rollout %+v; want %d and %d", what, name, limitOf(b.Set), b.Rollout, inForce, staged)
			}
		}
	}
	step("a file", rulesCmd(proRules), 2, 100, 0)
	step("a value", tierCmd("pro", 500), 3, 500, 0)
	if e := b().Tiers[0]; len(b().Tiers) != 1 || e.Author != "ann" || e.Comment != "more" || e.UnixMS != 3000 || e.Version != 3 || b().YAML != proRules {
		t.Errorf("%+v", b().Tiers)
	}
	step("the same again", tierCmd("pro", 500), 3, 500, 0)
	step("another file", rulesCmd(proStaged), 4, 500, 0)
	step("the file before", rulesCmd(proRules), 5, 500, 0)
	step("staged", stageCmd(proStaged, "us"), 6, 500, 500)
	step("another value while one is staged", tierCmd("pro", 700), 7, 700, 700)
	if r := b().Rollout; r.First != 6 || r.Version != 8 || r.Base != 7 || b().For("us").Version != 8 || b().For("eu").Version != 7 || b().For("us").YAML != proStaged {
		t.Errorf("%+v", r)
	}
	step("no value while one is staged", tierCmd("pro", 0), 9, 100, 200)
	step("a value once more", tierCmd("pro", 800), 11, 800, 800)
	step("promoted by the version that it began with", endCmd(6, RolloutPromoted), 12, 800, 0)
	if b().YAML != proStaged || b().Tiers[0].Version != 11 {
		t.Errorf("%s %+v", b().YAML, b().Tiers)
	}
	step("no value", tierCmd("pro", 0), 13, 200, 0)
	for _, v := range b().History {
		if text, err := v.Text(); err != nil || v.Version == 7 && text != proRules || v.Version == 8 && text != proStaged {
			t.Errorf("version %d: %q, %v", v.Version, text, err)
		}
	}
}

func TestTierValuesThatAreRefused(t *testing.T) {
	f := newFSM()
	if err, _ := drive(t, f, tierCmd("pro", 5)).(error); !errors.Is(err, ErrNothingInForce) {
		t.Errorf("before the first rules: %v", err)
	}
	drive(t, f, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules))
	before := bytesOf(t, f)
	stale := tierCmd("pro", 5)
	stale.GetChangeTier().HasExpected, stale.GetChangeTier().ExpectedVersion = true, 1
	for name, c := range map[string]struct {
		cmd *raftlogv1.Command
		is  error
	}{
		"unknown":        {tierCmd("gold", 5), rules.ErrNotThere},
		"nothing stated": {&raftlogv1.Command{Kind: &raftlogv1.Command_ChangeTier{ChangeTier: &raftlogv1.ChangeTier{Value: &raftlogv1.TierValue{Tier: "pro"}}}}, rules.ErrBadEdit},
		"no value yet":   {tierCmd("pro", 0), rules.ErrNotThere},
		"stale":          {stale, ErrVersionConflict{Expected: 1, InForce: 2}},
	} {
		if err, _ := drive(t, f, c.cmd).(error); !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", name, err, c.is)
		}
	}
	if !bytes.Equal(bytesOf(t, f), before) {
		t.Error("what is refused changed something")
	}
	// A tier that only the staged rules know may have a value: it is theirs.
	drive(t, f, stageCmd(strings.Replace(proRules, "pro", "gold", 1), "us"))
	if got := drive(t, f, tierCmd("gold", 5)); got != uint64(4) || limitOf(f.state.Rules.Set) != 100 || limitOf(f.state.Rules.Rollout.Set) != 5 {
		t.Errorf("%v: %+v", got, f.state.Rules.Tiers)
	}
}
