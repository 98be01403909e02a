package audit

import (
	"testing"

	"aliquot/budget"
)

// BenchmarkAuditFold takes in reports of 1,000 keys each, of three regions in turn,
// while 100,000 keys are hot; the cost is by key reported.
func BenchmarkAuditFold(b *testing.B) {
	const hotKeys, perReport = 100_000, 1000
	y := New(20_000, strictly, 0)
	report := func(region, from int, admitted int64) budget.Report {
		rep := budget.Report{Region: region, Session: uint64(1 + region)}
		for i := range perReport {
			k := usage(region, 1, admitted).Keys[0]
			n := (from + i) % hotKeys
			k.Key.Hash[0], k.Key.Hash[1], k.Key.Hash[2] = byte(n), byte(n>>8), byte(n>>16)
			rep.Keys = append(rep.Keys, k)
		}
		return rep
	}
	for from := 0; from < hotKeys; from += perReport {
		y.AddReport(report(0, from, 1), second(1), always)
	}
	reports := make([]budget.Report, 0, 300)
	for i := range cap(reports) {
		reports = append(reports, report(i%3, i/3*perReport, int64(2+i)))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		y.AddReport(reports[n%len(reports)], second(2+float64(n)/100), always)
		y.breaches = y.breaches[:0]
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*perReport), "ns/key")
}
