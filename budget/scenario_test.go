package budget

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios plays what testdata/scenarios tells: a leader and its regions go through loads, cuts, kills and
// lost stores, and every `run` shows what each region may spend of the one key. `go test ./budget -run Scenarios
// -rewrite` writes the outputs. The commands:
//
//	start regions=3          regions a, b and c, with a lease each, and nothing spent
//	load a=10 c=2            requests that come in 20 ms; 0 in the regions that are not named
//	run 3s                   lets time pass
//	kill | elect             no coordinator answers | a new leader begins
//	cut a | connect a        no message between the region and the leader | messages again
//	flush a                  the region's store has lost its contents
//	rules rate=50 burst=150  another version of the rules, in all regions; without=a: not in that one
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "start" {
				var n int
				d.ScanArgs(t, "regions", &n)
				w = started(t, n)
				return w.table()
			}
			w.t = t
			return w.play(d)
		})
	})
}

// play carries out a command, and returns what it shows.
func (w *world) play(d *datadriven.TestData) string {
	switch d.Cmd {
	case "load":
		clear(w.load)
		for _, arg := range d.CmdArgs {
			n, err := strconv.ParseInt(arg.FirstVal(w.t), 10, 64)
			if err != nil {
				d.Fatalf(w.t, "%v", err)
			}
			w.load[w.named(d, arg.Key)] = n
		}
	case "run":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(w.t, "%v", err)
		}
		before := w.got
		w.run(span)
		return w.table() + fmt.Sprintf("admitted %d\n", w.got-before)
	case "kill":
		w.fall()
	case "elect":
		w.elect()
	case "cut", "connect":
		w.cut[w.named(d, d.CmdArgs[0].Key)] = d.Cmd == "cut"
	case "flush":
		i := w.named(d, d.CmdArgs[0].Key)
		w.bank[i] = 0
		w.act(i, w.regions[i].Step(StoreEpoch{fmt.Sprintf("later-%d", w.now)}, w.now))
	case "rules":
		w.replaceRules(d)
	default:
		d.Fatalf(w.t, "no such command")
	}
	return "ok\n"
}

func (w *world) replaceRules(d *datadriven.TestData) {
	var rate, burst int64
	without := ""
	d.ScanArgs(w.t, "rate", &rate)
	d.ScanArgs(w.t, "burst", &burst)
	d.MaybeScanArgs(w.t, "without", &without)
	left := []int{}
	if without != "" {
		left = append(left, w.named(d, without))
	}
	w.inForce(w.rules.Version+1, KeyLimit{Capacity: burst * microToken, Rate: rate * microToken}, left...)
}

// named returns the index of a region.
func (w *world) named(d *datadriven.TestData, name string) int {
	for i := range w.regions {
		if w.ledger.Config.Regions[i].Name == name {
			return i
		}
	}
	d.Fatalf(w.t, "no region %q", name)
	return 0
}

// table shows each region: its phase, its lease, what it may spend of the key in per mille, and the bound that the
// log has for that. Of a silent region the leader reserves the floor beside what the log has.
func (w *world) table() string {
	var out strings.Builder
	shares := w.ledger.Shares(w.key)
	for i, r := range w.regions {
		info := r.Info(w.now)
		bound := w.ledger.Config.Regions[i].Floor
		if shares != nil {
			bound = shares[i]
		}
		fmt.Fprintf(&out, "%s  %-7v  lease %4.1fs  spends %4d, log %4d\n", w.ledger.Config.Regions[i].Name, info.Phase,
			max(0, info.LeaseRemaining).Seconds(), w.rate(i), int64(bound.Rate)*1000/Unit)
	}
	return out.String()
}
