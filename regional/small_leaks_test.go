package regional

import (
	"strings"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/policy"
)

// TestFloorsThatSumAboveTheLimitAreRefused, from a coordinator or a state file.
func TestFloorsThatSumAboveTheLimitAreRefused(t *testing.T) {
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	c := policy.Cluster{ClusterID: "c", Lease: time.Second, Secret: []byte("s"), Regions: []policy.Region{
		{Name: "a", Floor: half, Low: half}, {Name: "b", Floor: half, Low: half},
	}}
	if err := c.Check("a"); err != nil {
		t.Errorf("halves: %v", err)
	}
	c.Regions[1].Floor.Rate++
	if err := c.Check("a"); err == nil || !strings.Contains(err.Error(), "sum above") {
		t.Errorf("more than halves: %v", err)
	}
}
