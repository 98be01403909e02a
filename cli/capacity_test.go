package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"aliquot/capacity"
)

func TestCapacityTellsWhatALoadNeeds(t *testing.T) {
	command(t, "", "capacity").want(t, exitOK, "1.7M/s", "850 calls/s from each gateway")
	r := command(t, "", "capacity", "--checks", "1000", "--cost", "check_us=3", "--output", "json")
	var need capacity.Need
	if err := json.Unmarshal([]byte(r.out), &need); err != nil || need.Load.Checks != 1000 || need.Costs.Check != 3 {
		t.Errorf("%s: %v", r.out, err)
	}
	command(t, "", "capacity", "--costs").want(t, exitOK, "redis_limit_us")
	command(t, "", "capacity", "--cost", "x=1").want(t, exitUsage, "no such cost")
	command(t, "", "capacity", "--shards", "3").want(t, exitUsage, "--shards 3")
}

func TestLargeNumbersAreShort(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 7: "7", 999: "999", 2540: "2.5k", 13_600: "13.6k", 200_000: "200k", 1.7e6: "1.7M"} {
		if got := large(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}

// The page shows what the command prints.
func TestThePageAboutCapacityIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for line := range strings.Lines(command(t, "", "capacity").out) {
		printed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if !strings.Contains(string(page), printed.String()) {
		t.Errorf("docs/capacity.md does not show what `aliquot capacity` prints:\n%s", printed.String())
	}
}
