package site

import (
	"aliquot/internal/sim/oracle"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// Part is a part of a limit.
type Part struct{ Burst, Rate float64 }

func partOf(b limit.Bucket, l limit.Limit) Part {
	p := Part{Burst: float64(b.Cap) / float64(l.Capacity)}
	if !l.Algorithm.Counts() {
		p.Rate = (float64(b.Rate.Micro) + float64(b.Rate.Frac)/1e6) / float64(l.Rate.Micro)
	}
	return p
}

// Enforced returns the most that any daemon of a region could make its store enforce. If the
// store's clock was set forward since a daemon read it, the store would refuse that daemon's calls.
// Such a daemon enforces nothing until it has been refused and has read the clock again.
func (w *Regions) Enforced(region int, r *rule.Rule) Part {
	var most Part
	s := w.Stores[region]
	for _, n := range w.Nodes {
		if n.Region != region || n.Dead || n.paused() || n.forgiven() || n.epoch == "" || n.epoch != s.epoch || s.promoted() || !n.configured() || n.staleFloors() || !r.InForce(n.Version) {
			continue
		}
		l := r.At(n.Version, n.Wall())
		v := n.view(n.Machine.Right(r.Key, r.KeyLimit(l), n.Now()), r, l)
		if n.refused() {
			continue
		}
		v.Heard = s.heardBy(&v)
		record := s.Get(r)
		_, b, _ := limit.Settle(record, v, s.Time())
		if record.Hot && !(v.Hot && v.Gen == record.Gen) {
			// The record's share may be of another limit than this daemon's.
			l = oracle.Larger(l, s.records[r.Index].limit)
		}
		p := partOf(b, l)
		most.Burst, most.Rate = max(most.Burst, p.Burst), max(most.Rate, p.Rate)
	}
	return most
}
