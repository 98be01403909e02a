package service

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/cluster"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// Of two operators one sets the lease and the other rho, in the same moment: both changes are in force then.
func TestChangesOfTheTimingKeepEachOther(t *testing.T) {
	t.Parallel()
	s := clusterService{node: nodeOfOne(t), timing: cluster.NewTurns()}
	for i := range 20 {
		lease, rho := time.Duration(20+i)*time.Second, float64(30+i)/1000
		var both sync.WaitGroup
		for _, req := range []*aliquotv1.SetTimingRequest{{Lease: durationpb.New(lease)}, {Rho: &rho}} {
			both.Go(func() {
				if _, err := s.SetTiming(t.Context(), req); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		got, err := s.SetTiming(t.Context(), &aliquotv1.SetTimingRequest{})
		if now := got.GetTiming(); err != nil || now.GetLeaseNext().AsDuration() != lease || now.GetRho() != rho {
			t.Fatalf("lease %v and rho %v were set: %v, %v", lease, rho, now, err)
		}
	}
}

// The timing names the next lease, and for how long it waits, only while a change is under way.
func TestTimingNamesTheNextLease(t *testing.T) {
	steady := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	if got := timingToWire(&steady); got.GetLease().AsDuration() != 10*time.Second || got.GetRho() != 0.02 || got.LeaseNext != nil || got.LeaseWait != nil {
		t.Errorf("without a change: %v", got)
	}
	changing := steady
	changing.LeaseNext, changing.LeaseWait, changing.RhoRising = 5*time.Second, 12*time.Second, true
	got := timingToWire(&changing)
	if got.GetLeaseNext().AsDuration() != 5*time.Second || got.GetLeaseWait().AsDuration() != 12*time.Second || !got.GetRhoRising() {
		t.Errorf("during a change: %v", got)
	}
}
