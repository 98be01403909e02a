package envoydiff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"

	"aliquot/envoyimport"
)

// longUnits begin once a week and less: a window that ended between the two servers'
// answers would be no difference.
var longUnits = []string{"week", "month", "year"}

// TestADaemonAnswersAsThatProjectDoes sends the same requests to envoyproxy/ratelimit and
// to a region with the imported rules: the same codes, and of limits that deny the same
// limit, the same left and the same time until the window ends.
func TestADaemonAnswersAsThatProjectDoes(t *testing.T) {
	const domains, requests = 20, 300
	texts := make(map[string]string, domains)
	var files []envoyimport.File
	for seed := range uint64(domains) {
		domain := fmt.Sprintf("d%d", seed)
		texts[domain+".yaml"] = draw(seed, domain, longUnits, 3)
		files = append(files, envoyimport.File{Name: domain, Data: []byte(texts[domain+".yaml"])})
	}
	imported, err := envoyimport.Import(files)
	if err != nil {
		t.Fatal(err)
	}
	there, here := dial(t, startPeer(t, texts)), dial(t, startAliquot(t, imported.YAML))
	var over, ok int
	for seed, file := range files {
		theirs := theirsOf(string(file.Data))
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		for range requests {
			in := &ratelimit.RateLimitRequest{Domain: file.Name}
			for range 1 + r.IntN(3) {
				if entries := ask(r, string(file.Data)); len(entries) > 0 {
					in.Descriptors = append(in.Descriptors, &descriptors.RateLimitDescriptor{Entries: entries})
				}
			}
			if len(in.Descriptors) == 0 {
				continue
			}
			want, err := there.ShouldRateLimit(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := here.ShouldRateLimit(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if got.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT {
				over++
			} else {
				ok++
			}
			if why := differs(theirs, in, got, want); why != "" {
				t.Fatalf("domain %s: %s\nasked %v\ngot %v\nwant %v\n%s", file.Name, why, in, got, want, file.Data)
			}
		}
	}
	t.Logf("%d requests over their limit, %d not", over, ok)
	if over < 300 || ok < 300 {
		t.Errorf("%d requests over their limit and %d that are not; too few of one kind to tell", over, ok)
	}
}

// differs says what is not the same in two answers; "" if nothing is.
func differs(theirs config.RateLimitConfig, in *ratelimit.RateLimitRequest, got, want *ratelimit.RateLimitResponse) string {
	if got.OverallCode != want.OverallCode || len(got.Statuses) != len(want.Statuses) {
		return "the code of the whole"
	}
	for i, d := range in.Descriptors {
		g, w := got.Statuses[i], want.Statuses[i]
		if g.Code != w.Code {
			return fmt.Sprintf("the code of descriptor %d", i)
		}
		limit := theirs.GetLimit(context.Background(), in.Domain, d)
		if limit == nil || limit.Unlimited || limit.ShadowMode {
			if g.CurrentLimit != nil {
				return fmt.Sprintf("descriptor %d has a limit that denies", i)
			}
			continue // what only watches is not told of here
		}
		away := g.DurationUntilReset.GetSeconds() - w.DurationUntilReset.GetSeconds()
		if g.CurrentLimit.GetRequestsPerUnit() != w.CurrentLimit.GetRequestsPerUnit() || g.CurrentLimit.GetUnit() != w.CurrentLimit.GetUnit() ||
			g.CurrentLimit.GetUnitMultiplier() != nil || g.LimitRemaining != w.LimitRemaining || away < -10 || away > 10 {
			return fmt.Sprintf("the limit of descriptor %d", i)
		}
	}
	return ""
}
