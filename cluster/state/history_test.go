package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// written is a rules file of about this size.
func written(version, size int) string {
	return fmt.Sprintf("%s# %d %s\n", testRules, version, strings.Repeat("x", size))
}

func restored(t *testing.T, f *Machine) *Machine {
	t.Helper()
	state, err := ReadSnapshot(bytes.NewReader(bytesOf(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	g := NewMachine()
	g.state = *state
	return g
}

// Every version is kept with its author, time, word and text, and survives a snapshot.
func TestHistoryIsKept(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"))
	texts := []string{testRules}
	for v := 2; v < 7; v++ {
		texts = append(texts, written(v, v*minPacked/4))
		drive(t, f, &raftlogv1.Command{Kind: &raftlogv1.Command_ApplyRules{ApplyRules: &raftlogv1.ApplyRules{
			Yaml: texts[v-1], Author: fmt.Sprint("a", v), Comment: fmt.Sprint("c", v), UnixMs: int64(v), RollbackTo: uint64(v % 2),
		}}})
	}
	before := bytesOf(t, f)
	for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
		b := f.state.Rules
		if len(b.History) != len(texts) || b.Version != 6 || b.Last != 6 || b.Comment != "c6" {
			t.Fatalf("%s: %d versions kept, version %d of %d, %q", name, len(b.History), b.Version, b.Last, b.Comment)
		}
		for i, want := range texts {
			v, ok := Kept(b.History, uint64(i+1))
			text, err := v.Text()
			if !ok || err != nil || text != want {
				t.Errorf("%s: version %d is %.40q (%v, %v)", name, i+1, text, ok, err)
			}
			if i > 0 && (v.Author != fmt.Sprint("a", i+1) || v.Comment != fmt.Sprint("c", i+1) || v.UnixMS != int64(i+1) ||
				v.Base != uint64(i) || v.RollbackTo != uint64((i+1)%2)) {
				t.Errorf("%s: version %d: %+v", name, i+1, v)
			}
		}
		if _, ok := Kept(b.History, 7); ok {
			t.Errorf("%s: a version that was never applied is kept", name)
		}
		if !bytes.Equal(before, bytesOf(t, f)) {
			t.Errorf("%s: another snapshot", name)
		}
	}
}

// The history is bounded in number and in bytes; the oldest go first, and the two
// latest always stay.
func TestHistoryIsBounded(t *testing.T) {
	one := func(version uint64, size int) RuleVersion { return RuleVersion{Version: version, size: size} }
	for _, c := range []struct {
		name         string
		size, n, len int
	}{
		{"many", 10, 3 * maxVersions, maxVersions},
		{"large", rules.MaxFileBytes, 40, maxHistoryBytes / rules.MaxFileBytes},
		{"too large", maxHistoryBytes, 5, 2},
	} {
		var history []RuleVersion
		for v := range c.n {
			history = keptVersions(history, one(uint64(v+1), c.size))
		}
		if len(history) != c.len || history[len(history)-1].Version != uint64(c.n) || history[0].Version != uint64(c.n-c.len+1) {
			t.Errorf("%s: %d versions kept, want %d; from %d to %d", c.name, len(history), c.len, history[0].Version, history[len(history)-1].Version)
		}
	}
}

// A history that another reader holds does not change under it.
func TestHistoryIsReplacedNotChanged(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"))
	for v := range maxVersions - 1 {
		drive(t, f, rulesCmd(written(v, 1)))
	}
	held := f.state.clone()
	drive(t, f, rulesCmd(written(-1, 1)), rulesCmd(written(-2, 1)))
	for i, v := range held.Rules.History {
		if v.Version != uint64(i+1) {
			t.Fatalf("version %d became %d", i+1, v.Version)
		}
	}
}

// A damaged text is an error, not another text.
func TestDamagedTextIsTold(t *testing.T) {
	v := newRuleVersion(3, 2, &raftlogv1.ApplyRules{Yaml: written(1, 2*minPacked)})
	if !v.packed {
		t.Fatal("a large text is not packed")
	}
	for name, spoil := range map[string]func(*RuleVersion){
		"cut":        func(v *RuleVersion) { v.text = v.text[:len(v.text)/2] },
		"other size": func(v *RuleVersion) { v.size++ },
		"not packed": func(v *RuleVersion) { v.text = []byte("rules: []") },
	} {
		bad := v
		spoil(&bad)
		if _, err := bad.Text(); err == nil || !strings.Contains(err.Error(), "version 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A snapshot of the time before versions were kept is read, with the version in force
// as all of its history.
func TestSnapshotWithoutHistory(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), rulesCmd(twoRules))
	msg := encodeState(&f.state)
	msg.RuleVersions, msg.LastRulesVersion = nil, 0
	state, err := decodeState(msg)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := Kept(state.Rules.History, 2)
	text, err := v.Text()
	if !ok || err != nil || text != twoRules || state.Rules.Last != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	msg.RuleVersions = []*raftlogv1.RuleVersion{{Version: 2}, {Version: 1}}
	if _, err := decodeState(msg); err == nil {
		t.Error("versions out of order were believed")
	}
}
