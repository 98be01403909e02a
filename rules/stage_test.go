package rules

import (
	"slices"
	"strings"
	"testing"
)

// TestUnstageable says which changes of a rule would put two limits in force while some
// regions go by one version and the rest by the other.
func TestUnstageable(t *testing.T) {
	base := MustParse(t, `
defaults: {params: {capacity: 300, refill_rate: 100}}
rules:
  - {id: a, key: [api_key, ip], match: {attributes: {method: POST}}}
`)
	for name, c := range map[string]struct {
		rules string
		want  []string // parts of the sentences, in order; none: it can be staged
	}{
		"the same rules":            {`{id: a, key: [api_key, ip], match: {attributes: {method: POST}}}`, nil},
		"another limit":             {`{id: a, key: [api_key, ip], params: {capacity: 3, refill_rate: 9}}`, nil},
		"another window":            {`{id: a, key: [api_key, ip], params: {limit: 3, window: 1h}}`, nil},
		"another enforcement":       {`{id: a, key: [api_key, ip], enforcement: independent}`, nil},
		"other requests":            {`{id: a, key: [api_key, ip], tier: pro, match: {attributes: {method: GET}}}`, nil},
		"the key in another order":  {`{id: a, key: [ip, api_key]}`, nil},
		"an override":               {`{id: a, key: [api_key, ip], override: {"vip": {capacity: 900, until: "2030-01-01T00:00:00Z"}}}`, nil},
		"a rule in shadow":          {`{id: a, key: [api_key, ip], shadow: true}`, nil},
		"a rule more, which is new": {`{id: a, key: [api_key, ip]}, {id: b, placement: split}`, nil},

		"another algorithm": {`{id: a, key: [api_key, ip], algorithm: fixed_window, params: {limit: 3, window: 1m}}`,
			[]string{`rule "a" changes its algorithm (token_bucket to fixed_window)`}},
		"another unit":      {`{id: a, key: [api_key, ip], unit: tokens}`, []string{`rule "a" changes its unit (requests to tokens)`}},
		"another placement": {`{id: a, key: [api_key, ip], placement: split}`, []string{`rule "a" changes its placement (auto to split)`}},
		"another key":       {`{id: a, key: [api_key]}`, []string{`rule "a" changes its key ([api_key, ip] to [api_key])`}},
		"one key for all":   {`{id: a, key: []}`, []string{`rule "a" changes its key ([api_key, ip] to [])`}},
		"several at once":   {`{id: a, unit: tokens, placement: home}`, []string{`its unit`, `its placement`, `its key`}},
		"another id":        {`{id: b, key: [api_key, ip]}`, []string{`rule "a" is left out`}},
	} {
		staged := MustParse(t, "defaults: {params: {capacity: 300, refill_rate: 100}}\nrules: ["+c.rules+"]")
		got := Unstageable(base, staged)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %d reasons", name, got, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q in it", name, got[i], want)
			}
			if !strings.Contains(got[i], "everywhere at once, without a stage") {
				t.Errorf("%s: %q does not say what to do", name, got[i])
			}
		}
	}
	if got := Unstageable(&Set{}, base); got != nil {
		t.Errorf("over no rules: %q", got)
	}
}

// TestRestarts: a change of a rule's kind or key is applied everywhere at once, and its
// clients begin with full buckets.
func TestRestarts(t *testing.T) {
	before := MustParse(t, "defaults: {params: {limit: 9, window: 1}}\nrules: [{id: a}, {id: b}, {id: c}, {id: d}]")
	after := MustParse(t, "defaults: {params: {limit: 9, window: 1}}\nrules: [{id: a, placement: split}, {id: b, params: {limit: 3}}, {id: c, key: [ip]}, {id: e}]")
	want := []string{
		`rule "a" changes its placement (auto to split): its clients begin with full buckets, and such a change cannot be staged`,
		`rule "c" changes its key ([api_key] to [ip]): its clients begin with full buckets, and such a change cannot be staged`,
	}
	if got := Restarts(before, after); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Restarts(nil, after); got != nil {
		t.Errorf("the first rules: %q", got)
	}
}
