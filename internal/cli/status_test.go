package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

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

// A leader that is new does not know until when a lease lasts, nor which rules a region has: 0 would be a lie. A region
// that is silent has no lease.
func TestRegionsOfANewLeader(t *testing.T) {
	regions := []*aliquotv1.Region{
		{Name: "us", Status: "active", State: "no_session", LeaseRemaining: durationpb.New(0)},
		{Name: "eu", Status: "active", State: "unknown", LeaseRemaining: durationpb.New(0)},
		{Name: "ap", Status: "active", State: "silent", LeaseRemaining: durationpb.New(0)},
		{Name: "sa", Status: "active", State: "no_session", LeaseRemaining: durationpb.New(0), RulesVersion: 7},
		{Name: "za", Status: "active", State: "live", LeaseRemaining: durationpb.New(9 * time.Second), RulesVersion: 7, Storeless: true},
	}
	var status, list bytes.Buffer
	printStatus(&status, &aliquotv1.GetStatusResponse{NodeId: "c1", State: "leader", LeaderId: "c1", Regions: regions})
	printDeclared(&list, regions...)
	for name, table := range map[string]string{"cluster status": status.String(), "region list": list.String()} {
		ends := map[string]string{}
		for _, line := range strings.Split(table, "\n") {
			if f := strings.Fields(line); len(f) > 2 {
				ends[f[0]] = strings.Join(f[len(f)-2:], " ")
			}
			if strings.HasPrefix(line, "za ") && !strings.Contains(line, " live (without its store) ") {
				t.Errorf("%s does not say that za is without its store: %s", name, line)
			}
		}
		for region, want := range map[string]string{"us": "? ?", "eu": "? ?", "ap": "0s 0", "sa": "? 7", "za": "9s 7"} {
			if ends[region] != want {
				t.Errorf("%s: %s ends with %q, want %q\n%s", name, region, ends[region], want, table)
			}
		}
	}
}
