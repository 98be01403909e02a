package rules

import (
	"fmt"
	"strings"
	"testing"

	"aliquot/rules/document"
)

func TestRefusedRules(t *testing.T) {
	checkRefusals(t, []refusal{
		{"not a rule", "rules:\n  - 5\n  -\n", []string{
			"2:5: a rule must be a mapping, found a number; write it in braces, like {name: value}, or indented below",
			"3:3: a rule must be a mapping, found nothing; write the value or remove the field"}},
		{"no id", "rules:\n  - " + someLimit + "\n", []string{"2:5: the rule has no id; add one, like id: orders-pro"}},
		{"empty id", "rules: [{id: \"\", " + someLimit + "}]", []string{"1:14: id is empty; write a value"}},
		{"nothing in a list", "rules: [null]\n", []string{"1:9: a rule must be a mapping, found nothing; write the value or remove the field"}},
		{"nothing in a key", oneRule("key: [~, a, ~], " + someLimit), []string{
			"2:19: an attribute name of key must be a text, found nothing; write the value or remove the field",
			"2:23: an attribute name of key must be a text, found nothing; write the value or remove the field"}},
		{"number as id", "rules: [{id: 5, " + someLimit + "}]", []string{`1:14: id must be a text, found a number; put it in quotes: "5"`}},
		{"long id", "rules: [{id: " + strings.Repeat("a", 65) + ", " + someLimit + "}]", []string{"1:14: id is longer than 64 characters; shorten it"}},
		{"odd id", "rules: [{id: ../x, " + someLimit + "}]", []string{`1:14: id "../x" must be of letters, digits, dots, underscores and hyphens; change the others`}},
		{"same id", "rules:\n  - {id: a, " + someLimit + "}\n  - {id: a, " + someLimit + "}\n", []string{`3:10: rule id "a" is already used on line 2; ids must differ`}},
		{"unknown field", oneRule("shadows: true, " + someLimit), []string{`2:13: unknown field "shadows" in a rule; did you mean "shadow"?`}},
		{"bad bools", oneRule("shadow: yes, local_cache: 1, " + someLimit), []string{
			"2:21: shadow must be true, false or a part of the keys from \"0%\" to \"100%\"; write it like \"20%\"",
			"2:39: local_cache must be true or false, found a number"}},
		{"bad version", oneRule("version: -1, " + someLimit), []string{"2:22: version must be a whole number, 0 or more; write it like 3"}},
		{"empty tier", oneRule("tier: \"\", " + someLimit), []string{"2:19: tier is empty; write a value"}},
		{"bad key", oneRule("key: [a, a, 1, \"\"], " + someLimit), []string{
			`2:22: key names "a" twice; remove one`,
			`2:25: an attribute name of key must be a text, found a number; put it in quotes: "1"`,
			"2:28: an attribute name of key is empty; write a value"}},
		{"key not a list", oneRule("key: api_key, " + someLimit), []string{"2:18: key must be a list, found a text; write it in brackets, like [a, b]"}},
		{"version is no number", oneRule("version: new, " + someLimit), []string{"2:22: version must be a number, found a text; write it without quotes or units, like 100"}},
		{"fields of other places", oneRule("rules: [], limits: 5, api_key_pattern: x, " + someLimit), []string{
			`2:13: unknown field "rules" in a rule; it belongs in the file itself, not indented`,
			`2:24: unknown field "limits" in a rule; known here: algorithm, auto_block, borrow_wait, cool_down, enforcement, id, key, local_cache, match, mode, on_data_loss, on_redis_failure, override, overrun, params, placement, replaces, replaces_in_request, request_limit, shadow, tier, unit, version`,
			`2:35: unknown field "api_key_pattern" in a rule; it belongs in match`}},
		{"replaces nothing there", "rules:\n  - {id: a, replaces: [xyz], " + someLimit + "}\n  - {id: bb, " + someLimit + "}\n", []string{`2:24: replaces: no rule has the id "xyz"; known here: bb`}},
		{"replaces a misspelt id", "rules:\n  - {id: a, replaces: [orders-por], " + someLimit + "}\n  - {id: orders-pro, " + someLimit + "}\n", []string{`2:24: replaces: no rule has the id "orders-por"; did you mean "orders-pro"?`}},
		{"replaces the only rule", oneRule("replaces: [b], " + someLimit), []string{`2:24: replaces: no rule has the id "b"; remove it`}},
		{"replaces itself", oneRule("replaces: [a], " + someLimit), []string{"2:24: rule a cannot replace itself; name another rule or remove this"}},
		{"replaces twice and odd things", "rules:\n  - {id: a, replaces: [b, b, 1, \"\"], tier: t, " + someLimit + "}\n  - {id: b, " + someLimit + "}\n", []string{
			`2:27: replaces names "b" twice; remove one`,
			`2:30: a rule id of replaces must be a text, found a number; put it in quotes: "1"`,
			"2:33: a rule id of replaces is empty; write a value"}},
		{"replaced always", "rules:\n  - {id: a, tier: pro, match: {attributes: {org: y}}, replaces: [b], " + someLimit + "}\n  - {id: b, tier: pro, match: {api_key_pattern: x, attributes: {org: y}}, " + someLimit + "}\n", []string{
			"2:66: rule b would never apply: rule a replaces it and matches every request that it matches; remove this, that rule, or give rule a a condition of its own"}},
		{"replaces is no list", oneRule("replaces: b, " + someLimit), []string{"2:23: replaces must be a list, found a text; write it in brackets, like [a, b]"}},
		{"replaces too many", oneRule("replaces: [" + strings.Repeat("b,", MaxReplaces+1) + "], " + someLimit), []string{"2:23: replaces has 65 entries; at most 64 are accepted"}},
		{"replaces in a circle of two", "rules:\n  - {id: a, replaces: [b], " + someLimit + "}\n  - {id: b, replaces: [a], " + someLimit + "}\n", []string{
			"3:24: rules replace each other in a circle (a -> b -> a), so that none would apply; remove this or another of them"}},
		{"replaces in two circles", "defaults: {" + someLimit + "}\nrules:\n  - {id: a, replaces: [b]}\n  - {id: b, replaces: [c, d]}\n  - {id: c, replaces: [b]}\n  - {id: d, replaces: [e, a]}\n  - {id: e}\n", []string{
			"5:24: rules replace each other in a circle (b -> c -> b), so that none would apply; remove this or another of them",
			"6:27: rules replace each other in a circle (a -> b -> d -> a), so that none would apply; remove this or another of them"}},
	})
}

// manyFields is n fields in flow style.
func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f%d: x, ", i)
	}
	return b.String()
}

func TestRefusedConditions(t *testing.T) {
	checkRefusals(t, []refusal{
		{"regex", oneRule("match: {endpoint_regex: \"(\"}, " + someLimit), []string{"2:37: endpoint_regex is not a regular expression (RE2 syntax): error parsing regexp: missing closing ): `(`"}},
		{"hostile regex", oneRule("match: {endpoint_regex: \"" + strings.Repeat("a{1000}", 20) + "\"}, " + someLimit), []string{"2:37: endpoint_regex compiles to too large a program; use smaller repeat counts"}},
		{"empty patterns", oneRule("match: {api_key_pattern: \"\", endpoint_regex: \"\"}, " + someLimit), []string{
			"2:38: api_key_pattern is empty; write a value",
			"2:58: endpoint_regex is empty; write a value"}},
		{"attributes", oneRule("match: {attributes: {a: 1, b: true, \"\": x, " + strings.Repeat("n", 65) + ": x}}, " + someLimit), []string{
			`2:37: the value of attribute a must be a text, found a number; put it in quotes: "1"`,
			`2:43: the value of attribute b must be a text, found true or false; put it in quotes: "true"`,
			"2:49: the attribute's name is empty; write a value",
			"2:56: the attribute's name is longer than 64 characters; shorten it"}},
		{"contradiction", oneRule("tier: pro, match: {attributes: {tier: free}}, " + someLimit), []string{`2:5: rule a can never apply: it asks for tier "pro" and for tier "free"; remove one`}},
		{"contradicting glob", oneRule("match: {api_key_pattern: \"sk_*\", attributes: {api_key: pk_1}}, " + someLimit), []string{`2:5: rule a can never apply: it asks for api_key "sk_*" and for api_key "pk_1"; remove one`}},
		{"no such syntax in RE2", oneRule("match: {endpoint_regex: \"(?=a)\\\\1\"}, " + someLimit), []string{"2:37: endpoint_regex is not a regular expression (RE2 syntax): error parsing regexp: invalid or unsupported Perl syntax: `(?=`"}},
		{"nested repeats", oneRule("match: {endpoint_regex: \"(((a{30}){30}){30}){30}\"}, " + someLimit), []string{"2:37: endpoint_regex is not a regular expression (RE2 syntax): error parsing regexp: invalid repeat count: `{30}`"}},
		{"long patterns", oneRule("match: {api_key_pattern: " + strings.Repeat("a", 513) + ", endpoint_regex: " + strings.Repeat("a", 513) + "}, " + someLimit), []string{
			"2:38: api_key_pattern is longer than 512 characters; shorten it",
			"2:569: endpoint_regex is longer than 512 characters; shorten it"}},
		{"control characters", oneRule("match: {attributes: {a: \"x\\0\", \"\\t\": x}}, " + someLimit), []string{
			"2:37: the value of attribute a contains a control character; remove it",
			"2:44: the attribute's name contains a control character; remove it"}},
		{"attributes one level too high", oneRule("match: {method: POST, attributes: [a]}, " + someLimit), []string{
			`2:21: unknown field "method" in match; known here: api_key_pattern, attributes, endpoint_regex`,
			"2:47: attributes must be a mapping, found a list; write it in braces, like {name: value}, or indented below"}},
		{"too many attributes", oneRule("match: {attributes: {" + manyFields(MaxAttributes+1) + "}}, " + someLimit), []string{"2:21: attributes has 65 entries; at most 64 are accepted"}},
	})
}

func TestRefusedListsTiersAndOverrides(t *testing.T) {
	checkRefusals(t, []refusal{
		{"override twice", oneRule("override: {x: {limit: 1}, x: {limit: 2}}, " + someLimit), []string{`2:39: "x" is written twice here, first on line 2; remove one`}},
		{"bad overrides", oneRule("override: {\"\": {limit: 1}, y: {capacity: 0}, z: 5}, " + someLimit), []string{
			"2:24: the override's API key pattern is empty; write a value",
			"2:54: capacity 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys",
			"2:61: an override must be a mapping, found a number; write it in braces, like {name: value}, or indented below"}},
		{"override without a rate", oneRule("params: {capacity: 5, refill_rate: 1}, override: {x: {limit: 5}}"), []string{`2:63: override "x" of rule a: the limit has no rate; add refill_rate (requests a second) or window (seconds) to params`}},
		{"tier fields", "tiers: {free: {id: x}, pro: 5}\nrules: []\n", []string{
			`1:16: unknown field "id" in a tier; it belongs in a rule`,
			"1:29: a tier must be a mapping, found a number; write it in braces, like {name: value}, or indented below"}},
		{"lists", "rules: []\nwhitelist: [1, \"\"]\nblacklist: [\"**\", a]\n", []string{
			`2:13: a pattern of whitelist must be a text, found a number; put it in quotes: "1"`,
			"2:16: a pattern of whitelist is empty; write a value",
			`3:13: blacklist "**" would reject every request; name the API keys to block`}},
		{"blacklists of everyone", "rules: []\nblacklist: [\"*\", \"?*\", \"*??\", \"???\", \"a*\"]\n", []string{
			`2:13: blacklist "*" would reject every request; name the API keys to block`,
			`2:18: blacklist "?*" would reject every request; name the API keys to block`,
			`2:24: blacklist "*??" would reject every request; name the API keys to block`}},
		{"no tiers, no lists", "tiers: [a]\nrules: []\nwhitelist: {a: b}\nblacklist:\n", []string{
			"1:8: tiers must be a mapping, found a list; write it in braces, like {name: value}, or indented below",
			"3:12: whitelist must be a list, found a mapping; write it in brackets, like [a, b]",
			"4:1: blacklist must be a list, found nothing; write the value or remove the field"}},
		{"tier names", "tiers: {\"\": {}, " + strings.Repeat("t", 65) + ": {}}\nrules: []\n", []string{
			"1:9: the tier's name is empty; write a value",
			"1:17: the tier's name is longer than 64 characters; shorten it"}},
		{"too many tiers", "rules: []\ntiers: {" + manyFields(document.MaxTiers+1) + "}\n", []string{"2:1: tiers has 1001 entries; at most 1000 are accepted"}},
		{"overrides no mapping", oneRule("override: [x], " + someLimit), []string{"2:23: override must be a mapping, found a list; write it in braces, like {name: value}, or indented below"}},
	})
}
