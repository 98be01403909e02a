package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// countedRules have limits that count, whose checks wait as long as a busy machine may need.
func countedRules(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("defaults: {borrow_wait: 8s}\nrules:\n")
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "sliding_window_log"} {
		for _, limit := range []int{1, 10, 100} {
			fmt.Fprintf(&b, "  - {id: %s-%d, match: {attributes: {plan: %[1]s-%[2]d}}, algorithm: %[1]s, params: {limit: %[2]d, window: 1d}}\n", algorithm, limit)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// asked asks a region of an installation at a port offset for one request, and reports whether it
// was admitted.
func asked(t *testing.T, offset, region int, plan, key string) bool {
	t.Helper()
	answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/aliquot.v1.LimiterService/Check", 7500+10*region+offset), "application/json",
		strings.NewReader(fmt.Sprintf(`{"attributes":{"plan":%q,"api_key":%q}}`, plan, key)))
	if err != nil {
		t.Error(err)
		return false
	}
	defer answer.Body.Close()
	var decided struct{ Allowed bool }
	if err := json.NewDecoder(answer.Body).Decode(&decided); err != nil {
		t.Error(err)
	}
	return decided.Allowed
}

// TestALimitThatCountsFollowsItsClient: a client that comes to one region gets a limit that counts
// whole, the first request always; one that goes on to another region gets what the first left; and
// all together never get more than the limit. The regions are 80 ms from their coordinators.
func TestALimitThatCountsFollowsItsClient(t *testing.T) {
	t.Parallel()
	offset := -1
	p := startDevWatched(t, func(o int) { offset = o }, "--rtt", "80ms", "--coordinators", "1", "--rules", countedRules(t)) // one elects nobody while the machine stands still
	defer func() {
		if t.Failed() {
			t.Log(p.Tail())
		}
	}()
	var clients sync.WaitGroup // together, for they mostly wait
	defer clients.Wait()
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "sliding_window_log"} {
		for _, limit := range []int{1, 10, 100} {
			plan := algorithm + "-" + strconv.Itoa(limit)
			clients.Go(func() {
				t.Run(plan, func(t *testing.T) { followed(t, offset, plan, limit) })
			})
		}
	}
}

// followed has a client of a plan stay in one region, and another one move on when it had half of its limit.
func followed(t *testing.T, offset int, plan string, limit int) {
	for n := range limit {
		if !asked(t, offset, 1, plan, "stays") {
			t.Fatalf("request %d of %d in one region is denied", n+1, limit)
		}
	}
	for region := range 3 {
		if asked(t, offset, region, plan, "stays") {
			t.Errorf("region %d admits one more than the limit", region)
		}
	}
	first := (limit + 1) / 2
	for n := range first {
		if !asked(t, offset, 0, plan, "moves") {
			t.Fatalf("request %d of %d in the first region is denied", n+1, first)
		}
	}
	for n := range limit - first {
		if !asked(t, offset, 2, plan, "moves") {
			t.Fatalf("request %d of the %d that the first region left is denied in another one", n+1, limit-first)
		}
	}
	if asked(t, offset, 0, plan, "moves") || asked(t, offset, 1, plan, "moves") {
		t.Error("one more than the limit is admitted")
	}
}
