package service

import (
	"context"
	"sync"
	"sync/atomic"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/claims"
	"aliquot/coordinator/internal/leader"
	"aliquot/internal/place"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// places keeps the place of a region's daemon that has stopped, until any daemon of the region says Hello.
// A daemon that comes back and finds its place knows that no other one could spend for the region
// meanwhile. So what it remembers of its store still holds, even if the store has lost its contents.
//
// Places are replicated, so they outlive the leader. A leader keeps no place while it answers a Hello of
// the region, which may open another daemon's session. It is safe for concurrent use.
type places struct {
	node *cluster.Node

	mu       sync.Mutex
	byRegion map[string]*regionPlace
}

// regionPlace is the lock of one region's place. Hellos hold it for reading, and a call that keeps a place
// holds it for writing.
type regionPlace struct {
	sync.RWMutex
	// unsure: it is unknown whether a place was kept.
	unsure atomic.Bool
}

// byName returns the lock of a region's place.
func (p *places) byName(region string) *regionPlace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byRegion == nil {
		p.byRegion = map[string]*regionPlace{}
	}
	if p.byRegion[region] == nil {
		p.byRegion[region] = &regionPlace{}
	}
	return p.byRegion[region]
}

// keep keeps the place of a daemon that stops, if it has the region's session, no Hello is being answered, and no daemon
// without a store was told that the floor may be its own.
func (p *places) keep(ctx context.Context, loop *leader.Loop, region int, req *aliquotv1.ReportRequest, floors *claims.Floors) error {
	r := p.byName(req.GetRegion())
	if !r.TryLock() {
		return errPlaceWaits
	}
	defer r.Unlock()
	has := false
	err := loop.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		has = loop.Epoch() == req.GetEpoch() && m.Region(region, now, 0).Session == req.GetSession()
	})
	if err != nil {
		return err
	}
	if !has || floors.Claimed(req.GetRegion()) {
		return errNoPlace
	}
	r.unsure.Store(true)
	if err := p.node.KeepPlace(ctx, req.GetRegion(), req.GetPlace()); err != nil {
		return err
	}
	r.unsure.Store(false)
	return nil
}

// claim applies a Hello to the region's place, if there may be one. The caller holds r for reading.
func (p *places) claim(ctx context.Context, r *regionPlace, req *aliquotv1.HelloRequest) error {
	if !r.unsure.Load() && (p.keptPlace(req.GetRegion()) == place.Place{} || p.claimed(req)) {
		return nil
	}
	if err := p.node.ClaimPlace(ctx, req.GetRegion(), req.GetPlace(), req.GetIncarnation()); err != nil {
		return err
	}
	r.unsure.Store(false)
	return nil
}

// claimed reports whether the daemon that says Hello has its place. The caller calls it when the daemon's
// session is open: another daemon's Hello would have ended the place before its own session opened.
func (p *places) claimed(req *aliquotv1.HelloRequest) bool {
	return p.keptPlace(req.GetRegion()).HeldBy(req.GetPlace(), req.GetIncarnation())
}

// keptPlace returns the replicated place of a region; the zero value if there is none.
func (p *places) keptPlace(region string) (kept place.Place) {
	p.node.View(func(s *clusterstate.State) { kept = s.PlaceOf(region) })
	return kept
}
