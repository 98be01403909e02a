package state

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

func stageCmd(yaml string, regions ...string) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_StageRules{StageRules: &raftlogv1.StageRules{
		Rules:   &raftlogv1.ApplyRules{Yaml: yaml, Author: "ann", Comment: "try", UnixMs: 1000},
		Regions: regions, PromoteAfterMs: 500, HaltAbovePpm: 50_000,
		Before: []*raftlogv1.Decisions{{Region: "us", Allowed: 7, Denied: 3}},
	}}}
}

func endCmd(version uint64, state string) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_EndRollout{EndRollout: &raftlogv1.EndRollout{
		Version: version, Outcome: EncodeOutcome(state), Reason: "because", Author: "bob", UnixMs: 2000,
	}}}
}

// twoInUS is a cluster with version 1 in force, version 2 staged in one region, and a
// hot key of each version's rule.
func twoInUS(t *testing.T) (*Machine, budget.KeyID) {
	t.Helper()
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd())
	if got := drive(t, f, stageCmd(twoRules, "us")); got != uint64(2) {
		t.Fatalf("staged as %v", got)
	}
	two := third(1)
	two.Key.Rule = f.state.Rules.Rollout.Numbers["r2"]
	if got := drive(t, f, planCmd(1, third(1), two)); got != nil || f.state.Ledger.Len() != 2 {
		t.Fatalf("%v; %d keys: the numbers of both versions must hold", got, f.state.Ledger.Len())
	}
	return f, two.Key
}

// A staged version goes to its regions alone, and all of it survives a snapshot.
func TestStagedRulesGoToTheirRegions(t *testing.T) {
	f, _ := twoInUS(t)
	before := bytesOf(t, f)
	for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
		b := &f.state.Rules
		want := RulesFor{2, twoRules, map[string]uint32{"r1": 1, "r2": 2}, nil}
		if got := b.For("us"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: us goes by %+v, want %+v", name, got, want)
		}
		want = RulesFor{1, testRules, map[string]uint32{"r1": 1}, nil}
		if got := b.For("eu"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: eu goes by %+v, want %+v", name, got, want)
		}
		r := b.Rollout
		if b.Version != 1 || b.Last != 2 || r.Set.Rule("r2") == nil || r.PromoteAtUnixMS != 1500 || r.HaltAbovePPM != 50_000 ||
			!reflect.DeepEqual(r.Before, []Decisions{{"us", 7, 3}}) {
			t.Errorf("%s: %+v", name, r)
		}
		if others := b.Others(); others[len(others)-1].Version != 2 {
			t.Errorf("%s: the staged version is not among those that regions may go by", name)
		}
		if !bytes.Equal(before, bytesOf(t, f)) {
			t.Errorf("%s: another snapshot", name)
		}
	}
}

func TestPromotedRulesAreInForceEverywhere(t *testing.T) {
	f, _ := twoInUS(t)
	if got := drive(t, f, endCmd(2, RolloutPromoted)); got != uint64(2) {
		t.Fatalf("promoted to %v", got)
	}
	for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
		b := &f.state.Rules
		if b.Version != 2 || b.YAML != twoRules || b.Author != "ann" || b.Comment != "try" || len(b.History) != 2 {
			t.Errorf("%s: %+v", name, b)
		}
		if !reflect.DeepEqual(b.For("us"), b.For("eu")) || b.Rollout.State != RolloutPromoted || f.state.Ledger.Len() != 2 {
			t.Errorf("%s: %+v and %+v, %d keys", name, b.For("us"), b.Rollout, f.state.Ledger.Len())
		}
	}
	// The next change is version 3, and ends the tale of the roll-out.
	if got := drive(t, f, rulesCmd(testRules)); got != uint64(3) || f.state.Rules.Rollout != nil {
		t.Errorf("the next version is %v, with %+v", got, f.state.Rules.Rollout)
	}
}

// What is taken back leaves the rules of before in force as a later version: their
// numbers stay, those of the staged rules are used up and their keys go.
func TestRulesTakenBack(t *testing.T) {
	for _, state := range []string{RolloutHalted, RolloutAborted} {
		f, two := twoInUS(t)
		if got := drive(t, f, endCmd(2, state)); got != uint64(3) {
			t.Fatalf("%s: version %v is in force", state, got)
		}
		for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
			b := &f.state.Rules
			if b.Version != 3 || b.YAML != testRules || b.Author != "bob" || b.Rollout.State != state || b.Rollout.Reason != "because" {
				t.Errorf("%s, %s: %+v, %+v", state, name, b, b.Rollout)
			}
			if v, _ := Kept(b.History, 3); v.RollbackTo != 1 || v.Base != 2 || len(b.History) != 3 {
				t.Errorf("%s, %s: %+v", state, name, v)
			}
			if f.state.Ledger.Len() != 1 || f.state.Ledger.Shares(key(1)) == nil {
				t.Errorf("%s, %s: %d keys are left, want that of the rule that stayed", state, name, f.state.Ledger.Len())
			}
		}
		if drive(t, f, rulesCmd(twoRules)); f.state.Rules.Numbers["r2"] == two.Rule || f.state.Rules.Numbers["r1"] != firstRuleNumber {
			t.Errorf("%s: numbers %v; r2 got the staged rule's number", state, f.state.Rules.Numbers)
		}
	}
}

func TestRolloutsRefused(t *testing.T) {
	f := NewMachine()
	none := bootstrapCmd("one")
	none.GetBootstrap().RulesYaml = ""
	drive(t, f, none)
	if err, _ := drive(t, f, stageCmd(testRules, "us")).(error); !errors.Is(err, ErrNothingInForce) {
		t.Errorf("a stage of the first rules: %v", err)
	}
	drive(t, f, rulesCmd(testRules))
	before := bytesOf(t, f)
	for name, c := range map[string]struct {
		cmd  *raftlogv1.Command
		want error
	}{
		"nowhere":        {stageCmd(twoRules), ErrInvalidArgument},
		"everywhere":     {stageCmd(twoRules, "us", "eu", "ap"), ErrInvalidArgument},
		"unknown region": {stageCmd(twoRules, "us", "mars"), ErrInvalidArgument},
		"region twice":   {stageCmd(twoRules, "us", "us"), ErrInvalidArgument},
		"another kind":   {stageCmd(strings.Replace(testRules, "id: r1", "id: r1\n    placement: split", 1), "us"), ErrNotStageable},
		"a rule removed": {stageCmd("rules: []", "us"), ErrNotStageable},
		"none under way": {endCmd(1, RolloutAborted), ErrNoRollout},
	} {
		if err, _ := drive(t, f, c.cmd).(error); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err, _ := drive(t, f, stageCmd("rules: 3", "us")).(error); err == nil {
		t.Error("bad rules were staged")
	}
	if !bytes.Equal(before, bytesOf(t, f)) {
		t.Error("a refused roll-out changed something")
	}
	drive(t, f, stageCmd(twoRules, "us"))
	before = bytesOf(t, f)
	for name, c := range map[string]struct {
		cmd  *raftlogv1.Command
		want error
	}{
		"a change meanwhile":  {rulesCmd(testRules), ErrRolloutUnderWay},
		"a stage meanwhile":   {stageCmd(testRules, "us"), ErrRolloutUnderWay},
		"the end of another":  {endCmd(1, RolloutPromoted), ErrNoRollout},
		"an unknown end":      {endCmd(2, "over"), ErrInvalidArgument},
		"an end that is none": {endCmd(2, RolloutStaged), ErrInvalidArgument},
	} {
		if err, _ := drive(t, f, c.cmd).(error); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if !bytes.Equal(before, bytesOf(t, f)) {
		t.Error("a refused command changed something")
	}
}

// A roll-out that has ended, either way, keeps what became of it and none of its rules, before and after
// a snapshot.
func TestAnEndedRolloutKeepsNoRules(t *testing.T) {
	for _, outcome := range []string{RolloutPromoted, RolloutAborted, RolloutHalted} {
		f, _ := twoInUS(t)
		drive(t, f, endCmd(2, outcome))
		for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
			r := f.state.Rules.Rollout
			if r == nil || r.State != outcome || r.Reason != "because" || r.YAML != "" || r.Set != nil || len(r.Numbers) != 0 {
				t.Errorf("%s, %s: %+v", outcome, name, r)
			}
		}
	}
}

// Version 1 is in force and 2 is staged. A block makes 3 of the one text and 4 of the other. The promotion makes 5,
// so that no change that was made against 3 is accepted: its author has read the other text.
func TestAPromotionAfterEntriesIsAVersionOfItsOwn(t *testing.T) {
	against := func(version uint64) *raftlogv1.Command {
		cmd := rulesCmd(testRules)
		cmd.GetApplyRules().HasExpected, cmd.GetApplyRules().ExpectedVersion = true, version
		return cmd
	}
	f, _ := twoInUS(t)
	drive(t, f, put(1, blocked("a", 0)))
	if got := drive(t, f, endCmd(2, RolloutPromoted)); got != uint64(5) {
		t.Fatalf("promoted to %v", got)
	}
	for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
		b := &f.state.Rules
		v, _ := Kept(b.History, 5)
		if b.Applied != 5 || b.Last != 5 || b.YAML != twoRules || b.Author != "ann" || b.Comment != "try" || v.RollbackTo != 2 || v.Base != 1 {
			t.Errorf("%s: %+v, %+v", name, b, v)
		}
		for version := range uint64(5) {
			if err, _ := drive(t, f, against(version)).(error); !errors.Is(err, ErrVersionConflict{Expected: version, InForce: 5}) {
				t.Errorf("%s: against %d: %v", name, version, err)
			}
		}
		if got := drive(t, f, put(2, blocked("b", 0)), against(5)); got != uint64(7) {
			t.Errorf("%s: against 5, with a block since: %v", name, got)
		}
	}
}

// A promotion in a log of before keeps its number: what followed it was accepted by that.
func TestAPromotionOfAnOldLog(t *testing.T) {
	f, _ := twoInUS(t)
	drive(t, f, put(1, blocked("a", 0)))
	cmd := endCmd(2, RolloutPromoted)
	cmd.Format = commandFormat
	entry, err := proto.Marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Apply(9, 1, entry); got != uint64(4) || f.state.Rules.Applied != 2 || len(f.state.Rules.History) != 2 {
		t.Errorf("%v, %+v", got, f.state.Rules)
	}
	for outcome, format := range map[string]uint32{RolloutAborted: promotionFormat, RolloutPromoted: promotionFormat + 1} {
		cmd := endCmd(2, outcome)
		cmd.Format = format
		if entry, err = proto.Marshal(cmd); err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeCommand(entry); err == nil {
			t.Errorf("%s of format %d was read", outcome, format)
		}
	}
}
