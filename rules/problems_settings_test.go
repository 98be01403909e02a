package rules

import "testing"

func TestRefusedSettings(t *testing.T) {
	checkRefusals(t, []refusal{
		{"misspelt words", oneRule("algorithm: token_buckets, enforcement: elastik, placement: spit, on_redis_failure: opened, on_data_loss: forgiven, " + someLimit), []string{
			`2:24: unknown algorithm "token_buckets"; did you mean "token_bucket"?`,
			`2:52: unknown enforcement "elastik"; did you mean "elastic"?`,
			`2:72: unknown placement "spit"; did you mean "split"?`,
			`2:96: unknown on_redis_failure "opened"; did you mean "open"?`,
			`2:118: unknown on_data_loss "forgiven"; did you mean "forgive"?`}},
		{"nothing like it", oneRule("enforcement: hard, " + someLimit), []string{`2:26: unknown enforcement "hard"; known here: elastic, independent, strict`}},
		{"not words", oneRule("algorithm: 1, enforcement: [strict], placement: , on_redis_failure: true, " + someLimit), []string{
			`2:24: unknown algorithm "1"; known here: concurrency, fixed_window, leaky_bucket, sliding_window_counter, sliding_window_log, token_bucket`,
			"2:40: enforcement must be a text, found a list",
			"2:50: placement must be a text, found nothing; write the value or remove the field",
			`2:81: unknown on_redis_failure "true"; known here: closed, local, open`}},

		{"windows", "rules:\n" +
			"  - {id: b, algorithm: sliding_window_log, params: {limit: 5}}\n" +
			"  - {id: c, algorithm: sliding_window_counter, params: {capacity: 5, refill_rate: 1}}\n" +
			"  - {id: d, algorithm: fixed_window, params: {limit: 5, window: 1m}, override: {x: {refill_rate: 2}}}\n" +
			"  - {id: e, algorithm: leaky_bucket, params: {limit: 5}}\n" +
			"  - {id: f, algorithm: concurrency, params: {capacity: 5, window: 60}}\n", []string{
			"2:44: rule b: sliding_window_log needs limit and window; write params: {limit: 100, window: 60}",
			"3:48: rule c: sliding_window_counter is stated as limit and window; remove capacity and refill_rate, and write params: {limit: 100, window: 60}",
			`4:81: override "x" of rule d: fixed_window is stated as limit and window; remove capacity and refill_rate, and write params: {limit: 100, window: 60}`,
			"5:38: rule e: the limit has no rate; add refill_rate (requests a second) or window (seconds) to params",
			"6:37: rule f: concurrency is stated as limit and window; remove capacity and refill_rate, and write params: {limit: 100, window: 60}"}},
		{"more than can be remembered", "rules:\n" +
			"  - {id: a, algorithm: sliding_window_log, params: {limit: 1001, window: 60}}\n" +
			"  - {id: b, algorithm: concurrency, params: {limit: 1000, window: 60}, override: {x: {limit: 1001}}}\n", []string{
			"2:44: rule a: sliding_window_log remembers each request by itself, at most 1000 of them; use algorithm sliding_window_counter, or a limit of at most 1000",
			`3:83: override "x" of rule b: concurrency remembers each slot by itself, at most 1000 of them; use a key of more attributes and a smaller limit, or algorithm token_bucket for how many begin a second`}},
		{"windows that are too long", "rules:\n" +
			"  - {id: a, algorithm: fixed_window, params: {limit: 5, window: 366d}}\n" +
			"  - {id: b, algorithm: fixed_window, params: {limit: 5, window: 367d}}\n" +
			"  - {id: c, params: {limit: 5, window: 367d}}\n", []string{
			"3:38: rule b: fixed_window counts over at most 366 days, for what it counted must outlast every move between regions; use algorithm token_bucket, or a shorter window"}},
		{"units", oneRule("unit: \"tokens in\", "+someLimit) + "  - {id: b, unit: concurrency, " + someLimit + "}\n  - {id: c, unit: 5, " + someLimit + "}\n", []string{
			`2:19: unit "tokens in" must be of letters, digits, dots, underscores and hyphens; change the others`,
			"3:13: unit concurrency belongs to algorithm concurrency, this is token_bucket; name another unit",
			`4:19: unit must be a text, found a number; put it in quotes: "5"`}},
		{"parts in shadow", "rules:\n" +
			"  - {id: a, shadow: \"101%\", " + someLimit + "}\n" +
			"  - {id: b, shadow: \"-1%\", " + someLimit + "}\n" +
			"  - {id: c, shadow: 0.2, " + someLimit + "}\n" +
			"  - {id: d, shadow: \"20\", " + someLimit + "}\n" +
			"  - {id: e, shadow: 0.00001%, " + someLimit + "}\n", []string{
			`2:21: shadow must be true, false or a part of the keys from "0%" to "100%"; write it like "20%"`,
			`3:21: shadow must be true, false or a part of the keys from "0%" to "100%"; write it like "20%"`,
			`4:21: shadow must be true, false or a part of the keys from "0%" to "100%"; write it like "20%"`,
			`5:21: shadow must be true, false or a part of the keys from "0%" to "100%"; write it like "20%"`,
			`6:21: shadow has more than four decimal places; write it like "0.25%"`}},

		// What belongs to another setting.
		{"mode of another algorithm", oneRule("mode: queue, " + someLimit), []string{"2:13: mode belongs to algorithm leaky_bucket, this is token_bucket; remove it"}},
		{"modes", oneRule("algorithm: leaky_bucket, mode: meters, " + someLimit), []string{
			`2:44: unknown mode "meters"; did you mean "meter"?`}},
		{"borrow_wait of another placement", oneRule("placement: split, borrow_wait: 150ms, " + someLimit), []string{"2:31: borrow_wait belongs to placement home and auto, this is split; remove it"}},
		{"borrow_wait out of bounds", "defaults: {placement: home, borrow_wait: 0}\ntiers: {t: {borrow_wait: 11s}, u: {borrow_wait: 1x}, v: {borrow_wait: []}}\nrules: []\n", []string{
			"1:42: borrow_wait must be from 1ms to 8s; write it like 150ms",
			"2:26: borrow_wait must be from 1ms to 8s; write it like 150ms",
			`2:49: borrow_wait 1x: not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like "1m" or "1h30m"`,
			`2:71: borrow_wait must be a duration, found a list; write seconds (60) or a text like "1m"`}},
		{"misplaced once, not for each rule", "defaults: {mode: meter, placement: split}\ntiers: {t: {borrow_wait: 1s}}\nrules: [{id: a, tier: t, " + someLimit + "}, {id: b, tier: t, " + someLimit + "}]\n", []string{
			"1:12: mode belongs to algorithm leaky_bucket, this is token_bucket; remove it",
			"2:13: borrow_wait belongs to placement home and auto, this is split; remove it"}},
		{"the algorithm that mode belongs to may be misspelt", oneRule("algorithm: leaky, mode: queue, " + someLimit), []string{
			`2:24: unknown algorithm "leaky"; known here: concurrency, fixed_window, leaky_bucket, sliding_window_counter, sliding_window_log, token_bucket`}},
		{"one level too high", oneRule("capacity: 5, refill_rate: 1"), []string{
			`2:13: unknown field "capacity" in a rule; it belongs in params`,
			`2:26: unknown field "refill_rate" in a rule; it belongs in params`}},
		{"one level too low", oneRule("params: {limit: 1, window: 1, mode: queue}"), []string{
			`2:43: unknown field "mode" in params; it belongs in a rule, a tier or defaults`}},
	})
}
