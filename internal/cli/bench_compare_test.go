package cli

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestCompareUsage(t *testing.T) {
	for says, args := range map[string][]string{
		"strict, elastic or independent": {"--compare", "strict,lax"},
		"twice":                          {"--compare", "strict,strict"},
		"--refill":                       {"--compare", "strict", "--capacity", "3"},
		"needs api_key":                  {"--compare", "strict", "--attr", "user=u"},
		"--enforcement":                  {"--enforcement", "elastic"},
	} {
		command(t, "", append([]string{"bench", "rotate"}, args...)...).want(t, exitUsage, says, "--help")
	}
	nobody := unused(t)
	command(t, "", "bench", "rotate", "--compare", "strict", "--addr", nobody).want(t, exitError, nobody, "connection refused")
}

// TestCompareAgainstARealCluster compares enforcements over the real daemons and
// looks at the rules that are left.
func TestCompareAgainstARealCluster(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := startDev(t, "--coordinators", "1") // one elects nobody while the machine stands still
	regions := strings.Join([]string{r.at(7500), r.at(7510), r.at(7520)}, ",")
	// The two first calls to each region ask for more than it can admit, however slow the machine is.
	compare := []string{"bench", "rotate", "--batch", "200", "--timeout", "5m", "--addr", r.at(7400), "--regions", regions, "--compare"}
	rulesNow := func() result { return command(t, "", "rules", "show", "--addr", r.at(7400)) }
	before := rulesNow()
	before.want(t, exitOK, "version 1", "per-key")
	changed := func(text string) string {
		return strings.Replace(text, "  - id: per-key\n", "  - id: per-key # mine\n", 1)
	}

	t.Run("all three, in one table", func(t *testing.T) {
		got := command(t, "", append(compare, "strict,elastic,independent", "--duration", "300ms", "--capacity", "300", "--refill", "0.001")...)
		got.want(t, exitOK, "C = 300, r = 0.001/s", "ENFORCEMENT", "C + RT", "OF BOUND", "UTILISATION", "strict: driving 3 regions")
		if now := rulesNow(); now.out != before.out {
			t.Errorf("rules afterwards:\n%s", now.out)
		}
		gains(t, got.out)
	})
	t.Run("JSON, with a limit of its own", func(t *testing.T) {
		// The limit is that of the rule in force.
		got := command(t, "", append(compare, "independent", "--duration", "300ms", "-o", "json")...)
		var table struct {
			Rows []struct {
				Enforcement string
				Gain        float64
				StrictBound float64 `json:"strictBound"`
				OfBound     float64 `json:"ofBound"`
			}
		}
		if err := json.Unmarshal([]byte(got.out), &table); err != nil || got.code != exitOK || len(table.Rows) != 1 {
			t.Fatalf("%d, %v: %s%s", got.code, err, got.out, got.err)
		}
		row := table.Rows[0]
		if row.Gain == 0 || row.OfBound > 1 || math.Abs(row.OfBound-row.Gain/3) > 1e-9 || row.StrictBound < 300 {
			t.Errorf("%+v", row)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		got := stopped(t, append(compare, "strict", "--duration", "1m"), "driving", func() {})
		got.want(t, exitError, "interrupted after 0 of 1 runs")
		if now := rulesNow(); now.out != before.out {
			t.Errorf("rules afterwards:\n%s", now.out)
		}
	})
	t.Run("rules changed meanwhile stay changed", func(t *testing.T) {
		got := stopped(t, append(compare, "strict", "--duration", "1m"), "driving", func() {
			theirs := changed(rulesNow().out)
			command(t, theirs, "rules", "apply", "-", "--addr", r.at(7400)).want(t, exitOK, "is in force")
		})
		got.want(t, exitError, "interrupted")
		now := rulesNow()
		if now.out != changed(before.out) {
			t.Errorf("rules afterwards:\n%s", now.out)
		}
	})
	t.Run("rules replaced meanwhile end the comparison", func(t *testing.T) {
		got := stopped(t, append(compare, "strict", "--duration", "1m"), "driving", func() {
			command(t, before.out, "rules", "apply", "-", "--addr", r.at(7400)).want(t, exitOK, "is in force")
		})
		got.want(t, exitError, "changed by another client")
		if now := rulesNow(); now.out != before.out {
			t.Errorf("rules afterwards:\n%s", now.out)
		}
	})
}

// gains looks at a table of all three enforcements: none may gain more than it promises, and those that promise no
// single limit gain more than one. A machine that stands still for 100 ms keeps them from gaining all: a store call
// that is answered later is counted, and its checks are denied.
func gains(t *testing.T, table string) {
	t.Helper()
	want := map[string]struct{ above, atMost float64 }{"strict": {0, 1}, "elastic": {1, 3}, "independent": {1, 3}}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 || want[fields[0]].atMost == 0 {
			continue
		}
		gain, err := strconv.ParseFloat(fields[3], 64)
		if full := want[fields[0]]; err != nil || gain > full.atMost || gain <= full.above {
			t.Errorf("gain of %s", line)
		}
		delete(want, fields[0])
	}
	if len(want) > 0 {
		t.Errorf("no rows for %v in\n%s", want, table)
	}
}
