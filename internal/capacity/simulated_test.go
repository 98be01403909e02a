package capacity_test

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	"aliquot/internal/capacity"
	"aliquot/internal/sim/fleet"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// The simulator's fleet makes about the reports, plans and entries that the calculator
// says, at any size: the protocol is the real one, only smaller.
func TestTheFleetDoesWhatTheCalculatorSays(t *testing.T) {
	for _, keys := range []int{1_000, 4_000} {
		l := capacity.Specified()
		l.HotShare, l.Keys, l.MovesShare = 1, float64(keys), .02
		want := capacity.Estimate(l, capacity.Measured()).Coordinator

		f := fleet.New(fleet.Size{Regions: l.Regions, Keys: keys, Users: int(l.Users)})
		f.Elect()
		if !f.Settle(5 * time.Minute) {
			t.Fatal("the fleet does not settle")
		}
		f.Run(30*time.Second, 0)
		f.Run(10*time.Second, int(want.Moves)) // what a move leaves behind takes a while
		const seconds = 30
		reports, plans, entries := f.KeyReports, 0, 0
		f.Planned = func(p budget.Plan) { plans, entries = plans+1, entries+len(p.Changes) }
		f.Run(seconds*time.Second, int(want.Moves))
		got := float64(f.KeyReports-reports) / seconds
		t.Logf("%d hot keys, %.0f moves a second: %.0f key reports, %.0f entries a second; estimated %.0f and %.0f",
			keys, want.Moves, got, float64(entries)/seconds, want.KeyReports, want.Entries)
		near(t, "key reports", got, want.KeyReports)
		near(t, "entries", float64(entries)/seconds, want.Entries)
	}
}

// near allows for what depends on when keys move.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > .25*want {
		t.Errorf("%.0f %s a second, estimated %.0f", got, what, want)
	}
}

// A key's report and its new share take no more than is estimated.
func TestMessagesAreAsLargeAsEstimated(t *testing.T) {
	key := &aliquotv1.KeyId{Rule: 40, Hash: make([]byte, 16)}
	gen, share := &aliquotv1.Generation{Epoch: 9, Counter: 1 << 30}, &aliquotv1.Share{Rate: 620_000, Burst: 620_000}
	limit := &aliquotv1.KeyLimit{CapacityMicro: 1000e6, RateMicro: 100e6}
	report := proto.Size(&aliquotv1.ReportRequest{Keys: []*aliquotv1.KeyReport{{
		Key: key, Gen: gen, Share: share, Limit: limit, AdmittedMicro: 1 << 40, OfferedMicro: 1 << 40, ReleasedMicro: 1 << 30,
		TokensMicro: 500e6, Rejecting: true, IdleNs: 1e9, GapNs: 1e9,
	}}})
	action := proto.Size(&aliquotv1.ReportResponse{Actions: []*aliquotv1.Action{{Key: key, Gen: gen, Share: share, GrantedMicro: 1 << 40}}})
	c := capacity.Measured()
	t.Logf("a report takes %d bytes, an action %d", report, action)
	if float64(report) > c.ReportBytes || float64(action) > c.ActionBytes {
		t.Errorf("a report takes %d bytes, an action %d; estimated %v and %v", report, action, c.ReportBytes, c.ActionBytes)
	}
}
