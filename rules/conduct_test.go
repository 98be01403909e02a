package rules

import (
	"testing"
	"time"
)

func TestConductInherits(t *testing.T) {
	s := MustParse(t, `
defaults: {params: {limit: 1, window: 1}, cool_down: {after: 7}, auto_block: true}
tiers:
  free: {cool_down: {most: 2h}, auto_block: {after: 5, within: 10, for: 30d}}
rules:
  - {id: inherits}
  - {id: tier, tier: free}
  - {id: neither, tier: free, cool_down: false, auto_block: false}
  - {id: empty, cool_down: {}, auto_block: {within: 1.5}}
`)
	month := 30 * 24 * time.Hour
	for id, want := range map[string]struct {
		cool  CoolDown
		block AutoBlock
	}{
		"inherits": {CoolDown{After: 7, Most: time.Minute}, AutoBlock{After: 10_000, Within: time.Minute, For: 10 * time.Minute}},
		"tier":     {CoolDown{After: 100, Most: 2 * time.Hour}, AutoBlock{After: 5, Within: 10 * time.Second, For: month}},
		"neither":  {},
		"empty":    {CoolDown{After: 100, Most: time.Minute}, AutoBlock{After: 10_000, Within: 1500 * time.Millisecond, For: 10 * time.Minute}},
	} {
		r := s.Rule(id)
		if r.CoolDown != want.cool || r.AutoBlock != want.block || r.Watched() != (id != "neither") {
			t.Errorf("%s: %+v %+v", id, r.CoolDown, r.AutoBlock)
		}
	}
	if r := MustParse(t, oneRule(someLimit)).Rule("a"); r.Watched() {
		t.Errorf("watched unasked: %+v %+v", r.CoolDown, r.AutoBlock)
	}
}

func TestRefusedConduct(t *testing.T) {
	checkRefusals(t, []refusal{
		{"kinds", oneRule("cool_down: 60s, auto_block: [1], " + someLimit), []string{
			"2:24: cool_down must be a mapping, or true or false, found a text; write it like cool_down: {after: 100}",
			"2:41: auto_block must be a mapping, or true or false, found a list; write it like auto_block: {after: 100}"}},
		{"bounds", oneRule("cool_down: {after: 0, most: 25h}, auto_block: {after: 1.5, within: 500ms, for: 31d}, " + someLimit), []string{
			"2:32: after must be a whole number of denials from 1 to 1000000000; write it like 100",
			"2:41: most must be from 1s to 24h; write it like 60s",
			"2:67: after must be a whole number of denials from 1 to 1000000000; write it like 100",
			"2:80: within must be from 1s to 24h; write it like 60s",
			"2:92: for must be from 1s to 720h; write it like 60s"}},
		{"fields", oneRule("cool_down: {afer: 5, limit: 3}, " + someLimit), []string{
			`2:25: unknown field "afer" in cool_down; did you mean "after"?`,
			`2:34: unknown field "limit" in cool_down; it belongs in params`}},
		{"one level too high", oneRule("after: 5, " + someLimit), []string{
			`2:13: unknown field "after" in a rule; it belongs in cool_down or auto_block`}},
	})
}
