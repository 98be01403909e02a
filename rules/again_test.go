package rules

import (
	"testing"

	"aliquot/limit"
)

// TestAnOverrideIsFoundAgain by its pattern as long as those with wildcards are the same ones, until it ends. The key
// that an override names is found in any case.
func TestAnOverrideIsFoundAgain(t *testing.T) {
	of := func(patterns ...string) *Rule {
		r := &Rule{}
		for i, p := range patterns {
			r.overrides = append(r.overrides, Override{Pattern: p, Limit: limit.Limit{Capacity: limit.Tokens(i + 1)}})
		}
		r.overrides[0].UntilMS = 10
		r.setPatterns()
		return r
	}
	before := of("v*", "*")
	for _, c := range []struct {
		name, was, key string
		now            *Rule
		nowMS          int64
		want           limit.Tokens // 0: none
		known          bool
	}{
		{"the same wildcards", "v*", "", of("v*", "*"), 9, 1, true},
		{"its override has ended", "v*", "", of("v*", "*"), 10, 0, false},
		{"no override, and the same wildcards", "", "", of("v*", "*"), 9, 0, true},
		{"no override, and others came", "", "", of("v*", "*", "w*"), 9, 0, false},
		{"its key is named now", "*", "vip", of("v*", "vip", "*"), 10, 2, true},
		{"its key was named", "vip", "", of("w*", "*"), 10, 2, true},
	} {
		o, known := c.now.OverrideAgain(c.was, before.Wildcards(), func() (string, bool) { return c.key, c.key != "" }, c.nowMS)
		if known != c.known || (o == nil) != (c.want == 0) || o != nil && o.Limit.Capacity != c.want {
			t.Errorf("%s: %+v, %t", c.name, o, known)
		}
	}
}
