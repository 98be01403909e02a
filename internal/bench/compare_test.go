package bench

import (
	"fmt"
	"strings"
	"testing"

	"aliquot/rules"
)

func comparing(enforcements ...string) CompareConfig {
	c := CompareConfig{Config: DefaultConfig(), Enforcements: enforcements}
	c.Limit, c.Run = Limit{Capacity: 3, Refill: .5}, "x"
	return c
}

// planned is the rules with the temporary ones beside them.
func planned(t *testing.T, inForce string) (*rules.Set, []trial) {
	t.Helper()
	c := comparing(rules.Strict, rules.Elastic, rules.Independent)
	trials, err := c.trials(inForce, 3)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := insertRules(inForce, ruleTexts(trials))
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := rules.Parse("rules", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return set, trials
}

// Whatever the rules in force say, a run's requests are decided by its temporary
// rule and by no other.
func TestTemporaryRulesDecideAlone(t *testing.T) {
	for name, inForce := range map[string]string{
		"none": "",
		"all that match everybody": `defaults: {enforcement: independent, shadow: true, on_redis_failure: open, params: {limit: 7, window: 60}}
rules:
  - id: a
  - {id: b.2, key: []}
  - {id: c, match: {attributes: {bench: "rotate-*"}}}
  - {id: elsewhere, match: {attributes: {plan: big}}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			set, trials := planned(t, inForce)
			for _, one := range trials {
				_, matched := set.Match(rules.AttributesOf(request(&one.config, one.config.Run, 0).Attributes), 0, nil)
				if len(matched) != 1 {
					t.Fatalf("%d rules match", len(matched))
				}
				r := matched[0].Rule
				if r.ID != one.id || r.Enforcement != one.enforcement || r.ShadowPPM != 0 || r.OnRedisFailure != rules.FailLocal {
					t.Errorf("%+v", r)
				}
				if got := limitOf(matched[0].Limit); got != one.limit {
					t.Errorf("limit %+v, want %+v", got, one.limit)
				}
			}
		})
	}
}

func TestAComparisonThatCannotMeasureIsRefused(t *testing.T) {
	var many strings.Builder
	many.WriteString("rules:\n")
	for i := range rules.MaxReplaces + 1 {
		fmt.Fprintf(&many, "  - {id: r%d, params: {capacity: 1, refill_rate: 1}}\n", i)
	}
	for says, inForce := range map[string]string{
		"whitelisted":         `{rules: [], whitelist: ["bench-*"]}`,
		"blacklisted":         `{rules: [], blacklist: ["bench-*"]}`,
		"64":                  many.String(),
		"does not understand": "rulez: []",
	} {
		c := comparing(rules.Strict)
		if _, err := c.trials(inForce, 3); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
