package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
)

// Without the store the daemon holds a reservation in memory. When the store answers again, the daemon
// hands it over: first the debt of its limits is charged to the records, then the store remembers the
// reservation like any other. Only the store settles reservations, so each is settled once. A held
// reservation ends with the daemon, and so does its debt. If its holder settles it meanwhile, the daemon
// keeps the usage; see later.go.

const (
	// maxHeldLimits bounds the limits of all held reservations, about 500 bytes each. Beyond it a
	// request without the store has no reservation.
	maxHeldLimits = 32 << 10
	// handOverEvery is the interval at which held reservations are handed over.
	handOverEvery = time.Second
)

// held is a reservation that the store does not remember yet. It does not change.
type held struct {
	key         string
	reservation reservation
	since       emergency.Moment // a moment before its charge
	over        budget.Instant   // its end
}

// limits returns how much of maxHeldLimits a reservation takes.
func (h *held) limits() int { return 1 + len(h.reservation.Limits) }

// heldReservations are the held reservations by key. The zero value has none. Safe for concurrent
// use.
type heldReservations struct {
	some   atomic.Bool // there may be some
	mu     sync.Mutex
	byKey  map[string]*held
	limits int
}

// get returns the held reservation under a key, or nil.
func (t *heldReservations) get(key string) *held {
	if !t.some.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// all returns the held reservations.
func (t *heldReservations) all() (out []*held) {
	if !t.some.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.byKey {
		out = append(out, one)
	}
	return out
}

// add holds a reservation, if there is room. The caller holds mu.
func (t *heldReservations) add(one *held) bool {
	if t.limits+one.limits() > maxHeldLimits {
		return false
	}
	if t.byKey == nil {
		t.byKey = map[string]*held{}
	}
	t.byKey[one.key] = one
	t.limits += one.limits()
	t.some.Store(true)
	return true
}

// drop forgets the reservation under a key.
func (t *heldReservations) drop(key string) {
	if !t.some.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(key)
}

// remove is drop for a caller that holds mu.
func (t *heldReservations) remove(key string) {
	if one := t.byKey[key]; one != nil {
		delete(t.byKey, key)
		t.limits -= one.limits()
		t.some.Store(len(t.byKey) > 0)
	}
}

// hold decides groups without the store, and holds the reservation of an admitted request. Repeated
// requests with the same id are charged once. made becomes true if the store makes the reservation
// after all.
func (l *Engine) hold(groups []*charge.Transaction, one held, made *atomic.Bool, out *ReserveResult) error {
	l.Auth.HoldFloor() // before mu, as an answer of the store does that drops what is held
	defer l.Auth.ReleaseFloor()
	l.direct.held.mu.Lock()
	defer l.direct.held.mu.Unlock()
	if earlier := l.direct.held.byKey[one.key]; earlier != nil {
		return out.repeat(&earlier.reservation, &lua.Kept{}, one.reservation.Fingerprint)
	}
	one.since = l.emergency.Moment()
	l.fallBackAll(groups)
	ends := one.reservation.Ends
	if decides(groups) && !groups[0].Allowed {
		out.setMade(false, ends)
		return nil
	}
	ttl := time.Duration(one.reservation.TTL) * time.Microsecond
	one.over = l.Auth.Now().Add(ttl)
	one.reservation = one.reservation.describeWithout(out.Decision, groups, one.since.At)
	added := l.direct.held.add(&one)
	if made.Load() { // the store's answer came meanwhile, and found nothing held
		l.direct.held.remove(one.key)
	}
	out.setMade(added || made.Load(), ends)
	return nil
}

// describeWithout is describe for groups that were decided without the store. at is the time of the decision by
// the store's clock.
func (r reservation) describeWithout(d *charge.Decision, groups []*charge.Transaction, at int64) reservation {
	out := r.describe(d, groups)
	out.Without = true
	limits := out.Limits
	for _, g := range groups {
		for i := range g.Charges {
			l := &limits[0]
			limits = limits[1:]
			l.Before = &charge.ChargedBefore{At: at, Allowed: g.Allowed, Outcome: g.Out[i].Found}
			l.Open = g.Out[i].Mode == modes.FailOpen
			if l.Algorithm.Logs() {
				l.Before.At = 0 // a log charges what is owed when it is paid, so no entry has this time
			}
		}
	}
	out.Limits = append(out.Limits, shadowsBefore(d.Groups)...)
	return out
}

// markDecidedWithout makes the verdicts of groups those of a decision without the store.
func (r *reservation) markDecidedWithout(groups []*charge.Transaction) {
	limits := slices.DeleteFunc(slices.Clone(r.Limits), func(l reservedLimit) bool { return l.Never })
	for _, g := range groups {
		for i := range g.Out {
			v, open := &g.Out[i], limits[0].Open
			limits = limits[1:]
			v.Mode = modes.Emergency
			if open {
				v.Mode, v.Decision.Remaining = modes.FailOpen, charge.UnknownRemaining
			}
		}
	}
}

// HandOver hands held reservations over to the store while it answers, until ctx ends, and then once
// more.
func (l *Engine) HandOver(ctx context.Context) {
	tick := time.NewTicker(handOverEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.handOverAll(context.WithoutCancel(ctx))
			return
		case <-tick.C:
			l.handOverAll(ctx)
		}
	}
}

// handOverAll hands over what the store takes, and makes the settlements that are due. One node of the store that
// does not answer holds up only its own reservations.
func (l *Engine) handOverAll(ctx context.Context) {
	for _, one := range l.direct.held.all() {
		if now := l.Auth.Now(); now >= one.over.Add(keepReservation) {
			l.direct.held.drop(one.key)
			continue
		}
		if l.direct.guard.Silent() {
			return
		}
		if err := l.handOver(ctx, one); err != nil && !storeguard.InPart(err) {
			break
		}
	}
	l.settleDue(ctx)
}

// errForgotten: the store has lost the contents that a held reservation was charged in. It is no failure
// of the store.
var errForgotten = fmt.Errorf("%w: the store has lost what was reserved", lua.ErrInvalid)

// handOver makes the store remember a held reservation, and drops it. It also drops one whose contents
// the store has lost.
func (l *Engine) handOver(ctx context.Context, one *held) error {
	if groups := l.debtPeeks(one); len(groups) > 0 && l.emergency.Owes() {
		if err := l.unbatched(ctx, func(ctx context.Context) error {
			defer l.emergency.TurnOver(l.emergency.AwaitTurn(ctx, groups))
			return l.direct.decide(ctx, groups)
		}); err != nil {
			return err
		}
	}
	err := l.unbatched(ctx, func(ctx context.Context) error { return l.direct.storeHeld(ctx, one) })
	if err != nil && !errors.Is(err, errForgotten) && !errors.Is(err, errOtherStore) {
		return err
	}
	if slots := slotsOf(one.reservation.Limits); err == nil && len(slots) > 0 {
		l.direct.own.add(&ownReservation{key: one.key, slots: slots, over: one.over})
	}
	l.direct.held.drop(one.key)
	return nil
}

// debtPeeks returns peeks of the limits that a held reservation was charged to. Their call carries the
// debt of these limits.
func (l *Engine) debtPeeks(one *held) (out []*charge.Transaction) {
	p := l.Policies.At(time.Now().UnixMilli())
	for i := range one.reservation.Limits {
		part := &one.reservation.Limits[i]
		if part.Never || part.Open {
			continue
		}
		if a, ok := one.reservation.current(part, p, l.Auth.Now()); ok {
			out = append(out, &charge.Transaction{Cost: a.Cost, Peek: true, Charges: []charge.Charge{a, blockerOf(&a)}})
		}
	}
	return out
}

// storeHeld makes the store remember a held reservation.
func (a *storeClient) storeHeld(ctx context.Context, one *held) error {
	left := one.over.Sub(a.auth.Now())
	var found reserveAnswer
	var made atomic.Bool
	return a.reserve(ctx, nil, one.key, max(time.Millisecond, left+keepReservation), func([]*charge.Transaction) (string, error) {
		stands, same := a.emergency.Stands(one.since)
		if !stands && len(one.reservation.Limits) > 0 {
			return "", errForgotten
		}
		a.emergency.Hands()
		r := one.reservation
		r.TTL, r.Limits = left.Microseconds(), slices.Clone(r.Limits)
		for i := range r.Limits {
			if before := r.Limits[i].Before; before != nil && !same {
				other := *before
				other.At = 0 // by the clock of other contents
				r.Limits[i].Before = &other
			}
		}
		text, err := json.Marshal(r)
		return string(text), err
	}, &found, &made)
}
