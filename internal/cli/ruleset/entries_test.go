package ruleset

import (
	"strings"
	"testing"
	"time"

	"aliquot/rules"
)

// Import reads what export writes, and what a person writes by hand.
func TestFilesOfEntries(t *testing.T) {
	now := time.UnixMilli(1_900_000_000_000)
	for _, e := range []rules.Entry{
		{EntryID: rules.EntryID{Kind: rules.BlockEntry, Name: "sk_\"*"}, Note: rules.Note{UntilMS: now.UnixMilli() + 1, Reason: "why", By: "ann"}},
		{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: "r", Name: "1"}, ParamsText: rules.ParamsText{Capacity: 5, RefillRate: "16.67"}},
		{EntryID: rules.EntryID{Kind: rules.TierEntry, Name: "pro"}, ParamsText: rules.ParamsText{Limit: 5, Window: 90 * time.Second}},
	} {
		text := entryTextOf(e)
		m, err := text.message()
		if err != nil || rules.EntryOf(m) != e {
			t.Errorf("%+v: %+v, %v", e, m, err)
		}
	}
	put, over, err := readEntries([]byte("entries:\n- {kind: override, rule: r, pattern: k, capacity: 5, refill_rate: 16.67}\n- {kind: block, pattern: a, until: \"2020-01-01T00:00:00Z\"}\n"), now)
	if err != nil || len(put) != 1 || over != 1 || put[0].GetRefillRate() != "16.67" {
		t.Errorf("%v, %d, %v", put, over, err)
	}
	for text, want := range map[string]string{
		"entries: [{kind: block, pattern: a, window: 5}]":  "entry 1: window",
		"entries: [{kind: block, pattern: a, until: now}]": "entry 1: until",
		"entries: [{kind: tier, tier: a, pattern: b}]":     "entry 1: tier and pattern",
		"entries: [{kind: block, pattern: a, ttl: 1h}]":    "no file of entries",
		"rules: []": "no file of entries",
	} {
		if _, _, err := readEntries([]byte(text), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
