package check

import (
	"aliquot/budget"
	"aliquot/limit"
)

// record writes a record relative to the store's clock. Fractions of a micro-token are left out;
// the slack of the ideal bucket covers them.
func (x *writer) record(r limit.Record, now int64, sc *Scenario) {
	c := &x.canon
	c.Bools(r.Hot, r.Absent())
	if r.Absent() {
		return
	}
	c.Int(int64(r.Stamp))
	c.Int(int64(r.Tokens))
	c.Int(int64(r.Extra))
	if r.Hot && r.Tokens >= r.Share.Cap {
		x.age(now-r.At, sc) // the bucket is full
	} else {
		c.Int(now - r.At)
	}
	x.packed(r.Gen)
	x.bucket(r.Share)
	c.Int(int64(r.Lent))
	if r.Lent > 0 {
		c.Int(r.LentUntil - now)
	}
	if u := r.Use; u != nil {
		c.Int(max(u.Free-now, 0))
		c.Int(int64(u.Cur))
		c.Int(int64(u.Prev))
		c.Int(int64(u.Held))
		c.Int(u.Label)
		c.Int(u.HeldLabel)
		c.Int(int64(len(u.Entries)))
		for _, e := range u.Entries {
			c.Int(e.Until - now)
			c.Int(int64(e.Cost))
		}
	}
}

// packed writes a generation as stores have it; see budget.Gen.Pack.
func (x *writer) packed(gen uint64) {
	x.canon.Gen(budget.Gen{Epoch: gen >> 32, Counter: gen & (1<<32 - 1)})
}

func (x *writer) bucket(b limit.Bucket) {
	x.canon.Int(int64(b.Cap))
	x.canon.Int(b.Rate.Micro)
	x.canon.Int(b.Rate.Frac)
}

func (x *writer) storeCall(s *storeCall, region int, now int64) {
	c := &x.canon
	c.Incarnation(region, s.name)
	c.String(s.epoch)
	c.Bools(s.heard, s.take != nil, s.gaveUp)
	c.Int(s.deadline - now)
	c.Int(int64(s.age))
	c.Int(int64(len(s.changes)))
	for i := range s.changes {
		ch := &s.changes[i].change
		x.packed(ch.Gen)
		x.bucket(ch.Share)
		c.Int(int64(ch.Grant))
		c.Bools(ch.Cold)
		x.view(&ch.View, now)
	}
	if s.take != nil {
		x.view(s.take, now)
	}
	c.Bools(s.lend != nil)
	if s.lend != nil {
		x.view(&s.lend.view, now)
	}
}

// view writes a view that is in flight.
func (x *writer) view(v *limit.View, now int64) {
	c := &x.canon
	c.Bools(v.Hot, v.Blind, v.Until != 0, v.Since != 0, v.Birth != 0, v.FloorSince != 0)
	x.packed(v.Gen)
	x.packed(v.Known)
	for _, b := range [...]limit.Bucket{v.Share, v.Floor, v.Low, v.LimboFloor} {
		x.bucket(b)
	}
	c.Int(int64(v.Extra))
	c.Int(int64(v.Phase))
	for _, t := range [...]int64{v.Until, v.Since, v.Birth, v.FloorSince} {
		c.Int(t - now)
	}
	c.Int(v.HeardWait)
	c.Int(int64(v.Stamp))
	if l := &v.Chunk; l.Asked() {
		for _, amount := range [...]limit.Tokens{l.Was, l.Keep, l.Back, l.Want, l.Least} {
			c.Int(int64(amount))
		}
		if l.Was > 0 {
			c.Int(l.Until - now)
		}
	}
}
