package rules

import (
	"strings"
	"testing"
)

func TestRefusedNumbers(t *testing.T) {
	checkRefusals(t, []refusal{
		{"no limit", "rules:\n  - id: a\n    shadow: true\n", []string{"2:5: rule a: there is no limit here; write params: {capacity: 100, refill_rate: 10} or params: {limit: 100, window: 60}"}},
		{"rate alone", oneRule("params: {refill_rate: 5}"), []string{"2:13: rule a: refill_rate needs a capacity; add capacity (the burst) to params"}},
		{"no rate", oneRule("params: {capacity: 5}"), []string{"2:13: rule a: the limit has no rate; add refill_rate (requests a second) or window (seconds) to params"}},
		{"misspelt", oneRule("params: {capcity: 5}"), []string{`2:22: unknown field "capcity" in params; did you mean "capacity"?`}},
		{"zero", oneRule("params: {capacity: 0, refill_rate: 0, window: 0}"), []string{
			"2:32: capacity 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys",
			"2:48: refill_rate 0 would reject every request once the burst is spent; write a rate above 0",
			"2:59: window is shorter than a second; write at least 1"}},
		{"negative", oneRule("params: {limit: -1, refill_rate: -0.5, window: -60}"), []string{
			"2:29: limit must be positive; write at least 1",
			"2:46: refill_rate must be positive; write a rate above 0",
			`2:60: window -60: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"too large numbers", oneRule("params: {capacity: 1000000001, refill_rate: 1000000000.1, window: 36526d}"), []string{
			"2:32: capacity is above the largest there is; write at most 1000000000",
			"2:57: refill_rate is above the fastest there is; write at most 1000000000 requests a second",
			"2:79: window is longer than 100 years; write at most 36525d"}},
		{"not decimal", oneRule("params: {capacity: 0x10, limit: 1_000, refill_rate: .inf, window: 1y}"), []string{
			"2:32: capacity 0x10: not a decimal number; write it like 100 or 1.67",
			"2:45: limit 1_000: not a decimal number; write it like 100 or 1.67",
			"2:65: refill_rate .inf: not a decimal number; write it like 100 or 1.67",
			`2:79: window 1y: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"octal, fraction, text, nothing", oneRule("params: {capacity: 010, limit: 1.5, refill_rate: \"5\", window: }"), []string{
			"2:32: capacity 010: a number with a leading zero means octal to some readers; remove the zero",
			"2:44: limit must be a whole number of requests; remove the fraction",
			"2:62: refill_rate must be a number, found a text; write it without quotes or units, like 100",
			`2:67: window must be a duration, found nothing; write seconds (60) or a text like "1m"`}},
		{"2^63 and beyond", oneRule("params: {capacity: 9223372036854775808, refill_rate: 1e400, window: 1e300}"), []string{
			"2:32: capacity is above the largest there is; write at most 1000000000",
			"2:66: refill_rate is above the fastest there is; write at most 1000000000 requests a second",
			`2:81: window 1e300: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"below the least rate", oneRule("params: {capacity: 1, refill_rate: 0.0000000000009}"), []string{"2:48: refill_rate is below the slowest there is; write at least 0.000000000001 requests a second"}},
		{"bad defaults say it once", "defaults: {params: {capacity: 0}}\nrules: [{id: a}, {id: b}]\n", []string{"1:31: capacity 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys"}},
		{"null params", oneRule("params: "), []string{"2:13: params must be a mapping, found nothing; write the value or remove the field"}},
		{"the largest integers", oneRule("params: {capacity: 9223372036854775807, limit: -9223372036854775808, refill_rate: 9007199254740993}"), []string{
			"2:32: capacity is above the largest there is; write at most 1000000000",
			"2:60: limit must be positive; write at least 1",
			"2:95: refill_rate is above the fastest there is; write at most 1000000000 requests a second"}},
		{"zero and minus one", "rules:\n  - {id: a, params: {capacity: 0, window: 60}}\n  - {id: b, params: {limit: -1, window: 60}}\n", []string{
			"2:32: capacity 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys",
			"3:29: limit must be positive; write at least 1"}},
		{"nothing, and something", "rules:\n  - {id: a, params: {limit: 0, capacity: 5}}\n  - {id: b, params: {limit: unlimited, refill_rate: 1}}\n", []string{
			"2:22: a limit of 0 or unlimited has no capacity and no refill_rate; remove these, or state another limit",
			"3:22: a limit of 0 or unlimited has no capacity and no refill_rate; remove these, or state another limit"}},
		{"a debt of slots", "rules:\n  - {id: a, algorithm: concurrency, overrun: debt, params: {limit: 1, window: 60}}\n", []string{
			"2:37: overrun: debt is about what was used already, and a slot that there is not cannot be held; remove it"}},
		{"periods out of bounds", "rules:\n  - {id: a, params: {limit: 1, window: 0}}\n  - {id: b, params: {limit: 1, window: 999ms}}\n" +
			"  - {id: c, params: {limit: 1, window: 1ns}}\n  - {id: d, params: {limit: 1, window: 0.000000001}}\n" +
			"  - {id: e, params: {limit: 1, window: 100y}}\n  - {id: f, params: {limit: 1, window: 36525d1ms}}\n" +
			"  - {id: g, params: {limit: 1, window: 99999999999999999999}}\n", []string{
			"2:40: window is shorter than a second; write at least 1",
			"3:40: window is shorter than a second; write at least 1",
			`4:40: window 1ns: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`,
			"5:40: window is shorter than a second; write at least 1",
			`6:40: window 100y: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`,
			"7:40: window is longer than 100 years; write at most 36525d",
			"8:40: window is longer than 100 years; write at most 36525d"}},
		{"odd texts for numbers", oneRule("params: {capacity: NaN, limit: +5, refill_rate: 1e400}"), []string{
			"2:32: capacity must be a number, found a text; write it without quotes or units, like 100",
			"2:44: limit +5: not a decimal number; write it like 100 or 1.67",
			"2:61: refill_rate is above the fastest there is; write at most 1000000000 requests a second"}},
		{"too long a number", oneRule("params: {capacity: " + strings.Repeat("1", 65) + ", window: \"" + strings.Repeat("1", 65) + "s\"}"), []string{
			"2:32: capacity " + strings.Repeat("1", 40) + "...: this number is too long; write it with at most 64 characters",
			"2:107: window " + strings.Repeat("1", 40) + `...: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`}},
		{"rate below the least", oneRule("params: {capacity: 1, refill_rate: 1e-999}"), []string{"2:48: refill_rate is below the slowest there is; write at least 0.000000000001 requests a second"}},
	})
}
