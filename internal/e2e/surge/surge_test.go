package main

import (
	"os"
	"testing"
	"time"

	"aliquot/internal/e2e"
)

// bin is where TestMain built the programs.
var bin string

func TestMain(m *testing.M) { os.Exit(e2e.RunTests(m, "../../..", &bin)) }

// TestSurge: in three regions, riders far above their limits reach a backend as often as its limit says,
// and all of them do without Aliquot.
func TestSurge(t *testing.T) {
	rows, err := Surge{Module: "../../..", Regions: 3, Riders: 400, Times: 25, Length: 5 * time.Second}.Run(t.Context(), bin, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	without, with := rows[0], rows[1]
	if without.Refused+without.Undecided != 0 || without.Allowed == 0 {
		t.Errorf("without Aliquot: %+v", without)
	}
	// deploy/examples/surge/rules.yaml: 24 at once and 110 a second.
	most := 24 + int(110*1.02*with.lasted.Seconds())
	if with.Backend > most || with.Backend == 0 || with.Refused == 0 {
		t.Errorf("with Aliquot, at most %d may reach the backend: %+v", most, with)
	}
	t.Logf("without %+v\nwith %+v", without, with)
}
