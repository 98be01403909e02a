package service

import (
	"context"
	"sync"
	"sync/atomic"

	"aliquot/budget"
	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/internal/place"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// places keeps the place of a region's daemon that has stopped, until any daemon of the region says Hello.
// The daemon that comes back, and finds its place, knows that no other one could spend for the region
// meanwhile. What it remembers of its store then still holds, although the store has lost its contents.
//
// Places are replicated, so they outlive the leader. On one leader no place is kept while a Hello of the
// region is answered, which may open another daemon's session. It is safe for concurrent use.
type places struct {
	node *cluster.Node

	mu       sync.Mutex
	byRegion map[string]*regionPlace
}

// regionPlace orders what becomes of one region's place. Hellos hold it for reading, and the call that keeps a
// place for writing.
type regionPlace struct {
	sync.RWMutex
	// unsure: it is unknown whether a place was kept.
	unsure atomic.Bool
}

func (p *places) in(region string) *regionPlace {
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

// keep keeps the place of a daemon that stops, if it has the region's session and no Hello is being
// answered.
func (p *places) keep(ctx context.Context, loop *leader.Loop, region int, req *aliquotv1.ReportRequest) error {
	r := p.in(req.GetRegion())
	if !r.TryLock() {
		return nil
	}
	defer r.Unlock()
	has := false
	err := loop.Query(ctx, func(m *budget.Leader, now budget.Instant) {
		has = loop.Epoch() == req.GetEpoch() && m.Region(region, now, 0).Session == req.GetSession()
	})
	if err != nil || !has {
		return err
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
	if !r.unsure.Load() && (p.of(req.GetRegion()) == place.Place{} || p.claimed(req)) {
		return nil
	}
	if err := p.node.ClaimPlace(ctx, req.GetRegion(), req.GetPlace(), req.GetIncarnation()); err != nil {
		return err
	}
	r.unsure.Store(false)
	return nil
}

// claimed reports whether the daemon that says Hello has its place. It is asked when the session is open:
// another daemon's Hello has ended the place before it could open one.
func (p *places) claimed(req *aliquotv1.HelloRequest) bool {
	return p.of(req.GetRegion()).HeldBy(req.GetPlace(), req.GetIncarnation())
}

func (p *places) of(region string) (kept place.Place) {
	p.node.View(func(s *clusterstate.State) { kept = s.PlaceOf(region) })
	return kept
}
