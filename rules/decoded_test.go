package rules

import (
	"slices"
	"testing"
)

// TestARuleAppliesByEitherPath: a path that can be read in two ways meets what either reading
// meets, each rule once, in the order of the file; and what one reading replaces stays if the
// other does not replace it.
func TestARuleAppliesByEitherPath(t *testing.T) {
	set := MustParse(t, `rules:
  - {id: all, params: {limit: 9, window: 1}}
  - {id: orders, match: {endpoint_regex: "^/v1/orders"}, params: {limit: 5, window: 1}}
  - {id: root, match: {endpoint_regex: "^/"}, params: {limit: 7, window: 1}}
  - {id: public, match: {endpoint_regex: "^/public"}, replaces: [root], params: {limit: 100, window: 1}}
`)
	for _, c := range []struct {
		endpoint, decoded string
		want              []string
	}{
		{"/v1/orders", "", []string{"all", "orders", "root"}},
		{"/v1%2Forders", "/v1/orders", []string{"all", "orders", "root"}},
		{"/public/x", "", []string{"all", "public"}},
		{"/a%2F..%2Fpublic", "/public", []string{"all", "root", "public"}},
		{"/v1/orders", "/v1/orders", []string{"all", "orders", "root"}},
	} {
		attrs := AttributesOf(map[string]string{"endpoint": c.endpoint, DecodedEndpoint: c.decoded, "api_key": "k"})
		_, matched := set.Match(attrs, 0, nil)
		var got, explained []string
		for _, m := range matched {
			got = append(got, m.Rule.ID)
		}
		for _, trace := range set.Explain(attrs, 0).Rules {
			if trace.Matched {
				explained = append(explained, trace.Rule.ID)
			}
		}
		if !slices.Equal(got, c.want) || !slices.Equal(explained, c.want) {
			t.Errorf("%s, or %s: %v applies, and %v by Explain; want %v", c.endpoint, c.decoded, got, explained, c.want)
		}
	}
	r := MustParse(t, "rules: [{id: a, key: [endpoint], params: {limit: 5, window: 1}}]").Rule("a")
	plain := KeyValues(r, AttributesOf(map[string]string{"endpoint": "/v1/orders"}), nil)
	other := KeyValues(r, AttributesOf(map[string]string{"endpoint": "/v1%2Forders", DecodedEndpoint: "/v1/orders"}), nil)
	if !slices.Equal(plain, other) {
		t.Errorf("another spelling has another bucket: %q and %q", plain, other)
	}
}
