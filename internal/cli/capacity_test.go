package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"aliquot/internal/capacity"
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

// An impossible installation is refused, and the refusal says what would do.
func TestCapacityRefusesWhatCannotBe(t *testing.T) {
	for args, want := range map[string]string{
		"--checks 0":                        "--checks 0: give 1 to 1e+12",
		"--checks=-1":                       "--checks -1: give 1",
		"--checks NaN":                      "--checks NaN: give 1",
		"--checks Inf":                      "--checks +Inf: give 1",
		"--keys 1e400":                      "--keys",
		"--regions 0":                       "--regions 0: give 1 to 1000",
		"--gateways 2000000":                "--gateways 2e+06: give 10 to 1e+06",
		"--gateways=-9223372036854775808":   "--gateways",
		"--hot 2":                           "--hot 2: give 0 to 1",
		"--moves NaN":                       "--moves NaN: give 0 to 1",
		"--busy 0":                          "--busy 0: give 0.01 to 1",
		"--cost check_us":                   "give name=value",
		"--cost check_us=":                  "give check_us a number from 0.001 to 1e+06",
		"--cost check_us=0":                 "give check_us a number from 0.001 to 1e+06",
		"--cost check_us=-1":                "give check_us a number from 0.001 to 1e+06",
		"--cost check_us=NaN":               "give check_us a number from 0.001 to 1e+06",
		"--cost check_us=Inf":               "give check_us a number from 0.001 to 1e+06",
		"--cost check_us=1e400":             "give check_us a number from 0.001 to 1e+06",
		"--cost groups_per_call=1e-300":     "give groups_per_call a number from 1 to 1000",
		"--cost hot_keys_per_ledger=1e-300": "give hot_keys_per_ledger a number from 1000 to 1e+09",
		"--checks 1e12 --limits 1000 --cores 1 --busy 0.01 --cost limit_us=1e6": "1000000000 daemons a region or more",
		"--checks 1e12 --zipf 0 --cost redis_limit_us=1e6":                      "1000000000 Redis servers a region or more",
		"--keys 1e12 --hot 1 --cost hot_keys_per_ledger=1000":                   "1000000000 groups of coordinators or more",
	} {
		command(t, "", append([]string{"capacity"}, strings.Fields(args)...)...).want(t, exitUsage, want)
	}
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
	page, err := os.ReadFile("../../docs/how-to/plan-capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for line := range strings.Lines(command(t, "", "capacity").out) {
		printed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if !strings.Contains(string(page), printed.String()) {
		t.Errorf("docs/how-to/plan-capacity.md does not show what `aliquot capacity` prints:\n%s", printed.String())
	}
}
