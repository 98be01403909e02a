//go:build !race

package rules

import (
	"strings"
	"testing"
)

// The race detector makes pools forget on purpose (package regexp has one too), so
// these hold without it only.

func TestMatchDoesNotAllocate(t *testing.T) {
	replacing := strings.Replace(matchFile, "{id: all-of,", "{id: all-of, replaces: [pro, everyone, with-user],", 1)
	attrs := AttributesOf(map[string]string{"tier": "pro", "api_key": "sk_prod_1", "endpoint": "/v1/orders/17?x=1", "method": "POST", "org": "[x]", "user": "u"})
	for text, want := range map[string]int{matchFile: 8, replacing: 5} {
		matchWithoutAllocating(t, MustParse(t, text), attrs, want)
	}
}

func matchWithoutAllocating(t *testing.T, s *Set, attrs Attributes, want int) {
	buf := make([]Matched, 0, 32)
	dst := make([]byte, 0, 256)
	if _, matched := s.Match(attrs, 0, buf); len(matched) != want {
		t.Errorf("matched %v, want %d rules", ids(matched), want)
	}
	allocated := testing.AllocsPerRun(1000, func() {
		var matched []Matched
		_, matched = s.Match(attrs, 0, buf)
		for _, m := range matched {
			dst = KeyValues(m.Rule, attrs, dst[:0])
		}
	})
	if allocated >= 1 {
		t.Errorf("%v allocations a match", allocated)
	}
}

func TestMatchOfTenThousandRulesDoesNotAllocate(t *testing.T) {
	s := MustParse(t, mixedRules())
	buf := make([]Matched, 0, 32)
	for i, attrs := range mixedRequests() {
		if i%16 > 0 {
			continue // some of each kind
		}
		if allocated := testing.AllocsPerRun(100, func() { s.Match(attrs, 0, buf) }); allocated > 0 {
			t.Errorf("%v: %v allocations", attrs, allocated)
		}
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
