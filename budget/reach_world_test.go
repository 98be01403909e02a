package budget

import (
	"testing"
	"time"

	"aliquot/internal/hashslot"
)

// parted is a world of several keys. Each store consists of several servers, and each key is on its
// own server.
type parted struct {
	*world
	keys []KeyID
	// down are the keys that a region's store does not reach. reached then decides whether a change
	// that fails was still made.
	down    []map[KeyID]bool
	reached func() bool
	made    []map[KeyID]record
	// demand is what a region offers of a key each tick, whole requests.
	demand []map[KeyID]int64
	opened []int // sessions of each region
	last   []SessionID
}

// record is what a store remembers of a key.
type record struct {
	gen   Gen
	share Share
}

func newParted(t *testing.T, regions, keys int) *parted {
	p := &parted{world: newWorld(t, regions), opened: make([]int, regions), last: make([]SessionID, regions)}
	p.reached = func() bool { return false }
	for k := range keys {
		p.keys = append(p.keys, KeyID{Rule: 1, Hash: [16]byte{0: byte(k)}})
	}
	for range regions {
		p.down = append(p.down, map[KeyID]bool{})
		p.made = append(p.made, map[KeyID]record{})
		p.demand = append(p.demand, map[KeyID]int64{})
	}
	p.world.records = p.change
	p.elect()
	return p
}

// change returns a store's result for a change of a share. A record of a later generation stays.
func (p *parted) change(i int, c ShareChange) ShareResult {
	lost := p.down[i][c.Key]
	if lost && !p.reached() {
		return ShareResult{Key: c.Key, Failed: true}
	}
	stale := !p.made[i][c.Key].gen.Before(c.Gen)
	if !stale {
		p.made[i][c.Key] = record{c.Gen, c.Share}
	}
	return ShareResult{Key: c.Key, Failed: lost || stale}
}

// lose lets a region's store reach all keys but these.
func (p *parted) lose(i int, keys ...KeyID) {
	p.down[i] = map[KeyID]bool{}
	for _, k := range keys {
		p.down[i][k] = true
	}
}

// name lets a region's daemon learn what its store does not reach.
func (p *parted) name(i int, keys ...KeyID) {
	var unreached *hashslot.Set
	for _, k := range keys {
		if unreached == nil {
			unreached = &hashslot.Set{}
		}
		unreached.Add(hashslot.OfHash(k.Hash))
	}
	p.regions[i].Step(StoreReach{unreached}, p.now)
}

// pass lets d pass with the demand. At each tick it checks that what all regions may enforce of a
// key sums to at most the whole.
func (p *parted) pass(d time.Duration) {
	p.t.Helper()
	for range d / tick {
		for i, r := range p.regions {
			for _, k := range p.keys {
				for range p.demand[i][k] {
					u := Usage{Limit: p.limit, Cost: microToken, FloorCap: 1, ColdCap: 1}
					r.Observe(k, u, p.now)
				}
			}
			if s := r.Session(); s != (SessionID{}) && s != p.last[i] {
				p.last[i] = s
				p.opened[i]++
			}
		}
		p.run(tick)
		for _, k := range p.keys {
			var sum Share
			for i := range p.regions {
				sum = sum.Add(p.enforced(i, k))
			}
			if !sum.Within(Share{Unit, Unit}) {
				p.t.Fatalf("%v of key %x may be enforced at %v", sum, k.Hash[0], p.now)
			}
		}
	}
}

// enforced returns the most that a region may admit of a key: what its daemon believes, while the
// store does not answer, or what the store makes of that (limit.Record.obey).
func (p *parted) enforced(i int, k KeyID) Share {
	right := p.regions[i].Right(k, p.limit, p.now)
	believed, has := right.Effective(), p.made[i][k]
	inStore, unheard := believed, right.Watermark.Before(has.gen)
	switch {
	case has.gen == (Gen{}):
	case !right.Hot && (right.Phase == Limbo || unheard), right.Gen.Before(has.gen) && right.Phase != Live:
		inStore = has.share.Min(right.Floor)
	case right.Hot && right.Gen.Before(has.gen):
		inStore = has.share
		if !unheard || has.gen.Epoch != right.Watermark.Epoch {
			inStore = has.share.Min(right.Share)
		}
	}
	if right.Blind {
		return inStore // until its first session a daemon has only the records to decide by
	}
	return believed.Max(inStore)
}

// share returns a region's part of the rate of a key, in per mille.
func (p *parted) share(i int, k KeyID) int64 {
	return int64(p.regions[i].Right(k, p.limit, p.now).Effective().Rate) * 1000 / Unit
}

// within lets time pass until something holds.
func (p *parted) within(what string, d time.Duration, ok func() bool) {
	p.t.Helper()
	for end := p.now.Add(d); !ok(); p.pass(tick) {
		if p.now >= end {
			p.t.Fatalf("%s: not within %v", what, d)
		}
	}
}
