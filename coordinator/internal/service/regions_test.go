package service

import (
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/coordinator/internal/daemons"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// A region whose store does not answer says Hello again and again, and gets no session: it is not silent.
func TestARegionThatIsHeardIsNotSilent(t *testing.T) {
	t.Parallel()
	var seen daemons.Seen
	now := time.Unix(1_000_000, 0)
	seen.Hello(&aliquotv1.HelloRequest{Region: "us"}, false, now)
	for _, c := range []struct {
		name   string
		region *aliquotv1.Region
		known  budget.RegionStatus
		after  time.Duration
		want   string
	}{
		{"never heard", &aliquotv1.Region{Name: "eu"}, budget.RegionStatus{}, 0, StateSilent},
		{"heard", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{LeaseRemaining: time.Second}, 9 * time.Second, stateNoSession},
		{"heard a lease ago", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{}, 10 * time.Second, StateSilent},
		{"a session that is being opened", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{Session: 7}, time.Minute, stateNoSession},
		{"cut off, a moment before its lease ends", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{Session: 7, LeaseRemaining: time.Millisecond}, time.Minute, StateSilent},
		{"live", &aliquotv1.Region{Name: "us"}, budget.RegionStatus{Session: 7, Live: true}, time.Minute, StateLive},
		{"fenced a moment ago", &aliquotv1.Region{Name: "us", Status: statusFenced}, budget.RegionStatus{}, time.Second, StateSilent},
	} {
		describe(c.region, c.known, seen.Heard(c.region.Name, now.Add(c.after), 10*time.Second))
		if c.region.State != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.region.State, c.want)
		}
	}
}

// A region shares a store with others from the moment in which it is declared until it is fenced or has nothing left.
func TestRegionsThatTakePart(t *testing.T) {
	c := budget.NewConfig([]string{"us", "eu", "drained", "draining", "fenced"}, 10*time.Second, 20_000)
	for i, r := range c.Regions {
		if i >= 2 {
			c.Regions[i].Weight = 0
		}
		if r.Name == "drained" {
			c.Regions[i].Floor, c.Regions[i].Told = budget.Share{}, budget.Share{}
		}
		c.Regions[i].Fenced = r.Name == "fenced"
	}
	c.Regions = append(c.Regions, budget.RegionConfig{Name: "added", Weight: 1})
	if got, want := takingPart(&c), []string{"added", "draining", "eu", "us"}; !slices.Equal(got, want) {
		t.Errorf("%q take part, want %q", got, want)
	}
}
