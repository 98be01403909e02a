package rules

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Attributes and costs say what the maps say that they stand for.
func TestAttributesAreWhatTheMapSays(t *testing.T) {
	names := rapid.SampledFrom([]string{"", "a", "b", "ab", "api_key", "endpoint"})
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(names, rapid.String()).Draw(t, "values")
		costs := rapid.MapOf(names, rapid.Int64()).Draw(t, "costs")
		attrs, units := AttributesOf(values), CostsOf(costs)
		name := names.Draw(t, "name")
		if got := attrs.Get(name); got != values[name] {
			t.Fatalf("%q is %q, want %q", name, got, values[name])
		}
		got, said := units.Of(name)
		if want, there := costs[name]; got != want || said != there {
			t.Fatalf("%q costs %d, %v; want %d, %v", name, got, said, want, there)
		}
		attrs, units = attrs.Set(name, "new"), units.Set(name, 7)
		values[name], costs[name] = "new", 7
		attrs.Sort()
		units.Sort()
		if want := AttributesOf(values); !slices.Equal(attrs, want) {
			t.Fatalf("%v, want %v", attrs, want)
		}
		if want := CostsOf(costs); !slices.Equal(units, want) {
			t.Fatalf("%v, want %v", units, want)
		}
	})
}

// BenchmarkAttributes compares looking the usual attributes of a request through with
// asking a map for them, in one run.
func BenchmarkAttributes(b *testing.B) {
	m := map[string]string{"api_key": "sk_live_0123456789", "endpoint": "/v1/orders", "method": "POST", "ip": "192.0.2.1"}
	attrs, asked := AttributesOf(m), slices.Sorted(maps.Keys(m))
	asked = append(asked, "tier")
	found := 0
	b.Run("slice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, name := range asked {
				found += len(attrs.Get(name))
			}
		}
	})
	b.Run("map", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, name := range asked {
				found += len(m[name])
			}
		}
	})
	if found == 0 {
		b.Fatal("nothing was found")
	}
}
