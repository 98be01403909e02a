package envoydiff

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/utils"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"aliquot/internal/envoyimport"
)

// requests is how many the run has; docs/reference/envoy.md has the table of a long one.
var requests = flag.Int("requests", 1500, "requests that TestADaemonAnswersAsThatProjectDoes sends to both")

// longUnits begin once a week and less.
var longUnits = []string{"week", "month", "year"}

// The differences that docs/reference/envoy.md lists, by the words of its table.
const (
	deniedCounts  = "a denied request"
	lookAtUsedUp  = "`hits_addend: 0`, limit just used up"
	shadowLimit   = "a limit in shadow mode"
	quotaMode     = "`quota_mode`"
	aboveLimit    = "a cost above the whole limit"
	nothingToWait = "reset of a limit of 0"
	untouched     = "reset of a limit of which nothing is used"
)

// peerConfigurations are those of that project: of its README's examples, its example service and its
// integration tests.
func peerConfigurations(t *testing.T) map[string]string {
	t.Helper()
	module := strings.TrimSpace(command(t, nil, "go", "list", "-m", "-f", "{{.Dir}}", ratelimitModule))
	out := make(map[string]string)
	add := func(text string) {
		domain := regexp.MustCompile(`(?m)^domain: (.*)$`).FindStringSubmatch(text)
		if domain == nil {
			return
		}
		name := strings.TrimSpace(domain[1])
		if _, twice := out[name]; twice {
			// Several configurations of one domain are examples of their own.
			other := fmt.Sprintf("%s-%d", name, len(out))
			text = strings.Replace(text, domain[0], "domain: "+other, 1)
			name = other
		}
		out[name] = text
	}
	readme, err := os.ReadFile(filepath.Join(module, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := string(readme)[strings.Index(string(readme), "#### Example 1\n"):]
	examples = examples[:strings.Index(examples, "\n## ")]
	if n := strings.Count(examples, "#### Example "); n < 11 {
		t.Fatalf("%d examples in the README", n)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(examples, -1) {
		add(block[1])
	}
	for _, pattern := range []string{"test/integration/runtime/current/ratelimit/config/*.yaml", "examples/ratelimit/config/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(module, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			add(string(text))
		}
	}
	return out
}

// paths are descriptors that a configuration is about: the entries on the way to each of its nodes.
func paths(t *testing.T, text string) (out [][]*descriptors.RateLimitDescriptor_Entry) {
	t.Helper()
	var walk func(nodes []config.YamlDescriptor, path []*descriptors.RateLimitDescriptor_Entry)
	walk = func(nodes []config.YamlDescriptor, path []*descriptors.RateLimitDescriptor_Entry) {
		for _, n := range nodes {
			here := append(slices.Clone(path), &descriptors.RateLimitDescriptor_Entry{Key: n.Key, Value: n.Value})
			out = append(out, here)
			walk(n.Descriptors, here)
		}
	}
	walk(config.ConfigFileContentToYaml("f", text).Descriptors, nil)
	return out
}

// askOf draws a request of one to three descriptors, some with a cost of their own.
func askOf(r *rand.Rand, domain string, all [][]*descriptors.RateLimitDescriptor_Entry) *ratelimit.RateLimitRequest {
	in := &ratelimit.RateLimitRequest{Domain: domain}
	for range 1 + r.IntN(3) {
		d := &descriptors.RateLimitDescriptor{}
		for _, e := range all[r.IntN(len(all))] {
			value := e.Value
			if prefix, wildcard := strings.CutSuffix(value, "*"); wildcard || value == "" {
				value = prefix + []string{"u", "v", "w"}[r.IntN(3)]
			}
			d.Entries = append(d.Entries, &descriptors.RateLimitDescriptor_Entry{Key: e.Key, Value: value})
		}
		switch r.IntN(12) {
		case 0:
			d.HitsAddend = wrapperspb.UInt64(0)
		case 1:
			d.HitsAddend = wrapperspb.UInt64(uint64(1 + r.IntN(5)))
		case 2:
			d.HitsAddend = wrapperspb.UInt64([]uint64{20, 100, 600}[r.IntN(3)])
		}
		in.Descriptors = append(in.Descriptors, d)
	}
	return in
}

// comparison compares answers, and remembers what a listed difference leads to.
type comparison struct {
	theirs map[string]config.RateLimitConfig
	counts map[string]int
	// spoilt are the windows in which the two servers count differently: of a denied cost, or of a window
	// that ended between their answers. By the unit and the cache key.
	spoilt map[string]int64
	// used is what this side has admitted of a counter, to check what it answers where the other counts otherwise.
	used                 map[string]use
	asked, skipped, over int
}

// use is what was admitted in a window. unknown: one that ended between the two answers.
type use struct {
	window  int64
	cost    uint64
	unknown bool
}

// here returns what this side has to answer by itself: a denied cost uses nothing.
func (c *comparison) here(key string, from, to int64, cost, whole uint64) (code ratelimit.RateLimitResponse_Code, left uint32, known bool) {
	u := c.used[key]
	if u.window != from {
		u = use{window: from}
	}
	code = ratelimit.RateLimitResponse_OK
	switch {
	case u.cost+max(cost, 1) > whole:
		code = ratelimit.RateLimitResponse_OVER_LIMIT
	default:
		u.cost += cost
	}
	if from != to {
		u = use{window: to, unknown: true}
	}
	c.used[key] = u
	return code, uint32(whole - u.cost), !u.unknown
}

// window is the number of a unit's window at an instant.
func window(l *config.RateLimit, at time.Time) int64 {
	return at.Unix() / utils.UnitToDivider(l.Limit.Unit)
}

// keyOf names the counter of a descriptor.
func keyOf(domain string, l *config.RateLimit, d *descriptors.RateLimitDescriptor) string {
	out := domain
	for i, e := range d.Entries {
		value := e.Value
		if i < len(l.ShareThresholdKeyPattern) && l.ShareThresholdKeyPattern[i] != "" {
			value = l.ShareThresholdKeyPattern[i]
		}
		out += "\x00" + e.Key + "\x00" + value
	}
	return out
}

// compare returns what is not the same in two answers that came between two instants and is on no list; "" if
// nothing is.
func (c *comparison) compare(in *ratelimit.RateLimitRequest, got, want *ratelimit.RateLimitResponse, began, ended time.Time) string {
	c.asked++
	limits := make([]*config.RateLimit, len(in.Descriptors))
	replaced := make(map[string]bool)
	for i, d := range in.Descriptors {
		if limits[i] = c.theirs[in.Domain].GetLimit(context.Background(), in.Domain, d); limits[i] != nil {
			for _, name := range limits[i].Replaces {
				replaced[name] = true
			}
		}
	}
	if len(got.Statuses) != len(want.Statuses) {
		return "the number of statuses"
	}
	why, explained := "", false
	for i, d := range in.Descriptors {
		l := limits[i]
		if l != nil && !l.Unlimited && l.Name != "" && replaced[l.Name] {
			l = nil
		}
		one, listed := c.status(in.Domain, l, d, got.Statuses[i], want.Statuses[i], began, ended)
		explained = explained || listed
		if one != "" && why == "" {
			why = fmt.Sprintf("descriptor %d: %s", i, one)
		}
	}
	if why == "" && got.OverallCode != want.OverallCode && !explained {
		why = "the code of the whole"
	}
	if want.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT {
		c.over++
	}
	return why
}

// status compares one status. listed: it differs, or may, for a reason that is on the list.
func (c *comparison) status(
	domain string, l *config.RateLimit, d *descriptors.RateLimitDescriptor, got, want *ratelimit.RateLimitResponse_DescriptorStatus, began, ended time.Time,
) (why string, listed bool) {
	same := got.Code == want.Code && got.LimitRemaining == want.LimitRemaining &&
		got.CurrentLimit.GetRequestsPerUnit() == want.CurrentLimit.GetRequestsPerUnit() && got.CurrentLimit.GetUnit() == want.CurrentLimit.GetUnit()
	if l == nil || l.Unlimited {
		if !same || got.CurrentLimit != nil || want.CurrentLimit != nil {
			return fmt.Sprintf("no limit, got %v, want %v", got, want), false
		}
		return "", false
	}
	key, from, to := keyOf(domain, l, d), window(l, began), window(l, ended)
	cost := uint64(1)
	if d.HitsAddend != nil {
		cost = d.HitsAddend.GetValue()
	}
	if l.ShadowMode || l.QuotaMode {
		if got.CurrentLimit != nil || got.Code != ratelimit.RateLimitResponse_OK {
			return fmt.Sprintf("a limit that only watches, got %v, want %v", got, want), false
		}
		name := shadowLimit
		if l.QuotaMode {
			name = quotaMode
		}
		c.counts[name]++
		return "", true
	}
	code, left, known := c.here(key, from, to, cost, uint64(l.Limit.RequestsPerUnit))
	if known && (got.Code != code || got.LimitRemaining != left) {
		return fmt.Sprintf("got %v, and by itself it has to answer %v with %d left", got, code, left), false
	}
	if from != to || c.spoilt[key] == from {
		// A window that ended between the two answers, or in which one of the two has counted what the other
		// has not: of such only what is listed is known.
		if from != to {
			c.spoilt[key] = to
			c.skipped++
		} else if !same {
			c.counts[deniedCounts]++
		}
		return "", true
	}
	over, whole := want.Code == ratelimit.RateLimitResponse_OVER_LIMIT, uint64(l.Limit.RequestsPerUnit)
	if over && cost > 0 && whole > 0 && (cost > 1 || got.Code != want.Code) {
		c.spoilt[key] = from // there it counts on
	}
	away := got.DurationUntilReset.GetSeconds() - want.DurationUntilReset.GetSeconds()
	near := away >= -2 && away <= 2 || uint64(got.LimitRemaining) == whole && got.DurationUntilReset.GetSeconds() == 0 && !same
	switch {
	case same && near:
		return "", false
	case same && whole == 0 && got.DurationUntilReset.GetSeconds() == 0:
		c.counts[nothingToWait]++
		return "", false
	case same && uint64(got.LimitRemaining) == whole && got.DurationUntilReset.GetSeconds() == 0:
		c.counts[untouched]++
		return "", false
	case cost == 0 && !over && want.LimitRemaining == 0 && got.Code == ratelimit.RateLimitResponse_OVER_LIMIT:
		c.counts[lookAtUsedUp]++
		return "", true
	case cost > whole && over && got.Code == want.Code && got.CurrentLimit.GetRequestsPerUnit() == l.Limit.RequestsPerUnit && near:
		c.counts[aboveLimit]++
		return "", false
	case cost > 1 && over && got.Code == want.Code && near:
		c.counts[deniedCounts]++ // here what is left stays
		return "", false
	}
	return fmt.Sprintf("got %v, want %v", got, want), false
}

// TestADaemonAnswersAsThatProjectDoes sends the same requests to envoyproxy/ratelimit and to a region with the
// imported rules, about that project's own configurations and drawn ones. What differs is on the list of
// docs/reference/envoy.md; of a thing that is not this fails. With -requests it sends more, and prints the table.
func TestADaemonAnswersAsThatProjectDoes(t *testing.T) {
	texts := peerConfigurations(t)
	if len(texts) < 16 {
		t.Fatalf("%d configurations", len(texts))
	}
	for seed := range uint64(10) {
		domain := fmt.Sprintf("d%d", seed)
		texts[domain] = draw(seed, domain, longUnits, 3)
	}
	c := &comparison{theirs: make(map[string]config.RateLimitConfig), counts: make(map[string]int), spoilt: make(map[string]int64), used: make(map[string]use)}
	names, ways := make(map[string]string), make(map[string][][]*descriptors.RateLimitDescriptor_Entry)
	var files []envoyimport.File
	domains := slices.Sorted(maps.Keys(texts))
	for i, domain := range domains {
		names[fmt.Sprintf("f%d.yaml", i)] = texts[domain]
		c.theirs[domain], ways[domain] = theirsOf(texts[domain]), paths(t, texts[domain])
		files = append(files, envoyimport.File{Name: domain, Data: []byte(texts[domain])})
	}
	imported, err := envoyimport.Import(files)
	if err != nil {
		t.Fatal(err)
	}
	there, here := dial(t, startPeer(t, names)), dial(t, startAliquot(t, imported.YAML))
	r := rand.New(rand.NewPCG(1, uint64(*requests)))
	for range *requests {
		domain := domains[r.IntN(len(domains))]
		in := askOf(r, domain, ways[domain])
		began := time.Now()
		want, err := there.ShouldRateLimit(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := here.ShouldRateLimit(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if why := c.compare(in, got, want, began, time.Now()); why != "" {
			t.Errorf("domain %s: %s\nasked %v\n%s", domain, why, in, texts[domain])
			if c.asked > 100 {
				t.FailNow()
			}
		}
	}
	listed := listedDifferences(t)
	t.Logf("%d requests over %d configurations, %d over their limit; %d statuses not compared, for their window ended between the two answers",
		c.asked, len(domains), c.over, c.skipped)
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("| %s | %d |", what, c.counts[what])
		if !slices.Contains(listed, what) {
			t.Errorf("%s is not on the list of docs/reference/envoy.md", what)
		}
	}
	if c.over < c.asked/10 || c.asked-c.over < c.asked/10 {
		t.Errorf("%d of %d requests over their limit; too few of one kind to tell", c.over, c.asked)
	}
}

// listedDifferences are the first cells of the tables of docs/reference/envoy.md.
func listedDifferences(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(string(text), -1) {
		out = append(out, row[1])
	}
	return out
}
