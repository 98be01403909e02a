package coordinator_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// TestRegionsComeAndGo: floors follow what operators say, through any node, and the
// bounds of all floors never sum above the whole.
func TestRegionsComeAndGo(t *testing.T) {
	t.Parallel()
	all := startCluster(t, 3)
	_, followers := split(t, all)
	r := followers[0]
	r.applyRules(t, someRules)
	usage := func(string, bool) []*aliquotv1.KeyReport { return nil }
	inBackground(t, usage, newRegion(r.lease, "us"), newRegion(r.lease, "eu"), newRegion(r.lease, "ap"))
	waitFloors(t, r, "us active 0.333 live", "eu active 0.333 live", "ap active 0.333 live")

	stranger := newRegion(r.lease, "sa")
	if err := stranger.sayHello(t.Context()); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("Hello of an undeclared region: %v", err)
	}
	added, err := r.regions.AddRegion(t.Context(), &aliquotv1.AddRegionRequest{Name: "sa"})
	if err != nil || added.GetRegion().GetStatus() != "joining" || added.GetRegion().GetFloor() != 0 {
		t.Fatalf("AddRegion: %v, %v", added, err)
	}
	// The change has ended the leader's epoch: the answer waits for the next one.
	if state := added.GetRegion().GetState(); state != "silent" {
		t.Errorf("a region that was added is %s, want silent: nobody has heard its daemon", state)
	}
	waitFloors(t, r, "us active 0.333 live", "sa joining 0.000 silent")
	inBackground(t, usage, stranger)
	waitFloors(t, r, "us active 0.250 live", "eu active 0.250 live", "ap active 0.250 live", "sa active 0.250 live")

	if _, err := r.regions.UpdateRegion(t.Context(), &aliquotv1.UpdateRegionRequest{Name: "sa", Weight: 2}); err != nil {
		t.Fatal(err)
	}
	waitFloors(t, r, "us active 0.200 live", "sa active 0.400 live")
	if _, err := r.regions.DrainRegion(t.Context(), &aliquotv1.DrainRegionRequest{Name: "us"}); err != nil {
		t.Fatal(err)
	}
	waitFloors(t, r, "us drained 0.000 live", "eu active 0.250 live", "sa active 0.500 live")
	if _, err := r.regions.FenceRegion(t.Context(), &aliquotv1.FenceRegionRequest{Name: "us"}); err != nil {
		t.Fatal(err)
	}
	waitFloors(t, r, "us fenced 0.000 silent")
	fenced := newRegion(r.lease, "us")
	eventually(t, func() string {
		err := fenced.sayHello(t.Context())
		if connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "aliquot region add us") {
			return fmt.Sprintf("Hello of a fenced region: %v", err)
		}
		return ""
	})
	if _, err := r.regions.AddRegion(t.Context(), &aliquotv1.AddRegionRequest{Name: "us"}); err != nil {
		t.Fatal(err)
	}
	waitFloors(t, r, "us active 0.200 live", "sa active 0.400 live")
	testRegionMistakes(t, r)
}

func testRegionMistakes(t *testing.T, r *running) {
	add := func(name string, weight int32) error {
		_, err := r.regions.AddRegion(t.Context(), &aliquotv1.AddRegionRequest{Name: name, Weight: weight})
		return err
	}
	update := func(name string, weight int32) error {
		_, err := r.regions.UpdateRegion(t.Context(), &aliquotv1.UpdateRegionRequest{Name: name, Weight: weight})
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		code connect.Code
		says string
	}{
		{"add one there is", add("us", 1), connect.CodeAlreadyExists, "takes part already"},
		{"a name with a path", add("../../x", 1), connect.CodeInvalidArgument, "lower-case"},
		{"half a megabyte", add(strings.Repeat("x", 1<<19), 1), connect.CodeInvalidArgument, "lower-case"},
		{"half a megabyte of an unknown one", update(strings.Repeat("x", 1<<19), 1), connect.CodeNotFound, "declared are"},
		{"no name", add("", 1), connect.CodeInvalidArgument, "lower-case"},
		{"a weight below 0", add("new", -1), connect.CodeInvalidArgument, "from 1 to 1000"},
		{"a huge weight", update("us", math.MaxInt32), connect.CodeInvalidArgument, "from 1 to 1000"},
		{"a weight of 0", update("us", 0), connect.CodeInvalidArgument, "from 1 to 1000"},
		{"an unknown region", update("mars", 1), connect.CodeNotFound, `declared are ["us" "eu" "ap" "sa"]`},
	} {
		if connect.CodeOf(c.err) != c.code || !strings.Contains(c.err.Error(), c.says) || len(c.err.Error()) > 1000 {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
}

// waitFloors waits until the regions named look as wanted: name, status, floor and
// state. Meanwhile the bounds never sum above the whole.
func waitFloors(t *testing.T, r *running, want ...string) {
	t.Helper()
	eventually(t, func() string {
		res, err := r.regions.ListRegions(t.Context(), &aliquotv1.ListRegionsRequest{})
		if err != nil {
			return err.Error()
		}
		var got []string
		sum := 0.0
		for _, region := range res.GetRegions() {
			got = append(got, fmt.Sprintf("%s %s %.3f %s", region.GetName(), region.GetStatus(), region.GetFloor(), region.GetState()))
			sum += region.GetFloorBound()
		}
		if sum > 1 {
			t.Fatalf("the bounds of the floors sum to %v: %v", sum, got)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(got, "\n"), w) {
				return fmt.Sprintf("want %q of %q", w, got)
			}
		}
		return ""
	})
}
