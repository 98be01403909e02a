package rules

import (
	"bytes"
	"encoding/hex"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// ruleWithKey gives a rule with these key attributes.
func ruleWithKey(t testing.TB, key string) *Rule {
	return MustParse(t, "rules: [{id: a, key: ["+key+"], params: {limit: 1, window: 1}}]").Rule("a")
}

func TestKeyValuesEncoding(t *testing.T) {
	attrs := map[string]string{"api_key": "k", "endpoint": "/o/42?x"}
	got := KeyValues(ruleWithKey(t, "endpoint, api_key, org"), AttributesOf(attrs), []byte("head:"))
	want := "head:\x00\x00\x00\x07api_key\x00\x00\x00\x01k" +
		"\x00\x00\x00\x08endpoint\x00\x00\x00\x06/o/:id" +
		"\x00\x00\x00\x03org\x00\x00\x00\x00"
	if string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := KeyValues(ruleWithKey(t, ""), AttributesOf(attrs), nil); len(got) != 0 {
		t.Errorf("one bucket for all: %q", got)
	}
}

func TestKeyValuesAgree(t *testing.T) {
	ab, ba := ruleWithKey(t, "a, b"), ruleWithKey(t, "b, a")
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.StringMatching(`[ab\x00-\x07]{0,6}`)
		one := map[string]string{"a": values.Draw(t, "a1"), "b": values.Draw(t, "b1"), "c": "ignored"}
		two := map[string]string{"a": values.Draw(t, "a2"), "b": values.Draw(t, "b2")}
		if !bytes.Equal(KeyValues(ab, AttributesOf(one), nil), KeyValues(ba, AttributesOf(one), nil)) {
			t.Fatalf("the order of names matters")
		}
		same := one["a"] == two["a"] && one["b"] == two["b"]
		if bytes.Equal(KeyValues(ab, AttributesOf(one), nil), KeyValues(ab, AttributesOf(two), nil)) != same {
			t.Fatalf("%q and %q: same encoding is not same values", one, two)
		}
		empty := maps.Clone(two)
		if empty["b"] == "" {
			delete(empty, "b")
		}
		if !bytes.Equal(KeyValues(ab, AttributesOf(two), nil), KeyValues(ab, AttributesOf(empty), nil)) {
			t.Fatalf("absent differs from empty")
		}
	})
}

func TestHashKey(t *testing.T) {
	secret, encoded := []byte("pepper"), []byte("\x00\x00\x00\x01a\x00\x00\x00\x01b")
	hash := HashKey(secret, "", encoded)
	// Stored under this name by every version: a change of it forgets all buckets.
	if got := hex.EncodeToString(hash[:]); got != "a4243e9ac9de4202a0b157817bcab766" {
		t.Errorf("hash %s", got)
	}
	if HashKey(secret, "default", encoded) != hash {
		t.Error("no namespace is not the default one")
	}
	for name, other := range map[string][16]byte{
		"namespace":                 HashKey(secret, "x", encoded),
		"secret":                    HashKey([]byte("salt"), "", encoded),
		"values":                    HashKey(secret, "", encoded[:9]),
		"border of the namespace":   HashKey(secret, "default\x00", encoded[1:]),
		"nothing but the namespace": HashKey(secret, "", nil),
	} {
		if other == hash {
			t.Errorf("%s does not count", name)
		}
	}
}

func TestKeyHasherAgreesAndIsConcurrent(t *testing.T) {
	secret := []byte("pepper")
	hasher := NewKeyHasher(secret)
	secret[0] = 'P' // the hasher has its own copy
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 500 {
				encoded := bytes.Repeat([]byte{byte(worker)}, i*50)
				if hasher.Key("n", encoded) != HashKey([]byte("pepper"), "n", encoded) {
					t.Errorf("differs at %d", i)
					return
				}
			}
		})
	}
	wait.Wait()
}

func TestNormalizeEndpoint(t *testing.T) {
	for path, want := range map[string]string{
		"":                    "",
		"/":                   "/",
		"/v1/orders":          "/v1/orders",
		"/v1/orders/":         "/v1/orders/",
		"/v1/orders/42":       "/v1/orders/:id",
		"/v1/orders/42/":      "/v1/orders/:id/",
		"/v1/orders/42/i/7":   "/v1/orders/:id/i/:id",
		"/v1/orders?id=1":     "/v1/orders",
		"/v1/orders/1#x":      "/v1/orders/:id",
		"?x":                  "",
		"42":                  ":id",
		"//7":                 "//:id",
		"/v1/:id":             "/v1/:id",
		"/v1/4x":              "/v1/4x",
		"/v1/-5":              "/v1/-5",
		"/cafe/deadbeef":      "/cafe/deadbeef",
		"/t/DEADbeef0000cafe": "/t/:id",
		"/t/deadbeef0000caf":  "/t/deadbeef0000caf",
		"/u/123e4567-e89b-12d3-a456-426614174000":  "/u/:id",
		"/u/123E4567-E89B-12D3-A456-426614174000":  "/u/:id",
		"/u/123e4567-e89b-12d3-a456-42661417400g":  "/u/123e4567-e89b-12d3-a456-42661417400g",
		"/u/123e4567ae89b-12d3-a456-426614174000":  "/u/123e4567ae89b-12d3-a456-426614174000",
		"/l/01ARZ3NDEKTSV4RRFFQ69G5FAV":            "/l/:id",
		"/l/01arz3ndektsv4rrffq69g5fav":            "/l/:id",
		"/l/81ARZ3NDEKTSV4RRFFQ69G5FAV":            "/l/81ARZ3NDEKTSV4RRFFQ69G5FAV",
		"/l/01ARZ3NDEKTSV4RRFFQ69G5FAU":            "/l/01ARZ3NDEKTSV4RRFFQ69G5FAU",
		"/l/01ARZ3NDEKTSV4RRFFQ69G5FA@":            "/l/01ARZ3NDEKTSV4RRFFQ69G5FA@",
		"/l/\x1001ARZ3NDEKTSV4RRFFQ69G5F\x10":      "/l/\x1001ARZ3NDEKTSV4RRFFQ69G5F\x10",
		"/words/internationalisations-are-not-ids": "/words/internationalisations-are-not-ids",
	} {
		if got := NormalizeEndpoint(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
		if got := string(appendNormalized([]byte("x"), path)); got != "x"+want {
			t.Errorf("appended %q: %q", path, got)
		}
	}
}
