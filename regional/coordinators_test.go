package regional

import (
	"testing"
	"time"

	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestHellosAfterAnOutage: regions that have lost all coordinators come back one after the
// other, a few of them within a second; while one coordinator has not failed yet nobody waits.
func TestHellosAfterAnOutage(t *testing.T) {
	c := &coordinators{clients: make([]aliquotv1connect.LeaseServiceClient, 3)}
	for c.failures = range len(c.clients) {
		if wait := c.backoff(1000); wait != 0 {
			t.Errorf("after %d failures of 3: %v", c.failures, wait)
		}
	}
	c.failures = 1000
	for _, regions := range []int{0, 1, 3, 20, 100, 200, 1000} {
		longest := min(max(time.Second, time.Duration(regions)*helloEvery), spreadMost)
		perSecond := map[time.Duration]int{}
		for range regions {
			wait := c.backoff(regions)
			if wait < 500*time.Millisecond || wait > longest {
				t.Errorf("of %d regions one waits %v", regions, wait)
			}
			perSecond[wait/time.Second]++
		}
		// Far more than on average, which is nine standard deviations.
		if most := max(3*int(time.Second/helloEvery), regions/4); regions > 20 {
			for second, n := range perSecond {
				if n > most {
					t.Errorf("%d of %d Hellos in second %d", n, regions, second)
				}
			}
		}
	}
}

// TestHellosWaitLongerEachTime, from some milliseconds on, in a large cluster too.
func TestHellosWaitLongerEachTime(t *testing.T) {
	c := &coordinators{clients: make([]aliquotv1connect.LeaseServiceClient, 3)}
	before := time.Duration(0)
	for c.failures = 3; c.failures < 14; c.failures++ {
		most := time.Duration(0)
		for range 1000 {
			most = max(most, c.backoff(1000))
		}
		if c.failures == 3 && most > backoffFirst || most > spreadMost || most < before*3/4 {
			t.Errorf("after %d failures: %v, before %v", c.failures, most, before)
		}
		before = most
	}
	if before < spreadMost*9/10 {
		t.Errorf("after an outage: %v at most", before)
	}
}
