package budget_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/fleet"
)

// churn is how many keys move each second: 2 % of the 100,000 hot ones.
const churn = 2000

// meter times the steps of a leader by the kind of their events, in CPU time only.
type meter struct {
	clock func() time.Duration
	steps map[string][]time.Duration
	all   time.Duration
}

func (m *meter) measure(kind string, step func()) {
	began := m.clock()
	step()
	took := m.clock() - began
	m.all += took
	m.steps[kind] = append(m.steps[kind], took)
}

func (m *meter) reset() { m.steps, m.all = map[string][]time.Duration{}, 0 }

// report prints how long steps took, and separately the creation of a leader.
func (m *meter) report(b *testing.B) {
	var all []time.Duration
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	for kind, steps := range m.steps {
		if kind == "elect" { // before the epoch begins nothing waits for a step
			b.ReportMetric(ms(slices.Max(steps)), "ms-max/takeover")
			continue
		}
		all = append(all, steps...)
	}
	if len(all) == 0 {
		b.Fatal("no step was taken")
	}
	slices.Sort(all)
	b.ReportMetric(ms(all[len(all)/2]), "ms-p50/step")
	b.ReportMetric(ms(all[(len(all)-1)*99/100]), "ms-p99/step")
	b.ReportMetric(ms(all[len(all)-1]), "ms-max/step")
}

// settled returns a fleet in which every key is hot and every share acknowledged.
func settled(b *testing.B, keys int) (*fleet.Fleet, *meter) {
	b.Helper()
	f := fleet.New(fleet.Size{Regions: 10, Keys: keys, Users: 2})
	m := &meter{clock: cpuClock()}
	m.reset()
	f.Measure = m.measure
	f.Elect()
	if !f.Settle(5 * time.Minute) {
		b.Fatal("the fleet does not settle")
	}
	return f, m
}

var sizes = []int{10_000, 100_000, 200_000}

func bySize(b *testing.B, run func(b *testing.B, keys int)) {
	for _, keys := range sizes {
		b.Run(fmt.Sprintf("hot=%d", keys), func(b *testing.B) { run(b, keys) })
	}
}

// BenchmarkScaleCycle measures a second of a leader's work: 10 regions, two of which use each key
// and report it once, while the demand of 2,000 keys moves to another region. ns/op is the time in
// the leader's steps alone, on one core.
func BenchmarkScaleCycle(b *testing.B) {
	bySize(b, func(b *testing.B, keys int) {
		f, m := settled(b, keys)
		f.Run(time.Minute, 0) // what came of the beginning has decayed
		f.Run(10*time.Second, churn)
		m.reset()
		changes, reports, planned := 0, f.KeyReports, looks(f)
		f.Planned = func(p budget.Plan) { changes += len(p.Changes) }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		seconds := 0
		for b.Loop() {
			f.Run(time.Second, churn)
			seconds++
		}
		runtime.ReadMemStats(&after)
		per := func(n int) float64 { return float64(n) / float64(seconds) }
		m.report(b)
		b.ReportMetric(float64(m.all)/float64(seconds), "ns/op")
		b.ReportMetric(per(changes), "changes/op")
		b.ReportMetric(per(int(looks(f)-planned)), "plans/op")
		b.ReportMetric(per(f.KeyReports-reports), "keyreports/op")
		b.ReportMetric(per(int(after.Mallocs-before.Mallocs)), "allocs/op")
		b.ReportMetric(per(int(after.TotalAlloc-before.TotalAlloc)), "B/op")
	})
}

// BenchmarkScaleMemory measures what a leader, with its copy of the ledger, and the replicated
// ledger beside it hold on the heap.
func BenchmarkScaleMemory(b *testing.B) {
	bySize(b, func(b *testing.B, keys int) {
		f, _ := settled(b, keys)
		f.Run(3*time.Second, churn)
		heap := func() float64 {
			runtime.GC()
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return float64(s.HeapAlloc)
		}
		whole := heap()
		f.Leader = nil
		rest := heap()
		f.Ledger = nil
		b.ReportMetric((whole-rest)/(1<<20), "MiB-leader")
		b.ReportMetric((rest-heap())/(1<<20), "MiB-ledger")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(f)
	})
}

// BenchmarkScaleSilence measures a region that falls silent with shares lent to others: its floor
// of every key must be reserved. It reports how long it takes until leases are renewed again.
func BenchmarkScaleSilence(b *testing.B) {
	moment(b, nil, func(b *testing.B, f *fleet.Fleet) {
		f.Cut(3, true)
		until(b, f, "the region is silent", func() bool { return f.Live() < 10 })
		f.Run(5*time.Second, 0)
		if f.Live() != 9 {
			b.Fatalf("%d regions are live, want 9", f.Live())
		}
	})
}

// BenchmarkScaleReturn measures the region's Hello and its first report.
func BenchmarkScaleReturn(b *testing.B) {
	moment(b, func(f *fleet.Fleet) {
		f.Cut(3, true)
		f.Run(40*time.Second, 0)
	}, func(b *testing.B, f *fleet.Fleet) {
		f.Cut(3, false)
		until(b, f, "the region is live", func() bool { return f.Live() == 10 })
		f.Run(5*time.Second, 0)
	})
}

// BenchmarkScaleAllSilent measures the instant in which every region falls silent.
func BenchmarkScaleAllSilent(b *testing.B) {
	moment(b, nil, func(b *testing.B, f *fleet.Fleet) {
		for i := range 10 {
			f.Cut(i, true)
		}
		until(b, f, "all are silent", func() bool { return f.Live() == 0 })
		f.Run(12*time.Second, 0) // the leases end as well
	})
}

// BenchmarkScaleElection measures a new leader, to which each of 10 regions says Hello with
// everything it holds.
func BenchmarkScaleElection(b *testing.B) {
	moment(b, nil, func(b *testing.B, f *fleet.Fleet) {
		f.Elect()
		until(b, f, "all are live", func() bool { return f.Live() == 10 })
		f.Run(5*time.Second, 0)
	})
}

// BenchmarkScaleFloors measures another weight of one region: the ledger begins an epoch, and a new
// leader checks whether every region has what it counts on.
func BenchmarkScaleFloors(b *testing.B) {
	weight := int32(1)
	moment(b, nil, func(b *testing.B, f *fleet.Fleet) {
		weight++
		if err := f.Ledger.UpdateRegion("region-03", weight); err != nil {
			b.Fatal(err)
		}
		f.Elect()
		until(b, f, "all are live", func() bool { return f.Live() == 10 })
		f.Run(5*time.Second, 0)
	})
}

// BenchmarkScaleRules measures a change of the rules that removes none.
func BenchmarkScaleRules(b *testing.B) {
	moment(b, nil, func(_ *testing.B, f *fleet.Fleet) { f.ChangeRules() })
}

// BenchmarkScaleCooling measures ten minutes' worth of keys that go cold at once, because no region
// uses them any more.
func BenchmarkScaleCooling(b *testing.B) {
	moment(b, nil, func(b *testing.B, f *fleet.Fleet) {
		f.Idle = true
		until(b, f, "all keys are cold", func() bool { return f.Ledger.Len() == 0 })
		f.Idle = false
	})
}

// BenchmarkScaleList measures a coordinator's work for a page of budgets: all keys of its ledger in
// order.
func BenchmarkScaleList(b *testing.B) {
	bySize(b, func(b *testing.B, keys int) {
		f, _ := settled(b, keys)
		b.ReportAllocs()
		for b.Loop() {
			if len(f.Ledger.Keys()) != keys {
				b.Fatal("keys are missing")
			}
		}
	})
}

// moment measures the steps of one hard moment again and again, each after what leads to it. ns/op
// is the time in the leader's steps alone.
func moment(b *testing.B, before func(*fleet.Fleet), run func(*testing.B, *fleet.Fleet)) {
	bySize(b, func(b *testing.B, keys int) {
		f, m := settled(b, keys)
		var steps meter
		steps.reset()
		rounds := 0
		for b.Loop() {
			for i := range 10 {
				f.Cut(i, false)
			}
			if !f.Settle(5 * time.Minute) {
				b.Fatal("the fleet does not settle")
			}
			if before != nil {
				before(f)
			}
			m.reset()
			run(b, f)
			for kind, took := range m.steps {
				steps.steps[kind] = append(steps.steps[kind], took...)
			}
			steps.all += m.all
			rounds++
		}
		steps.report(b)
		b.ReportMetric(float64(steps.all)/float64(rounds), "ns/op")
	})
}

func until(b *testing.B, f *fleet.Fleet, what string, ok func() bool) {
	b.Helper()
	for range 60 * 50 {
		if ok() {
			return
		}
		f.Run(fleet.Tick, 0)
	}
	b.Fatalf("%s: not within a minute", what)
}
