package regional

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/rights"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/rules"
)

// header is the part that the views of one call to the store have in common. Limits with different
// tails may be in different phases, so each tail has a frame.
type header struct {
	epoch    string
	deadline int64
	at       budget.Instant // when the rights were read
	latest   budget.Instant // the deadline, on the daemon's clock
	turn     uint64         // the localTable's turn when the rights were read
	rho      int64          // in millionths
	frames   []framed
}

// framed is a frame with the right that it was made of, which belongs to no key.
type framed struct {
	tail  time.Duration
	right budget.Right
	frame rights.Frame
}

// of returns the frame of a tail, or nil if there is none yet.
func (h *header) of(tail time.Duration) *framed {
	for i := range h.frames {
		if h.frames[i].tail == tail {
			return &h.frames[i]
		}
	}
	return nil
}

// view returns an ask's right in the store's form.
func (h *header) view(a *ask) limit.View {
	f := &h.of(a.limit.Tail()).frame
	v := f.View(a.right, a.limit, a.enforcement == rules.Elastic)
	if a.changed != nil {
		f.Changed(&v, *a.changed, a.ruleSince, a.right, a.enforcement == rules.Elastic)
	}
	v.HeardWait = min(v.HeardWait, lua.HeardTTL.Microseconds())
	v.Deadline, v.Debit, v.Slot, v.Cost, v.Memory = h.deadline, a.carried.Amount, a.slot, a.cost, a.memory
	if a.limit.Algorithm == limit.Concurrency {
		v.Lasts = a.lasts.Microseconds()
	}
	return v
}

// wholeBucket returns a limit as one bucket, for a check of its range.
func wholeBucket(l budget.KeyLimit) limit.Bucket {
	return limit.Bucket{Cap: limit.Tokens(l.Capacity), Rate: limit.Rate{Micro: l.Rate, Frac: l.RateFrac}}
}
