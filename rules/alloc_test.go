//go:build !race

package rules

import "testing"

// The race detector makes pools forget on purpose (package regexp has one too), so
// these hold without it only.

func TestMatchDoesNotAllocate(t *testing.T) {
	s := mustParse(t, matchFile)
	attrs := map[string]string{"tier": "pro", "api_key": "sk_prod_1", "endpoint": "/v1/orders/17?x=1", "method": "POST", "user": "u"}
	buf := make([]Matched, 0, 32)
	dst := make([]byte, 0, 256)
	allocated := testing.AllocsPerRun(1000, func() {
		var matched []Matched
		_, matched = s.Match(attrs, buf)
		for _, m := range matched {
			dst = KeyValues(m.Rule, attrs, dst[:0])
		}
	})
	if allocated >= 1 {
		t.Errorf("%v allocations a match", allocated)
	}
}

func TestKeyHasherDoesNotAllocate(t *testing.T) {
	hasher := NewKeyHasher([]byte("secret"))
	encoded := []byte("encoded")
	allocated := testing.AllocsPerRun(1000, func() { hasher.Key("default", encoded) })
	if allocated >= 1 {
		t.Errorf("%v allocations a key", allocated)
	}
}
