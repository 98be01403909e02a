package state

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/fleet"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// scaleSizes are the hot keys of the benchmarks, churn how many move each second.
var scaleSizes = []int{10_000, 100_000, 200_000}

const churn = 2000

// settledFleet is 10 regions, two of which use each key, with all shares in place.
func settledFleet(b *testing.B, keys int) *fleet.Fleet {
	b.Helper()
	f := fleet.New(fleet.Size{Regions: 10, Keys: keys, Users: 2})
	f.Elect()
	if !f.Settle(5 * time.Minute) {
		b.Fatal("the fleet does not settle")
	}
	return f
}

// entriesOf are the log entries of a plan, as Node.CommitPlan proposes them.
func entriesOf(b *testing.B, p budget.Plan) [][]byte {
	b.Helper()
	var out [][]byte
	for _, part := range SplitPlan(p) {
		data, err := EncodeCommand(&raftlogv1.Command{Kind: &raftlogv1.Command_CommitPlan{CommitPlan: EncodePlan(part)}})
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

// BenchmarkScaleLog is what a second of plans takes in the log, and what it takes to
// encode it.
func BenchmarkScaleLog(b *testing.B) {
	for _, keys := range scaleSizes {
		b.Run(fmt.Sprintf("hot=%d", keys), func(b *testing.B) {
			f := settledFleet(b, keys)
			f.Run(20*time.Second, churn)
			size, largest, changes, seconds := 0, 0, 0, 0
			f.Planned = func(p budget.Plan) {
				changes += len(p.Changes)
				for _, data := range entriesOf(b, p) {
					size += len(data)
					largest = max(largest, len(data))
				}
			}
			for b.Loop() {
				f.Run(time.Second, churn)
				seconds++
			}
			b.ReportMetric(float64(size)/float64(seconds), "B-log/op")
			b.ReportMetric(float64(changes)/float64(seconds), "changes/op")
			b.ReportMetric(float64(size)/float64(changes), "B/change")
			b.ReportMetric(float64(largest), "B-largest-entry")
		})
	}
}

// BenchmarkScaleApply is the state machine's part of a full plan: what every
// coordinator does with it.
func BenchmarkScaleApply(b *testing.B) {
	for _, keys := range scaleSizes {
		b.Run(fmt.Sprintf("hot=%d", keys), func(b *testing.B) {
			f := NewMachine()
			f.state.Ledger = *settledFleet(b, keys).Ledger
			f.state.Rules = RuleBook{Numbers: map[string]uint32{"r": 1}}.indexed()
			plan := budget.Plan{Epoch: f.state.Ledger.Epoch}
			for _, k := range f.state.Ledger.Keys()[:2048] {
				plan.Changes = append(plan.Changes, budget.Entry{Key: k, Shares: f.state.Ledger.Shares(k)})
			}
			entries := entriesOf(b, plan)
			b.ReportAllocs()
			for b.Loop() {
				for i, data := range entries {
					if err, refused := f.Apply(uint64(i+1), 1, data).(error); refused {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkScaleSnapshot is the copy of the state, for which everything else waits, and
// writing it out and reading it in beside that.
func BenchmarkScaleSnapshot(b *testing.B) {
	for _, keys := range scaleSizes {
		b.Run(fmt.Sprintf("hot=%d", keys), func(b *testing.B) {
			f := NewMachine()
			f.state.Ledger = *settledFleet(b, keys).Ledger
			f.state.ClusterID, f.state.HashSecret = "scale", testSecret(b)
			var buf bytes.Buffer
			var copying, writing, reading time.Duration
			rounds := 0
			for b.Loop() {
				buf.Reset()
				began := time.Now()
				state := f.state.clone()
				copied := time.Now()
				if err := WriteSnapshot(&buf, state); err != nil {
					b.Fatal(err)
				}
				written := time.Now()
				if _, err := ReadSnapshot(bytes.NewReader(buf.Bytes())); err != nil {
					b.Fatal(err)
				}
				copying += copied.Sub(began)
				writing += written.Sub(copied)
				reading += time.Since(written)
				rounds++
			}
			ms := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(rounds) }
			b.ReportMetric(float64(buf.Len()), "B-snapshot")
			b.ReportMetric(ms(copying), "ms-copy")
			b.ReportMetric(ms(writing), "ms-write")
			b.ReportMetric(ms(reading), "ms-read")
		})
	}
}

func testSecret(b *testing.B) Secret {
	b.Helper()
	s, ok := newSecret(bytes.Repeat([]byte{7}, SecretBytes))
	if !ok {
		b.Fatal("the secret is refused")
	}
	return s
}
