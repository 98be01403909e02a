package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd())
	b := func() *RuleBook { return &f.state.Rules }
	step := func(what string, cmd *raftlogv1.Command, version uint64, inForce, staged int64) {
		t.Helper()
		if got := drive(t, f, cmd); got != version {
			t.Fatalf("%s: %v, want version %d", what, got, version)
		}
		for name, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
			b := &f.state.Rules
			if limitOf(b.Set) != inForce || staged != 0 && limitOf(b.Rollout.Set) != staged {
				t.Errorf("%s, %s: %d in force, rollout %+v; want %d and %d", what, name, limitOf(b.Set), b.Rollout, inForce, staged)
			}
		}
	}
	step("a file", rulesCmd(proRules), 2, 100, 0)
	step("a value", tierCmd("pro", 500), 3, 500, 0)
	if e := b().Entries[0]; len(b().Entries) != 1 || e.By != "ann" || e.Reason != "more" || e.UnixMS != 3000 || e.Revision != 1 || b().YAML != proRules || b().Applied != 2 {
		t.Errorf("%+v", b().Entries)
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
	step("promoted by the version that it began with", endCmd(6, RolloutPromoted), 13, 800, 0)
	if b().YAML != proStaged || b().Applied != 13 || b().EntriesRevision != 4 {
		t.Errorf("%s %+v", b().YAML, b())
	}
	step("no value", tierCmd("pro", 0), 14, 200, 0)
	var versions []uint64
	for _, v := range b().History { // entries have a history of their own
		versions = append(versions, v.Version)
	}
	if !slices.Equal(versions, []uint64{1, 2, 4, 5, 6, 13}) || len(b().EntryChanges) != 5 {
		t.Errorf("%v, %v", versions, b().EntryChanges)
	}
}

func TestTierValuesThatAreRefused(t *testing.T) {
	f := NewMachine()
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
		t.Errorf("%v: %+v", got, f.state.Rules.Entries)
	}
}

// put is a command that puts entries; unixMS is its time.
func put(unixMS int64, entries ...rules.Entry) *raftlogv1.Command {
	c := &raftlogv1.ChangeEntries{Author: "ann", UnixMs: unixMS}
	for _, e := range entries {
		c.Put = append(c.Put, EncodeEntry(Entry{Entry: e}))
	}
	return &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeEntries{ChangeEntries: c}}
}

func blocked(pattern string, until int64) rules.Entry {
	return rules.Entry{EntryID: rules.EntryID{Kind: rules.BlockEntry, Name: pattern}, Note: rules.Note{UntilMS: until}}
}

// A block holds before, during and after another file, a stage and a rollback, and through a
// snapshot in each of these.
func TestABlockOutlivesEveryChangeOfTheFile(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules), put(1, blocked("sk_leaked", 0)))
	attrs := rules.AttributesOf(map[string]string{"api_key": "sk_leaked"})
	for _, step := range []struct {
		name string
		cmd  *raftlogv1.Command
	}{
		{"another file", rulesCmd(proStaged)}, {"a stage", stageCmd(proRules, "us")}, {"another block while one is staged", put(2, blocked("k2", 0))},
		{"taken back", endCmd(6, RolloutAborted)}, {"a stage again", stageCmd(proRules, "us")}, {"promoted", endCmd(9, RolloutPromoted)},
	} {
		if err, is := drive(t, f, step.cmd).(error); is {
			t.Fatalf("%s: %v", step.name, err)
		}
		for how, f := range map[string]*Machine{"as it went": f, "from a snapshot": restored(t, f)} {
			b := &f.state.Rules
			sets := []*rules.Set{b.Set}
			if b.Rollout.UnderWay() {
				sets = append(sets, b.Rollout.Set)
			}
			for _, set := range sets {
				if list, _ := set.Match(attrs, 0, nil); list != rules.Blacklisted {
					t.Errorf("%s, %s: the block is gone", step.name, how)
				}
			}
			if len(b.For("us").Entries) != len(b.Entries) || len(b.For("eu").Entries) != len(b.Entries) {
				t.Errorf("%s, %s: both sides get the entries", step.name, how)
			}
		}
	}
}

// An entry ends by a command, which takes away what is over at the command's time and no
// more; it does not look at any clock.
func TestEntriesEndByACommand(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules), put(1, blocked("a", 1000), blocked("b", 2000), blocked("c", 0)))
	b := func() *RuleBook { return &f.state.Rules }
	end := func(at int64) *raftlogv1.Command {
		return &raftlogv1.Command{Kind: &raftlogv1.Command_EndEntries{EndEntries: &raftlogv1.EndEntries{UnixMs: at}}}
	}
	for _, c := range []struct {
		at      int64
		version uint64
		left    int
		next    int64
	}{{999, 3, 3, 1000}, {1000, 4, 2, 2000}, {1000, 4, 2, 2000}, {5000, 5, 1, 0}} {
		if got := drive(t, f, end(c.at)); got != c.version || len(b().Entries) != c.left || b().NextEnd() != c.next {
			t.Errorf("at %d: version %v, %d entries, the next end at %d; want %+v", c.at, got, len(b().Entries), b().NextEnd(), c)
		}
	}
	if last := b().EntryChanges[2]; last.Revision != 3 || last.Removals != 1 || last.Removed[0].Name != "b" || last.Version != 5 {
		t.Errorf("%+v", last)
	}
}

// A change of entries has effects on others, and is refused as a whole or not at all.
func TestChangesOfEntries(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules), put(1, blocked("a", 0)))
	b := func() *RuleBook { return &f.state.Rules }
	allow := rules.Entry{EntryID: rules.EntryID{Kind: rules.AllowEntry, Name: "a"}}
	if got := drive(t, f, put(2, blocked("a", 0))); got != uint64(3) || b().EntriesRevision != 1 {
		t.Errorf("what is so already makes no version: %v", got)
	}
	if got := drive(t, f, put(2, allow)); got != uint64(4) || len(b().Entries) != 1 || b().Entries[0].Kind != rules.AllowEntry {
		t.Errorf("an allow takes the block's place: %v %v", got, b().Entries)
	}
	override := rules.Entry{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: "r1", Name: "a"}, ParamsText: rules.ParamsText{Limit: 7}}
	if got := drive(t, f, put(3, override)); got != uint64(5) {
		t.Errorf("%v", got)
	}
	before := bytesOf(t, f)
	gone, past, large := override, blocked("b", 3), make([]rules.Entry, rules.MaxEntries+1)
	gone.Rule = "r2"
	for i := range large {
		large[i] = blocked(fmt.Sprint("k", i), 0)
	}
	fat := make([]rules.Entry, 2100)
	for i := range fat {
		fat[i] = blocked(fmt.Sprint("k", i), 0)
		fat[i].Reason = strings.Repeat("r", 500)
	}
	remove := func(e *raftlogv1.Entry) *raftlogv1.Command {
		return &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeEntries{ChangeEntries: &raftlogv1.ChangeEntries{Remove: []*raftlogv1.Entry{e}}}}
	}
	for name, c := range map[string]struct {
		cmd *raftlogv1.Command
		is  error
	}{
		"of a rule that is not there": {put(4, gone), rules.ErrNotThere}, "over already": {put(4, past), rules.ErrBadEdit},
		"everybody": {put(4, blocked("*", 0)), rules.ErrBadEdit}, "too many": {put(4, large...), ErrInvalidArgument}, "too large": {put(4, fat...), ErrInvalidArgument},
		"on no list": {remove(&raftlogv1.Entry{Name: "b"}), rules.ErrNotThere}, "no such block": {remove(&raftlogv1.Entry{Kind: "block", Name: "a"}), rules.ErrNotThere},
	} {
		if err, _ := drive(t, f, c.cmd).(error); !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", name, err, c.is)
		}
	}
	if !bytes.Equal(bytesOf(t, f), before) {
		t.Error("what is refused changed something")
	}
	// A rule that goes leaves its entry without effect, and stops no apply.
	if got := drive(t, f, rulesCmd("rules: []\n")); got != uint64(6) || len(b().Entries) != 2 {
		t.Errorf("%v %v", got, b().Entries)
	}
	if got := drive(t, f, rulesCmd(proRules)); got != uint64(7) || b().Set.Rule("r1").OverrideFor("a", 0) == nil {
		t.Errorf("the rule is back: %v", got)
	}
	all := put(5, gone, allow)
	all.GetChangeEntries().Replace, all.GetChangeEntries().WithoutEffect = true, true
	if got := drive(t, f, all); got != uint64(8) || len(b().Entries) != 2 || b().Entries[1].Rule != "r2" || b().Entries[0].Revision != 2 {
		t.Errorf("replaced by an import: %v %+v", got, b().Entries)
	}
	if got := drive(t, f, remove(&raftlogv1.Entry{Name: "a"})); got != uint64(9) || len(b().Entries) != 1 {
		t.Errorf("unlisted: %v %+v", got, b().Entries)
	}
}

// An apply may have been made against an earlier version if entries alone have changed since.
func TestEntriesAndExpectedVersions(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules), put(1, blocked("a", 0)), put(1, blocked("b", 0)))
	against := func(version uint64) *raftlogv1.Command {
		cmd := rulesCmd(proStaged)
		cmd.GetApplyRules().HasExpected, cmd.GetApplyRules().ExpectedVersion = true, version
		return cmd
	}
	for _, version := range []uint64{1, 5} {
		if err, _ := drive(t, f, against(version)).(error); !errors.Is(err, ErrVersionConflict{Expected: version, InForce: 4}) {
			t.Errorf("against %d: %v", version, err)
		}
	}
	if got := drive(t, f, against(2)); got != uint64(5) {
		t.Errorf("only entries came between: %v", got)
	}
}

// The history of entries is bounded by number and by bytes.
func TestHistoryOfEntriesIsBounded(t *testing.T) {
	one := EntryChange{Comment: "small"}
	var kept []EntryChange
	for range maxEntryChanges + 10 {
		kept = keptChanges(kept, one)
	}
	if len(kept) != maxEntryChanges {
		t.Errorf("%d are kept", len(kept))
	}
	large := EntryChange{Comment: strings.Repeat("x", 1<<20)}
	for range 10 {
		kept = keptChanges(kept, large)
	}
	if len(kept) != maxEntryChangeBytes/large.size() {
		t.Errorf("%d large ones are kept", len(kept))
	}
}

// A snapshot of before entries has the values of tiers, and one whose entries make no sense is
// refused.
func TestSnapshotsOfEntries(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd(), rulesCmd(proRules))
	m := encodeState(&f.state)
	m.TierValues = []*raftlogv1.TierValue{{Tier: "pro", Limit: 500, Author: "ann", Comment: "more"}}
	m.AppliedVersion = 0
	s, err := decodeState(m)
	if err != nil || limitOf(s.Rules.Set) != 500 || s.Rules.Entries[0].By != "ann" || s.Rules.Applied != 2 || s.Rules.EntriesRevision != 1 {
		t.Errorf("%v %+v", err, s)
	}
	for name, above := range map[string][]*raftlogv1.Entry{
		"no kind": {{Name: "a"}}, "twice": {{Kind: "block", Name: "a"}, {Kind: "block", Name: "a"}}, "out of order": {{Kind: "block", Name: "b"}, {Kind: "allow", Name: "a"}},
	} {
		m.TierValues, m.Above = nil, above
		if _, err := decodeState(m); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A version whose limits its successor has as well is not kept, and one that is pushed out leaves its number: a region
// that is cut off may still enforce it.
func TestOlderVersionsAndForgottenOnes(t *testing.T) {
	f := NewMachine()
	drive(t, f, bootstrapCmd("one"), mintCmd())
	override := func(name string) rules.Entry {
		return rules.Entry{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: "r1", Name: name}, ParamsText: rules.ParamsText{Capacity: 5}}
	}
	for i, step := range []struct {
		cmd       *raftlogv1.Command
		older     []uint64
		forgotten uint64
	}{
		{put(1, blocked("a", 0)), nil, 0},
		{rulesCmd(testRules + "# a comment\n"), nil, 0},
		{rulesCmd(strings.Replace(testRules, "100", "10", 1)), []uint64{3}, 0}, // 3 has the limits of 1 and 2
		{put(1, override("a")), []uint64{3, 4}, 0},
		{stageCmd(testRules, "us"), []uint64{3, 4}, 0},
		{endCmd(6, RolloutAborted), []uint64{3, 4, 6}, 0},
		{put(1, override("b")), []uint64{3, 4, 6, 7}, 0},
		{put(1, override("c")), []uint64{4, 6, 7, 8}, 3},
		{put(1, override("d")), []uint64{6, 7, 8, 9}, 4},
	} {
		if err, is := drive(t, f, step.cmd).(error); is {
			t.Fatal(err)
		}
		var older []uint64
		for _, o := range f.state.Rules.Older {
			older = append(older, o.Version)
		}
		if !slices.Equal(older, step.older) || f.state.Rules.Forgotten != step.forgotten {
			t.Errorf("step %d: %v are kept, %d is forgotten; want %v, %d", i+1, older, f.state.Rules.Forgotten, step.older, step.forgotten)
		}
	}
	if b := restored(t, f).state.Rules; b.Forgotten != 9 || b.Version != 10 || len(b.Older) != 0 {
		t.Errorf("from a snapshot: %d is forgotten, want all before %d", b.Forgotten, b.Version)
	}
}
