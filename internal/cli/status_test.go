package cli

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// A status without a leader says that the regions serve on.
func TestStatusWithoutALeader(t *testing.T) {
	var out bytes.Buffer
	printStatus(&out, &aliquotv1.GetStatusResponse{NodeId: "c1", State: "follower", Regions: []*aliquotv1.Region{{Name: "us-east", State: "unknown", LeaseRemaining: durationpb.New(0)}}})
	if !strings.Contains(out.String(), "leader none") || !strings.Contains(out.String(), "us-east  serving alone") || strings.Contains(out.String(), "unknown") {
		t.Errorf("%s", out.String())
	}
}
