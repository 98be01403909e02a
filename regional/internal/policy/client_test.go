package policy

import (
	"fmt"
	"testing"

	"aliquot/limit"
	"aliquot/rules"
)

// TestTheLimitOfAClientIsFoundAgain under other rules than those by which it reserved, whenever something says which
// override it has now. The client is vip_1.
func TestTheLimitOfAClientIsFoundAgain(t *testing.T) {
	const rule = "rules:\n  - id: r0\n    params: {capacity: 100, refill_rate: 1}\n    override: {%s}\n"
	const unknown, nowMS = 0, 1_900_000_000_000 // in the year 2030
	under := func(overrides string, entries ...rules.Entry) *Policy {
		t.Helper()
		p, _, err := (&Policy{}).withCluster(Cluster{Secret: []byte("0123456789abcdef0123456789abcdef")}).
			withRules(RuleText{Version: 1, YAML: fmt.Sprintf(rule, overrides), Numbers: map[string]uint32{"r0": 1}, Entries: entries})
		if err != nil {
			t.Fatal(err)
		}
		p.turnsAt(nowMS)
		return p
	}
	entry := func(name string, capacity int64) rules.Entry {
		e := rules.Entry{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: "r0", Name: name}}
		e.Capacity = capacity
		return e
	}
	for _, c := range []struct {
		name, before string
		now          *Policy
		capacity     limit.Tokens
	}{
		{"nothing but another number", "'vip_*': {capacity: 5}", under("'vip_*': {capacity: 7}, other: {capacity: 1}"), 7},
		{"no override before and after", "", under("other: {capacity: 1}"), 100},
		{"one that does not match", "'o*': {capacity: 5}", under("'o*': {capacity: 6}"), 100},
		{"its key is named now", "'vip_*': {capacity: 5}", under("'vip_*': {capacity: 7}, vip_1: {capacity: 9}"), 9},
		{"its key was named", "vip_1: {capacity: 5}", under("'vip*': {capacity: 7}, '*1': {capacity: 8}"), 7},
		{"its key was named, and nothing matches now", "vip_1: {capacity: 5}", under("'o*': {capacity: 7}"), 100},
		{"an entry has the file's pattern", "vip_1: {capacity: 5}", under("vip_1: {capacity: 7}", entry("vip_1", 3)), 3},
		{"an entry names its key", "", under("", entry("vip_1", 3)), 3},
		{"the wildcards are gone", "'vip_*': {capacity: 5}", under("other: {capacity: 1}"), 100},
		{"another wildcard came", "'vip_*': {capacity: 5}", under("'vip_*': {capacity: 5}, 'vip_?': {capacity: 4}"), unknown},
		{"an entry with a wildcard came", "", under("", entry("*", 3)), unknown},
		{"of two its own has ended", "'vip_*': {capacity: 5, until: 2029-01-01T00:00:00Z}, '*': {capacity: 6}",
			under("'vip_*': {capacity: 5, until: 2029-01-01T00:00:00Z}, '*': {capacity: 6}"), unknown},
		{"it has no limit any more", "", under("vip_1: {limit: unlimited}"), unknown},
	} {
		before := under(c.before)
		was := Client{Hash: ClientHash(before.Hasher, "vip_1"), Wildcards: before.Set.Rule("r0").Wildcards()}
		if o := before.Set.Rule("r0").OverrideFor("vip_1", nowMS-2*365*24*3600*1000); o != nil {
			was.Override = o.Pattern
		}
		l, _, ok := c.now.LimitAgain(c.now.Set.Rule("r0"), was)
		if ok != (c.capacity != unknown) || ok && l.Capacity != c.capacity*limit.Token {
			t.Errorf("%s: capacity %d, %t, want %d", c.name, l.Capacity/limit.Token, ok, c.capacity)
		}
	}
	if p := under("other: {capacity: 1}"); p != nil { // an older daemon's reservation has no hash
		if l, _, ok := p.LimitAgain(p.Set.Rule("r0"), Client{}); ok {
			t.Errorf("a client of whom nothing is known has %+v", l)
		}
	}
}

// TestSlotsOfAClientWhoseLimitIsNotKnown are given back by the smallest limit that it may have, for as long as any lasts.
func TestSlotsOfAClientWhoseLimitIsNotKnown(t *testing.T) {
	set, _, err := rules.Parse(RulesFile, []byte("rules:\n  - id: r0\n    algorithm: concurrency\n    params: {limit: 9, window: 60}\n    override: {a: {limit: 4}, 'b*': {limit: 20, window: 90}, c: {limit: unlimited}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if l := SlotsAtLeast(set.Rule("r0")); l.Capacity != 4*limit.Token || l.Window.Seconds() != 90 {
		t.Errorf("%+v", l)
	}
}
