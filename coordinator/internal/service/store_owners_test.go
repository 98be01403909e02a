package service

import "testing"

// One Redis for all regions is an easy mistake. The regions take from the same records then, and admit a fraction of
// each limit.
func TestRegionsThatShareAStoreAreTold(t *testing.T) {
	t.Parallel()
	var o storeOwners
	for i, c := range []struct{ region, contents, want string }{
		{"us", "n:r:1", ""},
		{"us", "n:r:1", ""}, // its second daemon
		{"eu", "n:r:1", "us"},
		{"us", "n:r:1", "eu"},
		{"ap", "n:r:1", "eu"},
		{"ap", "n:r:2", ""}, // it has a store of its own now
		{"eu", "", ""},      // its store has not answered yet
		{"us", "n:r:1", ""},
		{"eu", "", ""},
	} {
		if got := o.note(c.region, c.contents); got != c.want {
			t.Errorf("Hello %d, of %s with contents %q: shared with %q, want %q", i, c.region, c.contents, got, c.want)
		}
	}
}
