package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
)

// A reservation that is settled while the store does not answer is settled later: the daemon keeps the
// usage, and settles once when the store answers. The slots of the reservation are free at once, because
// its holder has given them back. The daemon does so for the reservations that it holds, and for those
// with slots that it has made. It forgets them when it ends; then the caller has to settle again, as for
// any other reservation.

// ownReservation is a reservation of this daemon.
type ownReservation struct {
	key   string
	slots []reservedLimit // its limits that have slots
	over  budget.Instant  // its end
	// usage is what is to be settled later; nil: nothing yet.
	usage *Usage
}

// limits returns how much of maxHeldLimits a reservation takes.
func (k *ownReservation) limits() int { return 1 + len(k.slots) }

// ownReservations are the reservations of this daemon by key. The zero value has none. Safe for
// concurrent use.
type ownReservations struct {
	some   atomic.Bool // there may be some
	mu     sync.Mutex
	byKey  map[string]*ownReservation
	limits int
}

// add remembers a reservation, if there is room and it is not known already.
func (t *ownReservations) add(one *ownReservation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[one.key] != nil || t.limits+one.limits() > maxHeldLimits {
		return
	}
	if t.byKey == nil {
		t.byKey = map[string]*ownReservation{}
	}
	t.byKey[one.key] = one
	t.limits += one.limits()
	t.some.Store(true)
}

// drop forgets the reservation under a key.
func (t *ownReservations) drop(key string) {
	if !t.some.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(key)
}

// remove is drop for a caller that holds mu.
func (t *ownReservations) remove(key string) {
	if one := t.byKey[key]; one != nil {
		delete(t.byKey, key)
		t.limits -= one.limits()
		t.some.Store(len(t.byKey) > 0)
	}
}

// setUsage sets what is to be settled later of a reservation. The first call returns the reservation's
// slots; a further call changes nothing.
func (t *ownReservations) setUsage(key string, usage Usage) (slots []reservedLimit, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byKey[key]
	if one == nil {
		return nil, false
	}
	if one.usage == nil {
		one.usage, slots = &usage, one.slots
	}
	return slots, true
}

// settlesLater reports whether a reservation is to be settled later.
func (t *ownReservations) settlesLater(key string) bool {
	if !t.some.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byKey[key]
	return one != nil && one.usage != nil
}

// due returns the reservations that are to be settled, and forgets those that are over.
func (t *ownReservations) due(now budget.Instant) (out []ownReservation) {
	if !t.some.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, one := range t.byKey {
		switch {
		case one.usage == nil && now >= one.over, now >= one.over.Add(keepReservation):
			t.remove(key)
		case one.usage != nil:
			out = append(out, *one)
		}
	}
	return out
}

// slotsOf returns the limits of a reservation that have slots, which its holder gives back.
func slotsOf(limits []reservedLimit) (out []reservedLimit) {
	for i := range limits {
		if l := &limits[i]; l.Algorithm == limit.Concurrency && l.Slot != 0 && !l.Never && !l.Open {
			out = append(out, *l)
		}
	}
	return out
}

// recordSlots remembers a reservation that the store has made, if it has slots.
func (a *storeClient) recordSlots(key string, groups []*charge.Transaction, results []lua.Result, now budget.Instant) {
	var slots []reservedLimit
	ttl := time.Duration(0)
	for i, g := range groups {
		for j := range g.Charges {
			if c := &g.Charges[j]; c.Limit.Algorithm == limit.Concurrency && results[i].Allowed {
				slots, ttl = append(slots, newReservedLimit(c)), c.Lasts
			}
		}
	}
	if len(slots) > 0 {
		a.own.add(&ownReservation{key: key, slots: slots, over: now.Add(ttl)})
	}
}

// settleLater keeps a settlement that the store did not make, if the reservation is one of this daemon.
// Its slots are free from now on.
func (l *Engine) settleLater(key string, usage Usage) bool {
	if one := l.direct.held.get(key); one != nil {
		l.direct.own.add(&ownReservation{key: key, slots: slotsOf(one.reservation.Limits), over: one.over})
	}
	slots, known := l.direct.own.setUsage(key, usage)
	for i := range slots {
		if a, err := slots[i].toCharge(); err == nil {
			l.emergency.Release(&a)
		}
	}
	return known
}

// errSettledLater adds to the error of a failed settlement that the daemon makes it later.
func errSettledLater(err error) error {
	return fmt.Errorf("%w; it will be made as you said when the store answers, and its slots are free", err)
}

// settleDue makes the settlements that are due, one after the other, until the store fails. One node of it that
// does not answer holds up only its own. Callers who settle
// again meanwhile do not reach the store: after an outage there may be thousands of them at once.
func (l *Engine) settleDue(ctx context.Context) {
	for _, one := range l.direct.own.due(l.Auth.Now()) {
		if l.direct.guard.Breaker.Open.Load() {
			return
		}
		p := l.Policies.At(time.Now().UnixMilli())
		if p.Hasher == nil || p.Set == nil {
			return
		}
		_, err := l.settleNow(ctx, p, one.key, *one.usage)
		switch failure, failed := errors.AsType[*unsettled](err); {
		case failed && storeguard.InPart(failure.cause):
			continue
		case errors.Is(err, ErrNotSettled):
			return
		}
		l.direct.own.drop(one.key)
	}
}
