package bench

import (
	"strings"
	"testing"

	"aliquot/rules"
)

// item is one temporary rule, as Compare makes it.
const item = `{id: bench-rotate-strict-x, match: {attributes: {bench: "x"}}, params: {capacity: 3, refill_rate: 1}}`

func TestRulesAreInsertedAndTakenOutToTheByte(t *testing.T) {
	const one = "{id: a, params: {capacity: 1, refill_rate: 1}}"
	for name, file := range map[string]string{
		"nothing applied yet":   "",
		"block":                 "# first\nrules:\n  # of a\n  - id: a\n    params: {capacity: 1, refill_rate: 1}\n\nblacklist: [x]\n",
		"block without indent":  "defaults: {enforcement: strict}\nrules:\n- id: a\n  params: {capacity: 1, refill_rate: 1}\n",
		"flow items in a block": "rules:\n    - " + one + " # behind\n",
		"flow":                  "rules: [" + one + "]\n",
		"flow with nothing":     "rules: []",
		"flow over lines":       "whitelist: [\"ü*\"]\nrules: [\n  " + one + ",\n]\n",
		"whole file in flow":    "{whitelist: [\"ü*\"], rules: [" + one + "]}",
		"Windows":               "rules:\r\n  - id: a\r\n    params: {capacity: 1, refill_rate: 1}\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			changed, inserted, err := insertRules(file, []string{item, strings.ReplaceAll(item, "strict", "elastic")})
			if err != nil {
				t.Fatal(err)
			}
			set, _, err := rules.Parse("rules", []byte(changed))
			if err != nil {
				t.Fatalf("%v\n%s", err, changed)
			}
			others := 0
			if strings.Contains(file, "id: a") {
				others = 1
			}
			if set.Rule("bench-rotate-strict-x") == nil || set.Rule("bench-rotate-elastic-x") == nil || len(set.Rules()) != 2+others {
				t.Errorf("%d rules in\n%s", len(set.Rules()), changed)
			}
			if back, found := withoutInserted(changed, inserted); back != file || !found {
				t.Errorf("taken out (%v):\n%s\nwant\n%s", found, back, file)
			}
		})
	}
}

func TestOnlyWhatWasInsertedIsTakenOutOfAFileChangedSince(t *testing.T) {
	changed, inserted, err := insertRules("rules:\n  - id: a\n    params: {capacity: 1, refill_rate: 1}\n", []string{item})
	if err != nil {
		t.Fatal(err)
	}
	theirs := "# mine\n" + strings.Replace(changed, "capacity: 1,", "capacity: 7,", 1)
	text, found := withoutInserted(theirs, inserted)
	if want := "# mine\nrules:\n  - id: a\n    params: {capacity: 7, refill_rate: 1}\n"; text != want || !found {
		t.Errorf("%v:\n%s", found, text)
	}
	if text, found = withoutInserted("rules: []\n", inserted); found || text != "rules: []\n" {
		t.Errorf("%v:\n%s", found, text)
	}
}

func TestAFileWithoutAListOfRulesIsRefused(t *testing.T) {
	for _, file := range []string{"5", "rules: 5", "tiers: {}", "rules: {a: 1}", "a: [", "# nothing but this"} {
		if text, _, err := insertRules(file, []string{item}); err == nil {
			t.Errorf("%q became\n%s", file, text)
		}
	}
}
