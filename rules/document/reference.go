package document

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"aliquot/limit"
	"aliquot/rules/source"
)

// Section describes the fields of one mapping of the rules file.
type Section struct {
	// Name is the field that has the mapping, such as "params".
	Name string
	// Where is a sentence about the places in which the mapping may be.
	Where  string
	Fields []Field
}

// Field describes one field of the rules file.
type Field struct {
	Name string
	// Type is the kind of its value in words, with the unit and the bounds.
	Type string
	// Default is the value that holds where the file states none. It is empty if there is none.
	Default string
	// Text is one or more sentences about the field, in Markdown.
	Text string
}

// durations says how the file states a duration.
const durations = "seconds, or a text with units"

// Sections returns a description of every field of the rules file, in the order of a reference. A
// test compares it with what Read reads.
func Sections() []Section {
	return []Section{
		fileSection(), ruleSection(), settingsSection(), paramsSection(), matchSection(),
		{
			Name: "A value of an attribute", Where: "Each value under `match.attributes` is a text, a list of values, or this mapping.",
			Fields: []Field{{Name: "regex", Type: "RE2 expression", Text: "The attribute contains a match of this expression."}},
		},
		{
			Name: "tiers", Where: "Each field of `tiers` names a tier. Beside all settings, a tier has this field.",
			Fields: []Field{{Name: "match", Type: "mapping", Text: "The requests that belong to the tier without naming it, by the fields of `match`. " +
				"It cannot name the attribute `tier`."}},
		},
		{
			Name: "cool_down", Where: "During a cool-down the client is denied without a look at its limit. `true` stands for the defaults of all fields.",
			Fields: []Field{
				{Name: "after", Type: count("denials", 1, MaxCapacity), Default: strconv.Itoa(defaultCoolAfter), Text: "This many denials in a row start a cool-down, if each came before the time that the client was told. It must be above the number of requests that a client has under way at once."},
				{Name: "most", Type: period(time.Second, maxCoolDown), Default: duration(defaultCoolMost), Text: "The longest cool-down. The first one lasts as long as the client was told to wait, and each further one twice as long. All is forgiven once the client is silent in the second half of its wait."},
			},
		},
		{
			Name: "auto_block", Where: "During a block the client is denied as if it were on the blacklist. `true` stands for the defaults of all fields.",
			Fields: []Field{
				{Name: "after", Type: count("denials", 1, MaxCapacity), Default: strconv.Itoa(defaultBlockAfter), Text: "This many denials block the client."},
				{Name: "within", Type: period(time.Second, maxBlockWithin), Default: duration(defaultBlockWithin), Text: "The denials count if they came within this time."},
				{Name: "for", Type: period(time.Second, maxBlockFor), Default: duration(defaultBlockFor), Text: "The block lasts this long."},
			},
		},
		{
			Name: "override", Where: "Each field of `override` is a pattern about API keys. Its value has the fields of `params`, and these.", Fields: noteFields(),
		},
		{
			Name: "whitelist and blacklist", Where: "Each entry of a list is a pattern, or this mapping.",
			Fields: append([]Field{{Name: "pattern", Type: "pattern", Text: "The API keys that the entry is about. It is required."}}, noteFields()...),
		},
	}
}

func fileSection() Section {
	return Section{
		Name: "The file", Where: "The file is one mapping of at most 4 MiB, 700,000 words and signs, and 32 levels. Anchors, aliases, tags and several documents are refused.",
		Fields: []Field{
			{Name: "rules", Type: fmt.Sprintf("list of at most %d rules", MaxRules), Text: "The rules. It is required: `rules: []` limits nothing."},
			{Name: "defaults", Type: "mapping of settings", Text: "Settings that all rules inherit."},
			{Name: "tiers", Type: fmt.Sprintf("mapping of at most %d tiers", MaxTiers), Text: "Settings that the rules of a tier inherit, by the name of the tier."},
			{Name: "whitelist", Type: fmt.Sprintf("list of at most %d entries", MaxListed), Text: "API keys that no rule applies to."},
			{Name: "blacklist", Type: fmt.Sprintf("list of at most %d entries", MaxListed), Text: "API keys that are denied. It has precedence over `whitelist`."},
		},
	}
}

func ruleSection() Section {
	return Section{
		Name: "rules", Where: "Each entry of `rules` is a mapping with all settings and these fields.",
		Fields: []Field{
			{Name: "id", Type: fmt.Sprintf("letters, digits, `.`, `_` and `-`; at most %d", source.MaxNameChars), Text: "The name of the rule in answers, metrics and headers. It is required, and no other rule has it. A rule keeps its buckets as long as its id, algorithm, unit, placement and key stay."},
			{Name: "tier", Type: "name of a tier", Text: "The rule applies to requests of this tier. If it has other conditions, it also applies to requests without a tier."},
			{Name: "match", Type: "mapping", Text: "The conditions that a request must meet. A rule without conditions matches every request."},
			{Name: "override", Type: fmt.Sprintf("mapping of at most %d patterns", MaxOverrides), Text: "Other `params` for some API keys. An exact key has precedence, then the longest pattern."},
			{Name: "replaces", Type: fmt.Sprintf("list of at most %d rule ids", MaxReplaces), Text: "These rules do not apply to a request that this rule matches. A rule in shadow replaces only rules in shadow."},
			{Name: "replaces_in_request", Type: fmt.Sprintf("list of at most %d rule ids", MaxReplaces), Text: "These rules apply to no descriptor of a request of [Envoy's protocol](envoy.md) if this rule matches one of its descriptors. A rule in shadow replaces only rules in shadow."},
			{Name: "version", Type: "whole number", Default: "0", Text: "A number for people. Nothing depends on it."},
		},
	}
}

func settingsSection() Section {
	return Section{
		Name: "Settings", Where: "`defaults`, each tier and each rule may state these. The nearest one counts: the rule, then its tier, then `defaults`.",
		Fields: []Field{
			{Name: "params", Type: "mapping", Text: "The numbers of the limit."},
			{Name: "algorithm", Type: oneOf(Algorithms()), Default: TokenBucket, Text: "How the limit counts. [Algorithms](algorithms.md) compares what each one promises and costs."},
			{Name: "mode", Type: oneOf(leakyModes()), Default: ModeMeter, Text: "With `leaky_bucket`: `meter` admits a request at once, `queue` says in the answer's `delay` when it may proceed."},
			{Name: "unit", Type: "name", Default: UnitRequests, Text: "What the limit counts. With `concurrency` the default is `concurrency`: one slot a request. Any other unit counts what a request states in `costs`."},
			{Name: "key", Type: fmt.Sprintf("list of at most %d attributes", MaxKeyAttributes), Default: "[" + APIKeyAttribute + "]", Text: "Each combination of the values of these attributes has a bucket of its own. `[]` is one bucket for all."},
			{Name: "enforcement", Type: oneOf(Enforcements()), Default: Elastic, Text: "How regions hold the limit together. `strict`: together they never admit more. `elastic`: the rate is as exact, but a key that was idle everywhere may burst once in each region. `independent`: each region has the whole limit, so N regions admit N times as much. Algorithms that count hold `elastic` as `strict`."},
			{Name: "placement", Type: oneOf(Placements()), Default: Auto, Text: "Where a key is held. `split`: each region that asks has a part. `home`: one region has all of it, and it follows the client. `auto`: `home` for token buckets below about ten requests and ten a second in each region, otherwise `split`. With an algorithm that counts, `auto` also moves what other regions do not use to the region that would refuse a request."},
			{Name: "borrow_wait", Type: period(minBorrowWait, maxBorrowWait), Text: "How long a request may wait for what other regions lend. It cannot be stated with `split`. Without it the time is 300 ms and three round trips to the leader, at most 500 ms."},
			{Name: "on_redis_failure", Type: oneOf(RedisFailures()), Default: FailLocal, Text: "What decides while the region's store does not answer. `local`: a limit in memory, below the region's part. `open`: all requests pass. `closed`: all are denied."},
			{Name: "on_data_loss", Type: oneOf(dataLosses()), Default: LossDeny, Text: "What is left of a key if the region's store has [lost its memory](protocol.md#lost-memory) and the daemon remembers nothing of the key. `deny`: nothing, so a bucket starts empty, and a limit that counts waits until no earlier request can count. `forgive`: all of it. Each loss of a region's store then lets through up to one whole limit more, once; `aliquot budget get` shows it as `excess_data_loss`."},
			{Name: "overrun", Type: oneOf(overruns()), Default: OverrunDeny, Text: "`debt` denies a request that the limit does not hold, and charges it all the same, for what it asks was used already (`apply_on_stream_done` of Envoy). A limit can go below zero by its own size. Each such denial costs one more call of the store, and without the store nothing is charged. It cannot be stated with `concurrency`."},
			{Name: "request_limit", Type: oneOf(requestLimits()), Default: RequestLimitDeny, Text: "`allow` lets a descriptor of [Envoy's protocol](envoy.md) bring a limit, which holds in place of this one in a bucket of its own."},
			{Name: "local_cache", Type: "true or false", Default: "true", Text: "`false` asks the regional store for every check."},
			{Name: "shadow", Type: "true, false or a text such as `\"20%\"`", Default: "false", Text: "The rule decides and counts, but never denies: for all keys, or for this part of them. The same keys are in the part each time, and a smaller part is within a larger one."},
			{Name: "cool_down", Type: "true, false or a mapping", Default: "false", Text: "Holds back clients that ask again before the time that they were told. See [`cool_down`](#cool_down)."},
			{Name: "auto_block", Type: "true, false or a mapping", Default: "false", Text: "Blocks clients that are denied again and again. See [`auto_block`](#auto_block)."},
		},
	}
}

func paramsSection() Section {
	return Section{
		Name: "params", Where: "Buckets need `capacity` and `refill_rate`, or `limit` and `window`. Algorithms that count need `limit` and `window`.",
		Fields: []Field{
			{Name: "capacity", Type: count("", 1, MaxCapacity), Text: "The largest burst."},
			{Name: "refill_rate", Type: fmt.Sprintf("decimal number above 0, at most %d", MaxRate), Text: "How much comes back each second."},
			{Name: "limit", Type: count("", 0, MaxCapacity) + ", or `" + unlimited + "`", Text: fmt.Sprintf("How much a window admits. 0 denies everything. `%s` and `%s` hold at most %d.", SlidingWindowLog, Concurrency, limit.MaxEntries)},
			{Name: "window", Type: period(MinWindow, MaxWindow), Text: fmt.Sprintf("The time over which `limit` holds. Algorithms that count take at most %s.", duration(maxCountedWindow))},
		},
	}
}

func matchSection() Section {
	return Section{
		Name: "match", Where: "A request must meet all conditions that are stated.",
		Fields: []Field{
			{Name: "api_key_pattern", Type: "pattern", Text: "The attribute `api_key` matches. `*` stands for any characters, `?` for exactly one."},
			{Name: "endpoint_regex", Type: "RE2 expression", Text: "The attribute `endpoint`, without query and fragment, contains a match."},
			{Name: "attributes", Type: fmt.Sprintf("mapping of at most %d attributes", MaxAttributes), Text: fmt.Sprintf("Each attribute has the value stated, or one of a list of at most %d. In a text, `*` stands for any characters. `\"\"` asks for absence.", MaxValues)},
		},
	}
}

func noteFields() []Field {
	return []Field{
		{Name: "until", Type: "time as in RFC 3339", Text: "The first instant at which the entry no longer holds."},
		{Name: "reason", Type: "text", Text: "Why, for people."},
		{Name: "by", Type: "text", Text: "By whom, for people."},
	}
}

// oneOf lists words, the most usual one first.
func oneOf(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }

// count is a whole number of something within bounds.
func count(of string, least, most int64) string {
	if of != "" {
		of = " of " + of
	}
	return fmt.Sprintf("whole number%s from %d to %d", of, least, most)
}

// period is a duration within bounds.
func period(least, most time.Duration) string {
	return fmt.Sprintf("%s, from %s to %s", durations, duration(least), duration(most))
}

// duration writes a duration as the file may state it.
func duration(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
