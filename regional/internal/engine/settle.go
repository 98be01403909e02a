package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/storeguard"
)

// The reasons why a reservation could not be settled.
var (
	ErrNoReservation = errors.New("no such reservation in this region: it was never made or denied, another region made it, it is long over, or this is not the id that Reserve answered")
	ErrNotSettled    = errors.New("the reservation could not be settled now; call again, that changes nothing twice")
)

// settleTries is how often a settlement is tried if other calls change the same reservation first.
// One of them has ended it, which the next read shows.
const settleTries = 3

// Usage is the use that the caller of Settle reports. For a part that it leaves out, the estimate
// counts.
type Usage struct {
	Cost  *int64
	Costs map[string]int64
}

// The states of a settled reservation, under their names in the API.
const (
	StateSettled = "settled"
	StateAlready = "already_settled"
	StateExpired = "expired"
)

// SettledResult is the result of a settlement. Its notes are parallel to the reservation's limits.
type SettledResult struct {
	State       string
	reservation reservation
	notes       []settledLimit
	adjusted    []limit.Adjusted // of the limits that are parts of the settlement
}

// settledPart is a limit of a settled reservation, with what was reserved and used of it, and what the
// settlement gave back or charged, in tokens.
type settledPart struct {
	Rule, Unit                        string
	Reserved, Used, Refunded, Charged int64
}

// Parts returns the limits of the reservation. Nothing is refunded or charged for a limit whose rule
// is gone.
func (r *SettledResult) Parts() (out []settledPart) {
	adjusted := r.adjusted
	for i := range r.reservation.Limits {
		l := &r.reservation.Limits[i]
		if l.Never || i >= len(r.notes) {
			continue
		}
		one := settledPart{Rule: l.Rule, Unit: l.Unit, Reserved: int64(l.Cost / limit.Token), Used: r.notes[i].Used}
		if r.notes[i].Part && len(adjusted) > 0 {
			one.Refunded, one.Charged = int64(adjusted[0].Refunded/limit.Token), int64(adjusted[0].Charged/limit.Token)
			adjusted = adjusted[1:]
		}
		out = append(out, one)
	}
	return out
}

// Settle ends a reservation with what was used. Its errors are ErrNoReservation and ErrNotSettled. If the
// store does not answer, the daemon settles a reservation of its own later.
func (l *Engine) Settle(ctx context.Context, namespace, id string, usage Usage) (SettledResult, error) {
	p := l.Policies.At(time.Now().UnixMilli())
	if p.Hasher == nil || p.Set == nil {
		return SettledResult{}, fmt.Errorf("%w: this region knows no rules yet", ErrNotSettled)
	}
	key := ReservationKey(p.Hasher, namespace, id)
	if l.direct.own.settlesLater(key) {
		return SettledResult{}, errSettledLater(ErrNotSettled)
	}
	out, err := l.settleNow(ctx, p, key, usage)
	switch {
	case !errors.Is(err, ErrNotSettled):
		l.direct.own.drop(key)
	case l.settleLater(key, usage):
		return out, errSettledLater(err)
	}
	return out, err
}

// settleNow is Settle of the reservation under a key of the store.
func (l *Engine) settleNow(ctx context.Context, p *policy.Policy, key string, usage Usage) (SettledResult, error) {
	if one := l.direct.held.get(key); one != nil {
		if err := l.handOver(ctx, one); err != nil {
			return SettledResult{}, &unsettled{err}
		}
	}
	for range settleTries {
		kept, err := l.readReservation(ctx, key)
		if err != nil {
			return SettledResult{}, &unsettled{err}
		}
		if kept == nil {
			return SettledResult{}, ErrNoReservation
		}
		out, changed, err := l.settleRead(ctx, p, key, kept, usage)
		if err != nil {
			return SettledResult{}, &unsettled{err}
		}
		if !changed {
			return out, nil
		}
	}
	return SettledResult{}, ErrNotSettled
}

// unsettled is ErrNotSettled by a failure of the store. The client sees the kind of the failure, but not
// the store's text, which may contain addresses and keys.
type unsettled struct{ cause error }

func (e *unsettled) Error() string {
	return fmt.Sprintf("%v (%s)", ErrNotSettled, storeguard.Reason(e.cause))
}
func (e *unsettled) Unwrap() error { return ErrNotSettled }

// settleRead settles a reservation that was read from the store. changed: it has changed there since
// then, and nothing was settled.
func (l *Engine) settleRead(ctx context.Context, p *policy.Policy, key string, kept *lua.Kept, usage Usage) (out SettledResult, changed bool, err error) {
	if out.reservation, err = parseReservation(kept); err != nil {
		return out, false, err
	}
	if kept.Settled {
		out.State, out.adjusted = StateAlready, kept.Adjusted
		err = json.Unmarshal([]byte(kept.Note), &out.notes)
		return out, false, err
	}
	charged, err := out.reservation.charged(kept)
	if err != nil {
		return out, false, err
	}
	parts := &charge.Transaction{}
	var used []limit.Tokens
	out.notes = make([]settledLimit, len(out.reservation.Limits))
	for i := range out.reservation.Limits {
		one := &out.reservation.Limits[i]
		out.notes[i].Used = one.used(usage)
		a, ok := out.reservation.current(one, p, l.Auth.Now())
		if !ok || !charged[i] {
			continue
		}
		out.notes[i].Part = true
		parts.Charges = append(parts.Charges, a)
		// A use beyond the store's largest number is beyond any debt too.
		used = append(used, min(limit.Tokens(out.notes[i].Used)*limit.Token, limit.MaxExact))
	}
	note, err := json.Marshal(out.notes)
	if err != nil {
		return out, false, err
	}
	end := lua.Settlement{Key: key, Was: kept, Ends: kept.At + out.reservation.TTL, Note: string(note)}
	done, err := l.settleParts(ctx, parts, used, out.reservation.charges(out.notes, kept.At), end)
	switch {
	case err != nil || done.Changed:
		return out, done.Changed, err
	case done.Expired:
		out.State = StateExpired
		for i := range out.notes {
			out.notes[i] = settledLimit{Used: int64(out.reservation.Limits[i].Cost / limit.Token)}
		}
		return out, false, nil
	}
	out.State, out.adjusted = StateSettled, done.Adjusted
	return out, false, nil
}

// charged returns, for each limit, whether it was charged: all limits that can deny, and the shadow
// limits that held the cost.
func (r *reservation) charged(kept *lua.Kept) ([]bool, error) {
	groups, _, _, err := r.groupsOf()
	if err != nil {
		return nil, err
	}
	results, err := resultsOf(kept, groups)
	if err != nil {
		return nil, err
	}
	var allowed []bool
	for i, g := range groups {
		for range g.Charges {
			allowed = append(allowed, results[i].Allowed)
		}
	}
	out := make([]bool, len(r.Limits))
	for i := range r.Limits {
		if !r.Limits[i].Never {
			out[i], allowed = allowed[0] && !r.Limits[i].Open, allowed[1:]
		}
	}
	return out, nil
}

// chargedAt says when a part was charged, by the store's clock, and the limit's window at that time.
type chargedAt struct{ at, window int64 }

// charges returns the charges of the limits that are parts of the settlement. at is the time of the
// reservation.
func (r *reservation) charges(notes []settledLimit, at int64) (out []chargedAt) {
	for i := range r.Limits {
		l := &r.Limits[i]
		if !notes[i].Part {
			continue
		}
		one := chargedAt{at: at, window: l.Window.Microseconds()}
		if l.Before != nil {
			one.at = l.Before.At
		}
		out = append(out, one)
	}
	return out
}

// readReservation returns the reservation under a key of the store, and waits as long as a check
// would; nil: there is none.
func (l *Engine) readReservation(ctx context.Context, key string) (*lua.Kept, error) {
	return callUnbatched(ctx, l, func(ctx context.Context) (*lua.Kept, error) { return l.direct.readReservation(ctx, key) })
}

// settleParts makes a settlement, and waits as long as a check would. After an error the store may
// have made it, which the next read shows. The arguments may still be in use then.
func (l *Engine) settleParts(ctx context.Context, parts *charge.Transaction, used []limit.Tokens, charges []chargedAt, end lua.Settlement) (lua.Settled, error) {
	return callUnbatched(ctx, l, func(ctx context.Context) (lua.Settled, error) {
		defer l.emergency.TurnOver(l.emergency.AwaitTurn(ctx, []*charge.Transaction{parts}))
		return l.direct.settle(ctx, parts, used, charges, end)
	})
}

// readReservation reads the reservation under a key of the store. It returns nil if there is none, or
// if it belongs to contents that the store no longer has.
func (a *storeClient) readReservation(ctx context.Context, key string) (kept *lua.Kept, err error) {
	read := func() error {
		return a.guard.Call(ctx, "reservation", a.auth.CurrentEpoch(), func(ctx context.Context) (now int64, err error) {
			kept, err = a.guard.Store.Reservation(ctx, key)
			return 0, err
		})
	}
	if err := read(); err != nil || kept == nil {
		return nil, err
	}
	if kept.Stamp != limit.Stamp(a.auth.CurrentEpoch()) {
		if err := a.guard.Learn(ctx); err != nil {
			return nil, err
		}
		if kept.Stamp != limit.Stamp(a.auth.CurrentEpoch()) {
			return nil, nil
		}
	}
	return kept, nil
}

// settle makes the settlement of parts. used is what was used of each of them.
func (a *storeClient) settle(ctx context.Context, parts *charge.Transaction, used []limit.Tokens, charges []chargedAt, end lua.Settlement) (out lua.Settled, err error) {
	groups := []*charge.Transaction{parts}
	err = a.withRetry(ctx, func() error {
		a.auth.HoldFloor()
		defer a.auth.ReleaseFloor()
		head, err := a.grant(ctx, groups)
		if err != nil {
			return err
		}
		if end.Was.Stamp != limit.Stamp(head.Epoch) {
			out = lua.Settled{Changed: true} // the next read shows
			return nil
		}
		_, err = a.adjust(ctx, "settle", &head, parts, used, func(ctx context.Context) (_ []limit.Adjusted, now int64, err error) {
			end.Parts = partsOf(&head, parts.Charges, used, charges)
			a.auth.Refund(parts.Charges, used)
			out, now, err = a.guard.Store.Settle(ctx, head.Epoch, end)
			return out.Adjusted, now, err
		})
		if err == nil {
			a.auth.Adjusted(parts.Charges, out.Adjusted)
		}
		return err
	})
	return out, err
}

// adjust makes a call that adjusts parts, of which used was used, and carries what they owe. call returns the store's
// clock, or 0 if the answer lacks it.
func (a *storeClient) adjust(
	ctx context.Context, op string, head *charge.Header, parts *charge.Transaction, used []limit.Tokens,
	call func(context.Context) (adjusted []limit.Adjusted, now int64, err error),
) (adjusted []limit.Adjusted, err error) {
	err = storeguard.ErrBroken // after a panic
	defer func() { a.emergency.Adjusted(parts, adjusted, err) }()
	err = a.guard.Call(ctx, op, head.Epoch, func(ctx context.Context) (now int64, err error) {
		a.emergency.Overran(parts, used, head.Epoch)
		adjusted, now, err = call(ctx)
		return now, err
	})
	return adjusted, err
}

func partsOf(head *charge.Header, asks []charge.Charge, used []limit.Tokens, charges []chargedAt) []lua.Part {
	parts := make([]lua.Part, len(asks))
	for i := range asks {
		a := &asks[i]
		v := head.View(a)
		v.Cost = 0
		a.FloorCap, a.ColdCap = v.Floor.Cap, v.Cold().Cap
		parts[i] = lua.Part{
			Key: lua.Key(a.Limit.Algorithm, a.Key.Rule, a.Key.Hash),
			Adjustment: limit.Adjustment{
				View: v, At: charges[i].at, Window: charges[i].window, Reserved: a.Cost, Used: used[i], Debt: a.Limit.Capacity,
			},
		}
	}
	return parts
}
