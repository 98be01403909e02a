package envoydiff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/utils"
	mocks "github.com/envoyproxy/ratelimit/test/mocks/stats"
	gostats "github.com/lyft/gostats"

	"aliquot/internal/envoyimport"
	"aliquot/rules"
)

// values are few and begin alike, so that exact ones, wildcards and keys alone meet.
var (
	keys   = []string{"a", "b", "c"}
	values = []string{"", "", "u", "us", "user", "users", "x*y", "u?", "u*", "us*", "user*", "*", "é", "é*", "^-]"}
	asked  = []string{"u", "us", "use", "user", "users", "usersé", "x*y", "xzy", "u?", "up", "z", "é", "éé", "^-]", "^", "line\nbreak"}
	units  = []string{"second", "MINUTE", "hour", "day", "week", "month", "year"}
)

// drawn writes a configuration of its own seed.
type drawn struct {
	*rand.Rand
	strings.Builder
	units []string
	most  int // requests a unit
}

func (d *drawn) level(depth int, indent string) {
	seen := make(map[string]bool)
	for range 1 + d.IntN(5) {
		key, value := keys[depth], values[d.IntN(len(values))]
		if seen[key+"_"+value] {
			continue
		}
		seen[key+"_"+value] = true
		fmt.Fprintf(d, "%s- key: %s\n", indent, key)
		if value != "" {
			fmt.Fprintf(d, "%s  value: %q\n", indent, value)
		}
		switch d.IntN(6) {
		case 0:
		case 1:
			fmt.Fprintf(d, "%s  rate_limit: {unlimited: true}\n", indent)
		default:
			fmt.Fprintf(d, "%s  rate_limit: {unit: %s, requests_per_unit: %d}\n", indent, d.units[d.IntN(len(d.units))], 1+d.IntN(d.most))
		}
		if d.IntN(3) == 0 {
			fmt.Fprintf(d, "%s  shadow_mode: true\n", indent)
		}
		if strings.HasSuffix(value, "*") && d.IntN(2) == 0 {
			fmt.Fprintf(d, "%s  share_threshold: true\n", indent)
		}
		if depth+1 < len(keys) && d.IntN(2) == 0 {
			fmt.Fprintf(d, "%s  descriptors:\n", indent)
			d.level(depth+1, indent+"    ")
		}
	}
}

func draw(seed uint64, domain string, units []string, most int) string {
	d := &drawn{Rand: rand.New(rand.NewPCG(seed, 1)), units: units, most: most}
	d.WriteString("domain: " + domain + "\ndescriptors:\n")
	d.level(0, "  ")
	return d.String()
}

// ask draws a descriptor of up to three entries, in the order of a configuration and with
// entries left out; nil if none is left.
func ask(r *rand.Rand, text string) []*descriptors.RateLimitDescriptor_Entry {
	var entries []*descriptors.RateLimitDescriptor_Entry
	for _, key := range keys {
		if r.IntN(4) == 0 || !strings.Contains(text, "key: "+key) {
			continue // of keys that no descriptor names the import says that it cannot ask
		}
		entries = append(entries, &descriptors.RateLimitDescriptor_Entry{Key: key, Value: asked[r.IntN(len(asked))]})
	}
	return entries
}

// theirsOf is that project's own reading of a configuration.
func theirsOf(text string) config.RateLimitConfig {
	return config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{
		{Name: "f", ConfigYaml: config.ConfigFileContentToYaml("f", text)},
	}, mocks.NewMockStatManager(gostats.NewStore(gostats.NewNullSink(), false)), false)
}

// TestImportedRulesLimitAsThatProjectDoes asks both about every descriptor of one to
// three entries, in the order of the configuration and with entries left out.
func TestImportedRulesLimitAsThatProjectDoes(t *testing.T) {
	limited, unlimited := 0, 0
	for seed := range uint64(400) {
		text := draw(seed, "d", units, 1000)
		theirs := theirsOf(text)
		imported, err := envoyimport.Import([]envoyimport.File{{Name: "f", Data: []byte(text)}})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		set, _, err := rules.Parse("imported", imported.YAML)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(seed, 2))
		for range 150 {
			entries := ask(r, text)
			if len(entries) == 0 {
				continue
			}
			attrs := rules.Attributes{{Name: "domain", Value: "d"}}
			for _, e := range entries {
				attrs = append(attrs, rules.Attribute{Name: e.Key, Value: e.Value})
			}
			want := theirs.GetLimit(context.Background(), "d", &descriptors.RateLimitDescriptor{Entries: entries})
			_, got := set.Match(attrs, 0, nil)
			if g, w := ours(got), said(want); g != w {
				t.Fatalf("seed %d, %v: %s, want %s\n%s\n%s", seed, attrs, g, w, text, imported.YAML)
			}
			if len(got) > 0 {
				limited++
			} else {
				unlimited++
			}
			if len(got) > 0 {
				sharesAsThere(t, got[0].Rule, want, entries)
			}
		}
	}
	if limited < 5000 || unlimited < 5000 {
		t.Errorf("%d requests with a limit and %d without compared; too few of one kind to tell", limited, unlimited)
	}
}

func said(l *config.RateLimit) string {
	if l == nil {
		return "no limit"
	}
	if l.Unlimited {
		return "unlimited"
	}
	window := time.Duration(utils.UnitToDivider(l.Limit.Unit)) * time.Second
	return fmt.Sprintf("%d in %v, shadow %t", l.Limit.RequestsPerUnit, window, l.ShadowMode)
}

func ours(matched []rules.Matched) string {
	if len(matched) == 0 {
		return "no limit"
	}
	var out []string
	for _, m := range matched {
		if m.Unlimited {
			out = append(out, "unlimited")
			continue
		}
		out = append(out, fmt.Sprintf("%d in %v, shadow %t", m.Limit.Capacity/1_000_000, m.Window, m.Rule.ShadowPPM > 0))
	}
	return strings.Join(out, " and ")
}

// sharesAsThere looks that the bucket depends on what that project's cache key does:
// the values of all entries but those that a shared wildcard was found for. The values
// of exact nodes are the same for all requests of a rule, so it may leave them out.
func sharesAsThere(t *testing.T, r *rules.Rule, want *config.RateLimit, entries []*descriptors.RateLimitDescriptor_Entry) {
	t.Helper()
	for i, e := range entries {
		shared := want.ShareThresholdKeyPattern != nil && want.ShareThresholdKeyPattern[i] != ""
		if keyed := strings.Contains(strings.Join(r.Key, " "), e.Key); shared && keyed {
			t.Errorf("rule %s has a bucket for each %s; there all values of %s share one", r.ID, e.Key, want.ShareThresholdKeyPattern[i])
		}
	}
}
