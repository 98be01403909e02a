package rules

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aliquot/limit"
	"aliquot/rules/document"
)

// TestTwin: what a Set says of a file and a request is what its twin says, which
// tries every rule and every level in the plainest way.
func TestTwin(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		twin := drawTwin(t)
		s, _, err := Parse("twin", []byte(twin.text()))
		if err != nil && strings.Contains(err.Error(), " never apply: ") {
			twin.confirmNever(t, err.Error())
			return
		}
		if err != nil && strings.Contains(err.Error(), " may both get one request") {
			if len(twin.assigned) < 2 {
				t.Fatalf("%v\n%s", err, twin.text())
			}
			return
		}
		if twin.complete() != (err == nil) {
			t.Fatalf("complete: %v, but %v\n%s", twin.complete(), err, twin.text())
		}
		if err != nil {
			return
		}
		accepted++
		for _, r := range twin.rules {
			twin.compareRule(t, r, s.Rule(r.ID))
		}
		for range 4 {
			attrs := drawRequest(t)
			nowMS := rapid.SampledFrom([]int64{0, twinEnds - 1, twinEnds, twinEnds + 1}).Draw(t, "now")
			if best, contested := twin.assignedTo(attrs); contested {
				t.Fatalf("%v: %s and another tier, but the file was accepted\n%s", attrs, best, twin.text())
			}
			if got, want := s.TierOf(AttributesOf(attrs)), twin.tierOf(attrs); s.tiers.inUse() && got != want {
				t.Fatalf("%v: tier %q, want %q\n%s", attrs, got, want, twin.text())
			}
			list, matched := s.Match(AttributesOf(attrs), nowMS, nil)
			wantList, want := twin.match(attrs)
			if list != wantList || !slices.Equal(ids(matched), want) {
				t.Fatalf("%v: %v %v, want %v %v\n%s", attrs, list, ids(matched), wantList, want, twin.text())
			}
			for _, m := range matched {
				twin.compareLimit(t, twin.rule(m.Rule.ID), attrs["api_key"], nowMS, m.Limit)
			}
		}
	})
	if accepted == 0 {
		t.Error("no file was accepted: nothing was compared")
	}
	t.Logf("%d files were accepted", accepted)
}

// confirmNever looks, for a rule that was refused because it could never apply, for a
// request that it applies to after all.
func (w *twinFile) confirmNever(t *rapid.T, refusal string) {
	for _, found := range regexp.MustCompile(`rule (r\d) would never apply: rule (r\d) replaces it`).FindAllStringSubmatch(refusal, -1) {
		replaced, by := w.rule(found[1]), w.rule(found[2])
		for range 20 {
			if attrs := drawRequest(t); replaced.matches(attrs, w.tierOf(attrs)) && !by.matches(attrs, w.tierOf(attrs)) {
				t.Fatalf("%v: %s\n%s", attrs, found[0], w.text())
			}
		}
	}
	for _, found := range regexp.MustCompile(`rule (r\d) can never apply`).FindAllStringSubmatch(refusal, -1) {
		r := w.rule(found[1])
		only := twinRule{regex: r.regex, attributes: map[string]string{"endpoint": r.attributes["endpoint"]}}
		for _, endpoint := range endpoints {
			if only.matches(map[string]string{"endpoint": endpoint}, "") {
				t.Fatalf("%q: %s\n%s", endpoint, found[0], w.text())
			}
		}
	}
}

func (w *twinFile) compareRule(t *rapid.T, want *twinRule, got *Rule) {
	levels := w.levels(want)
	key := slices.Collect(func(yield func(string) bool) {
		for name := range strings.SplitSeq(nearest(levels, "key", "api_key"), ",") {
			if name != "" && !yield(name) {
				return
			}
		}
	})
	if got.Enforcement != nearest(levels, "enforcement", Elastic) ||
		got.OnRedisFailure != nearest(levels, "on_redis_failure", FailLocal) ||
		got.Forgives != (nearest(levels, "on_data_loss", document.LossDeny) == document.LossForgive) ||
		got.LocalCache != (nearest(levels, "local_cache", "true") == "true") ||
		got.CoolDown.After > 0 != (nearest(levels, "cool_down", "false") == "true") ||
		got.AutoBlock.After > 0 != (nearest(levels, "auto_block", "false") == "true") ||
		got.ShadowPPM == document.WholePPM != (nearest(levels, "shadow", "false") == "true") ||
		!slices.Equal(got.Key, key) || got.Tier != want.tier || !slices.Equal(got.Replaces, want.replaces) {
		t.Fatalf("rule %s: %+v\n%s", want.ID, got, w.text())
	}
	for _, apiKey := range apiKeys {
		w.compareLimit(t, want, apiKey, 0, limitAt(got, apiKey, 0))
		w.compareLimit(t, want, apiKey, twinEnds, limitAt(got, apiKey, twinEnds))
	}
}

func (w *twinFile) compareLimit(t *rapid.T, r *twinRule, apiKey string, nowMS int64, got limit.Limit) {
	params := w.paramsOf(r)
	if o := r.overrideFor(apiKey, nowMS); o != nil {
		params = nearer(o.params, params)
	}
	capacity, rate := bucketOf(params)
	scaled := new(big.Int).Mul(rate.Num(), big.NewInt(1e12))
	scaled.Quo(scaled, rate.Denom())
	have := new(big.Int).Mul(big.NewInt(got.Rate.Micro), big.NewInt(1e6))
	have.Add(have, big.NewInt(got.Rate.Frac))
	if int64(got.Capacity) != capacity*1e6 || have.Cmp(scaled) != 0 {
		t.Fatalf("rule %s, key %q: %+v, want capacity %d and rate %v\n%s", r.ID, apiKey, got, capacity, rate, w.text())
	}
}

// numbers are the params of one level, by name, as text.
type numbers map[string]string

// nearer lays the numbers of a level over inherited ones, by the three sentences of
// the documentation of params.over.
func nearer(near, far numbers) numbers {
	out := maps.Clone(far)
	has := func(name string) bool { return near[name] != "" }
	forget := func(names ...string) {
		for _, name := range names {
			delete(out, name)
		}
	}
	if has("capacity") && has("refill_rate") {
		forget("limit", "window")
	} else if has("limit") {
		forget("capacity", "refill_rate")
	} else if has("capacity") && has("window") {
		forget("limit", "refill_rate")
	}
	maps.Copy(out, near)
	return out
}

// isBucket tells whether the numbers say a burst and a rate.
func (n numbers) isBucket() bool {
	burst := n["capacity"] != "" || n["limit"] != ""
	return burst && (n["refill_rate"] != "" || n["window"] != "")
}

func bucketOf(n numbers) (capacity int64, perSecond *big.Rat) {
	value := func(names ...string) *big.Rat {
		for _, name := range names {
			if v, ok := new(big.Rat).SetString(n[name]); ok {
				return v
			}
		}
		return nil
	}
	perSecond = value("refill_rate")
	if perSecond == nil {
		perSecond = new(big.Rat).Quo(value("limit", "capacity"), value("window"))
	}
	return value("capacity", "limit").Num().Int64(), perSecond
}

// nearest is the first statement of a setting, from the rule to the defaults.
func nearest(levels []twinLevel, name, builtIn string) string {
	for _, l := range levels {
		if value, ok := l.settings[name]; ok {
			return value
		}
	}
	return builtIn
}

func (w *twinFile) levels(r *twinRule) []twinLevel {
	out := []twinLevel{r.twinLevel}
	if tier, ok := w.tiers[r.tier]; ok {
		out = append(out, tier)
	}
	return append(out, w.defaults)
}

func (w *twinFile) paramsOf(r *twinRule) numbers {
	out := numbers{}
	for _, l := range slices.Backward(w.levels(r)) {
		out = nearer(l.params, out)
	}
	return out
}

// complete tells whether every rule and override has a limit.
func (w *twinFile) complete() bool {
	for _, r := range w.rules {
		params := w.paramsOf(r)
		if !params.isBucket() {
			return false
		}
		for _, o := range r.overrides {
			if !nearer(o.params, params).isBucket() {
				return false
			}
		}
	}
	return true
}

// overrideFor tries all: exact ones first, then the longest, then the first.
func (r *twinRule) overrideFor(apiKey string, nowMS int64) *twinOverride {
	var best *twinOverride
	weight := func(o *twinOverride) int {
		if !strings.ContainsAny(o.pattern, "*?") {
			return 1000
		}
		return len([]rune(o.pattern))
	}
	for i := range r.overrides {
		o := &r.overrides[i]
		if o.untilMS != 0 && o.untilMS <= nowMS {
			continue
		}
		if keyMatches(o.pattern, apiKey) && (best == nil || weight(o) > weight(best)) {
			best = o
		}
	}
	return best
}

// keyMatches is a pattern about API keys, by way of package regexp.
func keyMatches(glob, apiKey string) bool { return likeRegex(glob, apiKey) }

// valueMatches is a pattern about another attribute.
func valueMatches(glob, value string) bool {
	if !strings.Contains(glob, "*") {
		return glob == value
	}
	return likeRegex(glob, value)
}

func (w *twinFile) match(attrs map[string]string) (ListKind, []string) {
	matches := func(pattern string) bool { return keyMatches(pattern, attrs["api_key"]) }
	if slices.ContainsFunc(w.blacklist, matches) {
		return Blacklisted, []string{}
	}
	if slices.ContainsFunc(w.whitelist, matches) {
		return Whitelisted, []string{}
	}
	all := []*twinRule{}
	for _, r := range w.rules {
		if r.matches(attrs, w.tierOf(attrs)) {
			all = append(all, r)
		}
	}
	out := []string{}
	for _, r := range all {
		if !slices.ContainsFunc(all, func(by *twinRule) bool { return w.switchesOff(by, r) }) {
			out = append(out, r.ID)
		}
	}
	return None, out
}

func (w *twinFile) switchesOff(by, r *twinRule) bool {
	shadow := func(r *twinRule) bool { return nearest(w.levels(r), "shadow", "false") == "true" }
	return slices.Contains(by.replaces, r.ID) && (!shadow(by) || shadow(r))
}

// tierOf is the tier that a request names, if the file has it, else the one that it is
// assigned to: by its exact key, by the longest pattern, or by its org.
func (w *twinFile) tierOf(attrs map[string]string) string {
	name := attrs["tier"]
	_, under := w.tiers[name]
	if name != "" && (under || slices.ContainsFunc(w.rules, func(r *twinRule) bool { return r.tier == name })) {
		return name
	}
	best, _ := w.assignedTo(attrs)
	return best
}

// assignedTo is the tier of a request that names none, and whether another one has just
// as good a claim.
func (w *twinFile) assignedTo(attrs map[string]string) (best string, contested bool) {
	longest := -1
	for tier, match := range w.assigned {
		weight := 0
		if match.apiKey != "" {
			if weight = len([]rune(match.apiKey)); !strings.ContainsAny(match.apiKey, "*?") {
				weight = 1000
			}
		}
		if match.apiKey != "" && !keyMatches(match.apiKey, attrs["api_key"]) || match.org != "" && !valueMatches(match.org, attrs["org"]) {
			continue
		}
		if contested = weight == longest; weight > longest {
			best, longest = tier, weight
		}
	}
	return best, contested
}

func (r *twinRule) matches(attrs map[string]string, tier string) bool {
	if r.tier != "" && tier != r.tier {
		others := r.apiKey != "" || r.regex != "" || len(r.methods) > 0 || len(r.attributes) > 0
		if tier != "" || !others {
			return false
		}
	}
	path := regexp.MustCompile(`^[^?#]*`).FindString(attrs["endpoint"])
	if r.apiKey != "" && !keyMatches(r.apiKey, attrs["api_key"]) ||
		r.regex != "" && !regexp.MustCompile(r.regex).MatchString(path) {
		return false
	}
	if len(r.methods) > 0 && !slices.ContainsFunc(r.methods, func(m string) bool {
		regex, is := strings.CutPrefix(m, "re:")
		return is && regexp.MustCompile(regex).MatchString(attrs["method"]) || !is && valueMatches(m, attrs["method"])
	}) {
		return false
	}
	for name, pattern := range r.attributes {
		value := attrs[name]
		if name == "endpoint" {
			value = path
		}
		if !valueMatches(pattern, value) {
			return false
		}
	}
	return true
}
