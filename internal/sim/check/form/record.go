package form

import (
	"aliquot/budget"
	"aliquot/limit"
)

// Record writes a record relative to the store's clock. Fractions of a micro-token are left out;
// the checker allows for them.
func (x *Writer) Record(r limit.Record, now int64) {
	c := &x.Canon
	c.Bools(r.Hot, r.Absent())
	if r.Absent() {
		return
	}
	c.Int(int64(r.Stamp))
	c.Int(int64(r.Tokens))
	c.Int(int64(r.Extra))
	if r.Hot && r.Tokens >= r.Share.Cap {
		x.Age(now - r.At) // the bucket is full
	} else {
		c.Int(now - r.At)
	}
	x.Packed(r.Gen)
	x.Bucket(r.Share)
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

// Packed writes a generation as stores have it; see budget.Gen.Pack.
func (x *Writer) Packed(gen uint64) {
	x.Canon.Gen(budget.Gen{Epoch: gen >> 32, Counter: gen & (1<<32 - 1)})
}

// Bucket writes a bucket.
func (x *Writer) Bucket(b limit.Bucket) {
	x.Canon.Int(int64(b.Cap))
	x.Canon.Int(b.Rate.Micro)
	x.Canon.Int(b.Rate.Frac)
}

// View writes a view that is in flight.
func (x *Writer) View(v *limit.View, now int64) {
	c := &x.Canon
	c.Bools(v.Hot, v.Blind, v.Until != 0, v.Since != 0, v.Birth != 0, v.FloorSince != 0)
	x.Packed(v.Gen)
	x.Packed(v.Known)
	for _, b := range [...]limit.Bucket{v.Share, v.Floor, v.Low, v.LimboFloor} {
		x.Bucket(b)
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
