package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"aliquot/limit"
	"aliquot/rules/document"
	"aliquot/rules/pattern"
)

func entryOf(kind EntryKind, name string) Entry {
	return Entry{EntryID: EntryID{Kind: kind, Name: name}}
}

func overrideOf(rule, pattern string, p ParamsText) Entry {
	return Entry{EntryID: EntryID{OverrideEntry, rule, pattern}, ParamsText: p}
}

// A block beats an allow, both beat the file's blacklist, and that beats its whitelist.
func TestOrderOfListsAndEntries(t *testing.T) {
	s := MustParse(t, "rules: []\nwhitelist: [\"w*\", both, white]\nblacklist: [both, black, \"b*\"]\n").With([]Entry{
		entryOf(AllowEntry, "black"), entryOf(AllowEntry, "twice*"), entryOf(BlockEntry, "twice_1"), entryOf(BlockEntry, "white"),
	})
	for key, want := range map[string]ListKind{
		"both": Blacklisted, "black": Whitelisted, "b1": Blacklisted, "w1": Whitelisted, "white": Blacklisted,
		"twice_1": Blacklisted, "twice_2": Whitelisted, "other": None,
	} {
		attrs := AttributesOf(map[string]string{"api_key": key})
		if got, _ := s.Match(attrs, 0, nil); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
		above := key == "black" || key == "white" || strings.HasPrefix(key, "twice")
		if e := s.Explain(attrs, 0); e.List != want || e.AboveFile != above || (e.Entry != nil) != (want != None) {
			t.Errorf("%s: %+v", key, e)
		}
	}
}

// An override entry, the file's override, the value of the tier, the rule: the first that
// is there sets the limit. Of two of one level the exact key wins, then the longer pattern.
func TestOrderOfNumbers(t *testing.T) {
	file := MustParse(t, `rules:
  - id: a
    tier: pro
    match: {endpoint_regex: x}
    params: {limit: 10, window: 10}
    override: {vip_1: {limit: 20}, "vip_*": {limit: 30}, "big_*": {limit: 40}}
`)
	tier := tierOf("pro", ParamsText{Limit: 50})
	s := file.With([]Entry{tier, overrideOf("a", "vip_1*", ParamsText{Limit: 60}), overrideOf("a", "vip_12", ParamsText{Limit: 70}), overrideOf("a", "burst", ParamsText{Capacity: 80})})
	for key, want := range map[string]limit.Limit{
		"vip_12": bucket(70, 7e6, 0), // an exact key of two entries
		"vip_1":  bucket(60, 6e6, 0), // a pattern of an entry before an exact key of the file
		"vip_2":  bucket(30, 3e6, 0), // the file
		"big_1":  bucket(40, 4e6, 0),
		"other":  bucket(50, 5e6, 0), // the tier
		"burst":  bucket(80, 5e6, 0), // what is not stated is the tier's
	} {
		if got := limitAt(s.Rule("a"), key, 0); got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
	if o := s.Rule("a").OverrideFor("vip_12", 0); o == nil || o.Entry == nil || o.Entry.Name != "vip_12" {
		t.Errorf("%+v", o)
	}
	if o := s.Rule("a").OverrideFor("vip_2", 0); o == nil || o.Entry != nil {
		t.Errorf("%+v", o)
	}
	if back := s.With(nil); back != file || file.Rule("a").OverrideFor("vip_12", 0).Pattern != "vip_*" {
		t.Error("without entries the file holds again")
	}
}

// A change of entries is a change of a rule's limits, for those who remember them.
func TestOverrideEntryChangesTheRule(t *testing.T) {
	file := MustParse(t, "rules: [{id: a, "+someLimit+"}]\n")
	under := file.With([]Entry{overrideOf("a", "k", ParamsText{Limit: 7})})
	if under.Rule("a").SameLimits(file.Rule("a")) || !under.Rule("a").SameLimits(file.With([]Entry{overrideOf("a", "k", ParamsText{Limit: 7}), entryOf(BlockEntry, "k")}).Rule("a")) {
		t.Error("the limits of a rule are those under its entries")
	}
	for name, c := range map[string]struct {
		with *Set
		same bool
	}{
		"none": {file, true}, "a block": {file.With([]Entry{entryOf(BlockEntry, "k")}), true}, "an override": {under, false}, "no rules": {nil, false},
		"another rule": {MustParse(t, "rules: [{id: b, "+someLimit+"}]\n"), false}, "read again": {MustParse(t, "rules: [{id: a, "+someLimit+"}]\n"), true},
		"another key":         {MustParse(t, "rules: [{id: a, key: [endpoint], "+someLimit+"}]\n"), false},
		"another enforcement": {MustParse(t, "rules: [{id: a, enforcement: independent, "+someLimit+"}]\n"), false},
	} {
		if SameLimits(file, c.with) != c.same || SameLimits(c.with, file) != c.same {
			t.Errorf("%s: the same limits: %v, want %v", name, !c.same, c.same)
		}
	}
}

// No daemon ends an entry by its own clock: a command takes it away.
func TestEntriesHoldUntilTheyAreTakenAway(t *testing.T) {
	block, own := entryOf(BlockEntry, "k"), overrideOf("a", "o", ParamsText{Limit: 7})
	block.UntilMS, own.UntilMS = 1000, 1000
	s := MustParse(t, "rules: [{id: a, "+someLimit+"}]\n").With([]Entry{block, own})
	if got, _ := s.Match(AttributesOf(map[string]string{"api_key": "k"}), 2000, nil); got != Blacklisted {
		t.Errorf("after until: %v", got)
	}
	if o := s.Rule("a").OverrideFor("o", 2000); o == nil || o.Entry.UntilMS != 1000 {
		t.Errorf("after until: %+v", o)
	}
}

// An entry whose rule or kind of limit is gone is without effect, and says why.
func TestEntriesWithoutEffect(t *testing.T) {
	s := MustParse(t, "rules: [{id: orders, "+someLimit+"}, {id: w, algorithm: fixed_window, tier: pro, match: {endpoint_regex: x}, params: {limit: 5, window: 5}}]\n")
	for _, c := range []struct {
		entry       Entry
		err         error
		rules, want string
	}{
		{entryOf(BlockEntry, "k"), nil, "", ""},
		{overrideOf("orders", "k", ParamsText{Capacity: 3}), nil, "orders", ""},
		{tierOf("pro", ParamsText{Limit: 3}), nil, "w", ""},
		{overrideOf("order", "k", ParamsText{Capacity: 3}), ErrNotThere, "", `there is no rule "order"`},
		{overrideOf("w", "k", ParamsText{Capacity: 3}), ErrBadEdit, "", "fixed_window is stated as limit and window"},
		{tierOf("gold", ParamsText{Limit: 3}), ErrNotThere, "", `no rule has the tier "gold"`},
		{tierOf("pro", ParamsText{Capacity: 3}), ErrBadEdit, "", "rule w: fixed_window has a limit and a window, no capacity or refill_rate; state limit"},
	} {
		if err := s.CheckEntry(&c.entry); !errors.Is(err, c.err) {
			t.Errorf("%v: %v, want %v", c.entry, err, c.err)
		}
		ids, why := s.Effect(&c.entry)
		if strings.Join(ids, ",") != c.rules || !strings.HasPrefix(why, c.want) || (c.want == "") != (why == "") {
			t.Errorf("%v: %v %q, want %s %q", c.entry, ids, why, c.rules, c.want)
		}
		if c.want != "" && s.With([]Entry{c.entry}).Rule("w").Limit != s.Rule("w").Limit {
			t.Errorf("%v has an effect", c.entry)
		}
	}
}

func TestEntriesThatMakeNoSense(t *testing.T) {
	with := func(e Entry, n Note) Entry { e.Note = n; return e }
	for name, e := range map[string]Entry{
		"of no kind":               entryOf("ban", "k"),
		"of nothing":               entryOf(BlockEntry, ""),
		"everybody":                entryOf(BlockEntry, "?*"),
		"too long":                 entryOf(BlockEntry, strings.Repeat("k", pattern.MaxChars+1)),
		"a control character":      entryOf(AllowEntry, "a\nb"),
		"not UTF-8":                entryOf(AllowEntry, "\xff"),
		"a block with numbers":     {EntryID: EntryID{Kind: BlockEntry, Name: "k"}, ParamsText: ParamsText{Limit: 1}},
		"a block of a rule":        {EntryID: EntryID{BlockEntry, "r", "k"}},
		"an override of no rule":   overrideOf("", "k", ParamsText{Limit: 1}),
		"an override of nothing":   overrideOf("r", "k", ParamsText{}),
		"not a number":             overrideOf("r", "k", ParamsText{Limit: 1, RefillRate: "NaN"}),
		"negative":                 overrideOf("r", "k", ParamsText{Limit: -1}),
		"a negative window":        overrideOf("r", "k", ParamsText{Limit: 1, Window: -time.Second}),
		"after the last year":      with(entryOf(BlockEntry, "k"), Note{UntilMS: latestMS + 1}),
		"a long reason":            with(entryOf(BlockEntry, "k"), Note{Reason: strings.Repeat("r", document.MaxReasonChars+1)}),
		"a tier with both a rates": tierOf("pro", ParamsText{Limit: 1, RefillRate: "1"}),
	} {
		if err := e.Check(); !errors.Is(err, ErrBadEdit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An apply warns of each entry that stands above what the file changes, and of no other.
func TestHides(t *testing.T) {
	const file = `rules:
  - {id: a, tier: pro, match: {endpoint_regex: x}, params: {limit: 10, window: 10}, override: {vip: {limit: 20}}}
  - {id: b, params: {limit: 10, window: 10}, override: {vip: {limit: 20}}}
blacklist: [k1]
whitelist: [k2]
`
	entries := []Entry{
		entryOf(BlockEntry, "k*"), entryOf(AllowEntry, "z"), overrideOf("b", "vip", ParamsText{Limit: 5}), overrideOf("gone", "vip", ParamsText{Limit: 5}), tierOf("pro", ParamsText{Limit: 50}),
	}
	before := MustParse(t, file)
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"[k1]", "[]", "the file changes a list for \"k1\"; the entry block \"k*\" stays above that; `aliquot entries remove block 'k*'` ends that"},
		{"[k2]", "[k2, other]", ""},
		{"override: {vip: {limit: 20}}}\nblack", "override: {vip: {limit: 30}}}\nblack", "the file changes the override \"vip\" of rule b; the entry override b \"vip\" (limit 5) stays above that; `aliquot entries remove override b vip` ends that"},
		{"id: b, params: {limit: 10", "id: b, params: {limit: 11", "the file changes the limit of rule b; the entry override b \"vip\" (limit 5) stays above that; `aliquot entries remove override b vip` ends that"},
		{"x}, params: {limit: 10", "x}, params: {limit: 11", "rule a keeps the value that was set for the tier \"pro\" (limit 50), above what the file states; `aliquot entries remove tier pro` ends that"},
	} {
		after := MustParse(t, strings.Replace(file, c.old, c.new, 1))
		if got := strings.Join(Hides(entries, before.With(entries), after), "\n"); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.new, got, c.want)
		}
	}
	if got := Hides(entries, nil, before); got != nil {
		t.Errorf("before the first rules: %v", got)
	}
	var many []Entry
	for range maxHides + 2 {
		many = append(many, entries[4])
	}
	if got := Hides(many, before, MustParse(t, strings.Replace(file, "x}, params: {limit: 10", "x}, params: {limit: 11", 1))); len(got) != maxHides+1 || !strings.HasPrefix(got[maxHides], "2 other entries") {
		t.Errorf("%d warnings, the last %s", len(got), got[len(got)-1])
	}
}
