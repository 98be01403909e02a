package regional

import (
	"slices"
	"sync/atomic"
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

// slotNames gives names to the slots of concurrency limits: numbers above 0 and at most
// limit.MaxExact, each given once. A daemon counts up from a random number, so that the names of
// two daemons of one region, or of a daemon and its successor, do not collide. With a thousand
// million names used by each, the chance of a collision is below one in a million. Safe for
// concurrent use.
type slotNames struct{ last atomic.Uint64 }

func newSlotNames(incarnation uint64) *slotNames {
	var n slotNames
	n.last.Store(incarnation)
	return &n
}

func (n *slotNames) next() uint64 { return n.last.Add(1)%limit.MaxExact + 1 }

// wording holds the buffers of one store call. Nothing refers to them once the call has returned.
type wording struct {
	call  []lua.Group
	views []lua.KeyView
	seen  []observation
}

// callOf builds the store call of groups. The call has to leave at once. The result is valid until
// w is used again.
func (w *wording) callOf(head *header, groups []*group, slots *slotNames, local *localTable, now budget.Instant) []lua.Group {
	limits := 0
	for _, g := range groups {
		limits += len(g.asks)
	}
	w.call, w.views = slices.Grow(w.call[:0], len(groups))[:len(groups)], slices.Grow(w.views[:0], limits)[:limits]
	call, free := w.call, w.views
	for i, g := range groups {
		local.bring(head, g, now)
		views := free[:len(g.asks):len(g.asks)]
		free = free[len(g.asks):]
		for j := range g.asks {
			a := &g.asks[j]
			if a.limit.Algorithm == limit.Concurrency {
				a.slot = slots.next()
			}
			v := head.view(a)
			v.Chunk = a.asked
			a.floorCap, a.coldCap = v.Floor.Cap, v.Cold().Cap
			views[j] = lua.KeyView{Key: lua.Key(a.limit.Algorithm, a.key.Rule, a.key.Hash), View: v}
		}
		// A request's cost may exceed what a store counts if its limits have other units. One group
		// that is refused would fail the whole call.
		call[i] = lua.Group{Cost: min(g.cost, limit.MaxExact), Limits: views}
	}
	return call
}
