package state

import (
	"fmt"
	"sync"
	"testing"

	"aliquot/rules"
)

// The remembered set is the one that parsing would give: another name or another text is another
// outcome, errors included.
func TestParserRemembersTheLast(t *testing.T) {
	p := &ruleParser{}
	first, _, err := p.parse("a", testRules)
	if err != nil || first.Rule("r1") == nil {
		t.Fatal(err)
	}
	if again, _, _ := p.parse("a", testRules); again != first {
		t.Error("the same text was parsed again")
	}
	if two, _, err := p.parse("a", twoRules); err != nil || two.Rule("r2") == nil {
		t.Errorf("another text: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		for range 2 {
			_, _, err := p.parse(name, "rules: 3")
			if want := name + ":1:8: "; err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if set, _, err := p.parse("a", testRules); err != nil || set.Rule("r2") != nil {
		t.Errorf("back again: %v", err)
	}
	var none ruleParser
	if _, _, err := none.parse("", ""); err == nil {
		t.Error("an empty file was accepted by a parser that has seen none")
	}
}

// Rules that were parsed where they were proposed are applied as they are.
func TestRulesAreAppliedAsParsed(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"))
	set, _, err := f.parser.parse("f.yaml", twoRules)
	if err != nil {
		t.Fatal(err)
	}
	if drive(t, f, rulesCmd(twoRules)); f.state.Rules.Set != set {
		t.Error("the rules were parsed again")
	}
}

// Proposals of several callers and the log's own entries meet in one parser.
func TestParserIsSafeForConcurrentUse(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 20 {
				id := fmt.Sprintf("x%d-%d", i, j)
				set, _, err := f.parser.parse("f", "rules: [{id: "+id+", params: {limit: 1, window: 1}}]")
				if err != nil || set.Rule(id) == nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	for i := range 20 {
		text := []string{testRules, twoRules}[i%2]
		data, err := EncodeCommand(rulesCmd(text))
		if err != nil {
			t.Fatal(err)
		}
		f.Apply(uint64(i+2), 1, data)
		var set *rules.Set
		f.View(func(s *State) { set = s.Rules.Set })
		if (set.Rule("r2") != nil) != (i%2 == 1) {
			t.Fatalf("entry %d came into force as another one", i)
		}
	}
	all.Wait()
}
