package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestSetTiming: a longer lease, set through any node, is told to every region before
// anyone is granted one.
func TestSetTiming(t *testing.T) {
	t.Parallel()
	_, followers := split(t, startCluster(t, 3))
	r := followers[0]
	r.applyRules(t, someRules)
	usage := func(string, bool) []*aliquotv1.KeyReport { return nil }
	us, eu := newRegion(r.lease, "us"), newRegion(r.lease, "eu")
	inBackground(t, usage, us, eu)
	waitFloors(t, r, "us active 0.333 live", "eu active 0.333 live")

	rho := 0.05
	set, err := r.cluster.SetTiming(t.Context(), &aliquotv1.SetTimingRequest{Lease: durationpb.New(20 * time.Second), Rho: &rho})
	if err != nil {
		t.Fatal(err)
	}
	if now := set.GetTiming(); now.GetLease().AsDuration() != 10*time.Second || now.GetLeaseNext().AsDuration() != 20*time.Second ||
		now.GetLeaseWait().AsDuration() != 20*time.Second || now.GetRho() != 0.05 || !now.GetRhoRising() {
		t.Errorf("at first %v", now)
	}
	ap := newRegion(r.lease, "ap") // the last to hear of it
	eventually(t, func() string { return errorText(ap.sayHello(t.Context())) })
	if c := ap.hello.GetConfig(); c.GetLeaseMicros() != 10e6 || c.GetLeaseWaitMicros() != 20e6 || c.GetRhoPpm() != 50_000 {
		t.Errorf("the last region is told %v", c)
	}
	inBackground(t, usage, ap)
	eventually(t, func() string {
		res, err := r.cluster.GetStatus(t.Context(), &aliquotv1.GetStatusRequest{})
		if now := res.GetTiming(); err != nil || now.GetLease().AsDuration() != 20*time.Second || now.GetLeaseNext() != nil || now.GetRhoRising() {
			return fmt.Sprintf("in the end %v, %v", now, err)
		}
		return ""
	})
	for _, bad := range []*aliquotv1.SetTimingRequest{
		{Lease: durationpb.New(time.Second)}, {Lease: &durationpb.Duration{Nanos: -5, Seconds: 7}}, {Rho: new(float64)},
	} {
		if _, err := r.cluster.SetTiming(t.Context(), bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
