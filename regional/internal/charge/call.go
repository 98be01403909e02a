package charge

import (
	"encoding/base64"
	"slices"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/lua"
)

// Header is the part that the views of one call to the store have in common. Limits with different
// tails may be in different phases, so each tail has a frame.
type Header struct {
	Epoch    string
	Deadline int64
	At       budget.Instant // when the rights were read
	Latest   budget.Instant // the deadline, on the daemon's clock
	Resets   uint64         // Table.Resets when the rights were read
	Rho      int64          // in millionths
	Frames   []Framed
}

// Framed is a frame with the right that it was made of, which belongs to no key.
type Framed struct {
	Tail  time.Duration
	Right budget.Right
	Frame entitlement.Frame
}

// Of returns the frame of a tail, or nil if there is none yet.
func (h *Header) Of(tail time.Duration) *Framed {
	for i := range h.Frames {
		if h.Frames[i].Tail == tail {
			return &h.Frames[i]
		}
	}
	return nil
}

// View returns a charge's right in the store's form.
func (h *Header) View(a *Charge) limit.View {
	f := &h.Of(a.Limit.Tail()).Frame
	v := f.View(a.Right, a.Limit, a.Elastic())
	if a.Changed != nil {
		f.Changed(&v, *a.Changed, a.RuleSince, a.Right, a.Elastic())
		if a.Held != nil {
			entitlement.Held(&v, *a.Changed, a.Held.Amount, a.Held.At)
		}
	}
	v.HeardWait = min(v.HeardWait, lua.HeardTTL.Microseconds())
	v.Deadline, v.Slot, v.Cost, v.Memory = h.Deadline, a.Slot, a.Cost, a.Memory
	if a.Carried != nil {
		v.Debit, v.Held = a.Carried.Amount, a.Carried.Held
	}
	if a.Limit.Algorithm == limit.Concurrency {
		v.Lasts = a.Lasts.Microseconds()
	}
	return v
}

// SlotNames gives names to the slots of concurrency limits: numbers above 0 and at most
// limit.MaxExact, each given once. A daemon counts up from a random number, so that the names of
// two daemons of one region, or of a daemon and its successor, do not collide. With a thousand
// million names used by each, the chance of a collision is below one in a million. Safe for
// concurrent use.
type SlotNames struct{ last atomic.Uint64 }

// NewSlotNames returns names that begin at a daemon's random number.
func NewSlotNames(incarnation uint64) *SlotNames {
	var n SlotNames
	n.last.Store(incarnation)
	return &n
}

// Next returns a name that was not given before.
func (n *SlotNames) Next() uint64 { return n.last.Add(1)%limit.MaxExact + 1 }

// Name gives a name to each slot that the groups want and that has none. A slot keeps its name when
// its request is sent again or decided without the store. So it counts as one slot everywhere.
func (n *SlotNames) Name(groups []*Transaction) {
	for _, g := range groups {
		for i := range g.Charges {
			if a := &g.Charges[i]; a.Limit.Algorithm == limit.Concurrency && a.Slot == 0 {
				a.Slot = n.Next()
			}
		}
	}
}

// CallBuffer holds the buffers of one store call. Nothing refers to them once the call has returned.
type CallBuffer struct {
	call  []lua.Group
	Views []lua.KeyView
	Seen  []Observation
}

// CallOf builds the store call of groups, after Table.Checkout. The result is valid until w is used again.
func (w *CallBuffer) CallOf(head *Header, groups []*Transaction, slots *SlotNames) []lua.Group {
	limits := 0
	for _, g := range groups {
		limits += len(g.Charges)
	}
	w.call, w.Views = slices.Grow(w.call[:0], len(groups))[:len(groups)], slices.Grow(w.Views[:0], limits)[:limits]
	call, free := w.call, w.Views
	for i, g := range groups {
		views := free[:len(g.Charges):len(g.Charges)]
		free = free[len(g.Charges):]
		for j := range g.Charges {
			a := &g.Charges[j]
			if a.Limit.Algorithm == limit.Concurrency && a.Slot == 0 {
				a.Slot = slots.Next()
			}
			v := head.View(a)
			v.Chunk = a.Chunk
			a.FloorCap, a.ColdCap = v.Floor.Cap, v.Cold().Cap
			views[j] = lua.KeyView{Key: lua.Key(a.Limit.Algorithm, a.Key.Rule, a.Key.Hash), View: v}
		}
		// A request's cost may exceed what a store counts if its limits have other units. One group
		// that is refused would fail the whole call.
		call[i] = lua.Group{Cost: min(g.Cost, limit.MaxExact), Limits: views}
	}
	return call
}

// HashText returns a key's hash as people see it and as it is in the names of Redis keys.
func HashText(hash [16]byte) string { return base64.RawURLEncoding.EncodeToString(hash[:]) }
