package service

import (
	"maps"
	"slices"
	"sync"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

// daemons remembers the daemon of each region that last opened a session, when a daemon of it said Hello last, and
// which contents of a store each region named last, to find regions that share a store by mistake. The zero value
// knows of none. It is safe for concurrent use.
type daemons struct {
	mu       sync.Mutex
	byRegion map[string]regionDaemon
}

// regionDaemon is what the Hellos of a region have told.
type regionDaemon struct {
	address, opsAddress, version, contents string
	heardAt                                time.Time
}

// record records what a Hello tells that came at a time. The address counts only with a session. It returns the first
// other region, by name, that named the same contents; empty if none did. No region shares contents that are not known.
func (d *daemons) record(hello *aliquotv1.HelloRequest, session bool, at time.Time) (sharedWith string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byRegion == nil {
		d.byRegion = map[string]regionDaemon{}
	}
	seen := d.byRegion[hello.GetRegion()]
	seen.contents, seen.heardAt = hello.GetRedisEpoch(), at
	if session {
		seen.address, seen.opsAddress, seen.version = hello.GetAddress(), hello.GetOpsAddress(), hello.GetDaemonVersion()
	}
	d.byRegion[hello.GetRegion()] = seen
	return d.sharedWith(hello.GetRegion())
}

// describe adds what is remembered to a region.
func (d *daemons) describe(r *aliquotv1.Region) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.byRegion[r.GetName()]
	r.Address, r.OpsAddress, r.DaemonVersion = seen.address, seen.opsAddress, seen.version
	r.StoreSharedWith = d.sharedWith(r.GetName())
}

// heard reports whether a daemon of the region said Hello in the time before now.
func (d *daemons) heard(region string, now time.Time, within time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byRegion[region].heardAt
	return !at.IsZero() && now.Sub(at) < within
}

// sharedWith returns the first other region with the contents of region. The caller holds mu.
func (d *daemons) sharedWith(region string) string {
	contents := d.byRegion[region].contents
	if contents == "" {
		return ""
	}
	for _, other := range slices.Sorted(maps.Keys(d.byRegion)) {
		if other != region && d.byRegion[other].contents == contents {
			return other
		}
	}
	return ""
}
