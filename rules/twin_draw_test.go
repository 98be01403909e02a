package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"aliquot/rules/document"
)

// twinFile is a rules file as it was drawn.
type twinFile struct {
	defaults             twinLevel
	tiers                map[string]twinLevel
	assigned             map[string]twinMatch // by tier
	rules                []*twinRule
	whitelist, blacklist []string
}

// twinLevel is what defaults, a tier or a rule states.
type twinLevel struct {
	params   numbers
	settings map[string]string // a key as names with commas between
}

// twinMatch is whom a tier gets; what is empty is not asked.
type twinMatch struct{ apiKey, org string }

type twinRule struct {
	twinLevel
	ID, tier, apiKey, regex string
	attributes              map[string]string
	methods                 []string // "re:" before a regular expression
	overrides               []twinOverride
	replaces                []string
}

type twinOverride struct {
	pattern string
	params  numbers
	untilMS int64 // 0: for good
}

func (w *twinFile) rule(id string) *twinRule {
	return w.rules[slices.IndexFunc(w.rules, func(r *twinRule) bool { return r.ID == id })]
}

// A prefix longer than the index files patterns under, and one that it cuts in the
// middle of a character.
const (
	longPrefix  = "sk_0123456789012345678901234567890123456789"
	splitPrefix = "sk_0123456789012345678901234567é"
)

// twinEnds is when some overrides end, Unix milliseconds.
const twinEnds = 1000

// Few values are drawn, which meet each other often.
var (
	apiKeys     = []string{"", "a", "sk_1", "sk_12", "vip_é", "?", longPrefix + "a", longPrefix + "b", splitPrefix, splitPrefix + "x"}
	keyPatterns = []string{"a", "*", "?", "?*", "sk_*", "sk_1", "sk_?", "sk_??", "*1", "*_*", "vip_?", "v*p_é", longPrefix + "*", longPrefix + "a", splitPrefix + "*", splitPrefix[:len(splitPrefix)-2] + "?"}
	endpoints   = []string{"", "/", "/v1/orders", "/v1/orders/1?x=/v2", "/v1/order", "/v2#/v1/orders", "/a/v1/orders", "/V1/orders"}
	regexList   = []string{"^/v1/orders", "^/v1/orders$", "orders", "(?i)^/v1", "^/v1|^/v2", "^/v1/orders?$", "^$", "^/v[12]", "(^/v1)", "^(?:/v1)/o"}
	valueGlobs  = []string{"", "*", "pro", "p*", "p?", "?*", "/v1/*", "/v1/orders", "x"}
	values      = []string{"", "pro", "p?", "free", "/v1/orders", "x"}
	tierNames   = []string{"pro", "free", "gold"}
)

func drawRequest(t *rapid.T) map[string]string {
	attrs := map[string]string{}
	draw := func(name string, from []string) {
		if rapid.IntRange(0, 4).Draw(t, "has "+name) > 0 {
			attrs[name] = rapid.SampledFrom(from).Draw(t, name)
		}
	}
	draw("api_key", apiKeys)
	draw("endpoint", endpoints)
	draw("tier", append(tierNames, "", "unheard"))
	draw("method", values)
	draw("org", values)
	return attrs
}

func drawTwin(t *rapid.T) *twinFile {
	w := &twinFile{defaults: drawLevel(t), tiers: map[string]twinLevel{}, assigned: map[string]twinMatch{}}
	if rapid.Bool().Draw(t, "complete defaults") {
		w.defaults.params = numbers{"capacity": "7", "refill_rate": "0.3"}
	}
	for _, name := range tierNames[:2] {
		if rapid.Bool().Draw(t, "tier "+name) {
			w.tiers[name] = drawLevel(t)
			if rapid.Bool().Draw(t, "assigned") {
				w.assigned[name] = twinMatch{
					apiKey: rapid.SampledFrom(append(keyPatterns, "")).Draw(t, "assigned key"),
					org:    rapid.SampledFrom([]string{"", "", "x", "p*"}).Draw(t, "assigned org"),
				}
			}
		}
	}
	n := rapid.IntRange(1, 7).Draw(t, "rules")
	// Replacing only rules of a lower rank, in whatever order they stand, is no circle.
	rank := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6}[:n]).Draw(t, "rank")
	for i := range n {
		r := drawRule(t, fmt.Sprintf("r%d", i))
		for j := range n {
			if rank[j] < rank[i] && rapid.IntRange(0, 3).Draw(t, "replaces") == 0 {
				r.replaces = append(r.replaces, fmt.Sprintf("r%d", j))
			}
		}
		w.rules = append(w.rules, r)
	}
	lists := []string{"sk_12", "vip_*", longPrefix + "b*", "a"}
	w.whitelist = rapid.SliceOfN(rapid.SampledFrom(lists), 0, 1).Draw(t, "whitelist")
	w.blacklist = rapid.SliceOfN(rapid.SampledFrom(lists), 0, 1).Draw(t, "blacklist")
	return w
}

func drawRule(t *rapid.T, id string) *twinRule {
	maybe := func(what string, from []string) string {
		if rapid.IntRange(0, 2).Draw(t, "has "+what) > 0 {
			return ""
		}
		return rapid.SampledFrom(from).Draw(t, what)
	}
	r := &twinRule{twinLevel: drawLevel(t), ID: id, attributes: map[string]string{}}
	r.tier, r.apiKey, r.regex = maybe("tier", tierNames), maybe("pattern", keyPatterns), maybe("regex", regexList)
	for _, name := range []string{"method", "org", "endpoint"} {
		if rapid.IntRange(0, 3).Draw(t, "attribute") == 0 {
			r.attributes[name] = rapid.SampledFrom(valueGlobs).Draw(t, name)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "list") == 0 {
		r.methods = rapid.SliceOfN(rapid.SampledFrom([]string{"pro", "p*", "x", "*o", "", "re:^p", "re:^(x|free)$", "re:r"}), 1, 3).Draw(t, "methods")
		delete(r.attributes, "method")
	}
	for _, pattern := range rapid.SliceOfNDistinct(rapid.SampledFrom(keyPatterns), 0, 3, rapid.ID).Draw(t, "overrides") {
		r.overrides = append(r.overrides, twinOverride{pattern: pattern, params: drawNumbers(t), untilMS: rapid.SampledFrom([]int64{0, twinEnds}).Draw(t, "until")})
	}
	return r
}

func drawLevel(t *rapid.T) twinLevel {
	l := twinLevel{params: drawNumbers(t), settings: map[string]string{}}
	draw := func(name string, from ...string) {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
			l.settings[name] = rapid.SampledFrom(from).Draw(t, name)
		}
	}
	draw("enforcement", Strict, Elastic, Independent)
	draw("on_redis_failure", FailLocal, FailOpen, FailClosed)
	draw("on_data_loss", document.LossDeny, document.LossForgive)
	draw("local_cache", "true", "false")
	draw("shadow", "true", "false")
	draw("key", "", "org", "api_key,endpoint")
	draw("cool_down", "true", "false")
	draw("auto_block", "true", "false")
	return l
}

func drawNumbers(t *rapid.T) numbers {
	n := numbers{}
	draw := func(name string, from ...string) {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
			n[name] = rapid.SampledFrom(from).Draw(t, name)
		}
	}
	draw("capacity", "1", "10", "999999999")
	draw("limit", "3", "600")
	draw("refill_rate", "0.1", "2.5", "1000000")
	draw("window", "1", "60", "86400")
	return n
}

// text writes the file in flow style, which keeps the order of overrides.
func (w *twinFile) text() string {
	var tiers, rules []string
	for _, name := range slices.Sorted(maps.Keys(w.tiers)) {
		text := w.tiers[name].text()
		if match, ok := w.assigned[name]; ok {
			text += ", match: " + match.text()
		}
		tiers = append(tiers, name+": {"+text+"}")
	}
	for _, r := range w.rules {
		rules = append(rules, "  - {"+r.text()+"}\n")
	}
	return "defaults: {" + w.defaults.text() + "}\ntiers: {" + strings.Join(tiers, ", ") + "}\nwhitelist: [" + quoteAll(w.whitelist) +
		"]\nblacklist: [" + quoteAll(w.blacklist) + "]\nrules:\n" + strings.Join(rules, "")
}

func (m twinMatch) text() string {
	var fields []string
	if m.apiKey != "" {
		fields = append(fields, "api_key_pattern: "+quoted(m.apiKey))
	}
	if m.org != "" {
		fields = append(fields, "attributes: {org: "+quoted(m.org)+"}")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (l twinLevel) text() string {
	out := "params: " + l.params.text()
	for _, name := range slices.Sorted(maps.Keys(l.settings)) {
		value := l.settings[name]
		if name == "key" {
			value = "[" + value + "]"
		}
		out += ", " + name + ": " + value
	}
	return out
}

func (n numbers) text() string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		fields = append(fields, name+": "+n[name])
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (r *twinRule) text() string {
	out := "id: " + r.ID + ", " + r.twinLevel.text() + ", replaces: [" + quoteAll(r.replaces) + "], match: {"
	if r.apiKey != "" {
		out += "api_key_pattern: " + quoted(r.apiKey) + ", "
	}
	if r.regex != "" {
		out += "endpoint_regex: " + quoted(r.regex) + ", "
	}
	out += "attributes: {"
	for _, name := range slices.Sorted(maps.Keys(r.attributes)) {
		out += name + ": " + quoted(r.attributes[name]) + ", "
	}
	if len(r.methods) > 0 {
		out += "method: [" + methodList(r.methods) + "]"
	}
	out += "}}"
	if r.tier != "" {
		out += ", tier: " + r.tier
	}
	var overrides []string
	for _, o := range r.overrides {
		text := o.params.text()
		if o.untilMS != 0 {
			text = strings.TrimSuffix(strings.Replace(text, "{}", "{", 1), "}") + ", until: \"1970-01-01T00:00:01Z\"}"
		}
		overrides = append(overrides, quoted(o.pattern)+": "+strings.Replace(text, "{, ", "{", 1))
	}
	return out + ", override: {" + strings.Join(overrides, ", ") + "}"
}

func methodList(methods []string) string {
	var out []string
	for _, m := range methods {
		if regex, is := strings.CutPrefix(m, "re:"); is {
			out = append(out, "{regex: "+quoted(regex)+"}")
		} else {
			out = append(out, quoted(m))
		}
	}
	return strings.Join(out, ", ")
}

func quoteAll(texts []string) string {
	var out []string
	for _, text := range texts {
		out = append(out, quoted(text))
	}
	return strings.Join(out, ", ")
}

// quoted writes a text as JSON does, which is YAML too.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can always be written
	}
	return string(raw)
}
