package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"aliquot/internal/identity"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/storeguard"
)

// keepReservation is how long the store remembers a reservation after its end. A late Settle then
// learns that it came too late, not that there was no reservation.
const keepReservation = 10 * time.Minute

// Reserving is one call of Reserve. Chosen: the caller chose the ID, which is not bound to the caller
// yet. An id that the daemon chose needs no binding, because no other caller can guess it.
type Reserving struct {
	charge.Request
	ID     string
	Chosen bool
	TTL    time.Duration
	// Patience is how long the request waits for borrowed tokens that another call brings; 0: as long
	// as a check waits.
	Patience time.Duration
}

// ReserveResult is the result of a Reserve. If the request was denied, or there is no room to hold it
// without the store, there is no reservation and ends is 0.
type ReserveResult struct {
	Decision *charge.Decision
	Repeated bool
	Made     bool
	Ends     int64 // Unix milliseconds
}

// errOtherRequest: the id belongs to the reservation of another request.
var errOtherRequest = fmt.Errorf("%w: you have a reservation under this id for other attributes or costs; take another id", charge.ErrInvalid)

// Reserve decides a request as Decide does, and makes the store remember it. Without the store each
// rule's fallback decides, and the daemon holds the reservation until the store is back.
func (l *Engine) Reserve(ctx context.Context, r *Reserving) (ReserveResult, error) {
	now := time.Now().UnixMilli()
	p := l.Policies.At(now)
	out := ReserveResult{Decision: &charge.Decision{}}
	d := out.Decision
	d.Plan(p, &r.Request, now, nil)
	l.Keys.Hold(d, l.Auth.Now())
	if d.TooMany == 0 && len(d.Groups) > lua.TakeChunk {
		d.TooMany = len(d.Order)
	}
	if d.TooMany > 0 || d.Mode == modes.NoRulesYet || d.Mode == modes.BlockList || d.NeverFits() {
		return out, nil
	}
	if r.Chosen {
		r.ID, r.Chosen = BoundID(p.Hasher, &r.Request, r.ID), false
	}
	l.recall(d.Groups, cmp.Or(r.Patience, storeguard.CallerPatience))
	err := l.remember(ctx, p, r, d.Groups, &out)
	if err == nil && !out.Repeated {
		err = l.borrow(ctx, d, &r.Request, func(i int) error { return l.remember(ctx, p, r, d.Groups[i:i+1], &out) })
	}
	if err == nil && !out.Repeated {
		l.Keys.Decided([]charge.Decision{*d}, l.Auth.Now())
	}
	return out, err
}

// recall makes the groups' call return what this daemon has borrowed of their keys, so that the store
// decides with all tokens. The groups wait once, at most for patience, for borrowed tokens that
// another call brings.
func (l *Engine) recall(groups []*charge.Transaction, patience time.Duration) {
	until := time.Now().Add(patience)
	for _, g := range groups {
		g.Reserves, g.Until = true, until
		for i := range g.Charges {
			if a := &g.Charges[i]; a.Rule.LocalCache {
				a.Local = l.Auth.Local.ByKey(a.Key)
			}
		}
	}
}

// remember lets the store decide groups of the decision and remember them, once for each reservation
// id.
func (l *Engine) remember(ctx context.Context, p *policy.Policy, r *Reserving, groups []*charge.Transaction, out *ReserveResult) error {
	for _, g := range groups {
		for i := range g.Charges {
			g.Charges[i].Lasts = r.TTL
		}
	}
	l.nameSlots(groups)
	print, key := fingerprintOf(p.Hasher, &r.Request), ReservationKey(p.Hasher, r.Namespace, r.ID)
	if one := l.direct.held.get(key); one != nil {
		return out.repeat(&one.reservation, &lua.Kept{}, print)
	}
	ends := time.Now().Add(r.TTL).UnixMilli()
	one := reservation{
		Fingerprint: print, Client: policy.ClientHash(p.Hasher, r.Attributes.Get(identity.APIKey)), TTL: r.TTL.Microseconds(), Ends: ends,
	}
	var made atomic.Bool
	found, err := l.sendReserve(ctx, groups, key, r.TTL+keepReservation, one.describer(out.Decision), &made)
	if found.retry {
		if err := groups[0].Wait(ctx); err != nil {
			return err
		}
		return l.remember(ctx, p, r, groups[:1], out) // its shadow limits have their answers by now
	}
	switch {
	case errors.Is(err, lua.ErrNoRoom), errors.Is(err, errOtherStore), errors.Is(err, charge.ErrGone):
		return err
	case errors.Is(err, lua.ErrPartly):
		return l.spend(ctx, groups) // the store still has to decide the limits that it can
	case err != nil:
		if errors.Is(err, lua.ErrInvalid) {
			l.log.Error("the store was asked to keep something it cannot; this is a bug", "error", err)
		}
		if errors.Is(err, storeguard.ErrGivenUp) {
			for i := range groups {
				groups[i] = groups[i].FreshCopy()
			}
		}
		return l.hold(groups, held{key: key, reservation: one}, &made, out)
	case found.earlier != nil:
		return out.repeatStored(found.earlier, print)
	}
	out.setMade(!decides(groups) || groups[0].Allowed, ends)
	return nil
}

// decides reports whether groups decide their request: if not, all of them are shadows.
func decides(groups []*charge.Transaction) bool { return len(groups) > 0 && !groups[0].Shadow }

// setMade sets whether there is a reservation, and its end.
func (out *ReserveResult) setMade(made bool, ends int64) {
	if out.Made = made; made {
		out.Ends = ends
	}
}

// repeatStored answers a repeated call as the store's reservation of the first call was answered.
func (out *ReserveResult) repeatStored(kept *lua.Kept, print string) error {
	earlier, err := parseReservation(kept)
	if err != nil {
		return err
	}
	return out.repeat(&earlier, kept, print)
}

// repeat answers a request as an earlier one under the same id was answered.
func (out *ReserveResult) repeat(earlier *reservation, kept *lua.Kept, print string) (err error) {
	if earlier.Fingerprint != print {
		return errOtherRequest
	}
	if out.Decision, err = earlier.decided(kept); err != nil {
		return err
	}
	out.Repeated, out.Made, out.Ends = true, true, earlier.Ends
	return nil
}

// reserveAnswer is the store's answer to remember. earlier is an earlier reservation with the same
// id; then nothing was charged. retry: the store denied the groups and remembers nothing, but tokens
// that were borrowed of their keys have arrived or are on their way.
type reserveAnswer struct {
	earlier *lua.Kept
	retry   bool
}

// sendReserve sends groups to the store, and waits as long as a check would. After storeguard.ErrGivenUp the call
// may still use the groups, and the store may decide and remember them: made becomes true if its answer says so.
// The client learns that when it repeats the request with its id.
func (l *Engine) sendReserve(
	ctx context.Context, groups []*charge.Transaction, key string, keep time.Duration, text func([]*charge.Transaction) (string, error), made *atomic.Bool,
) (reserveAnswer, error) {
	mine := slices.Clone(groups) // by then the caller's slice may have other groups in place of these
	return callUnbatched(ctx, l, func(ctx context.Context) (found reserveAnswer, err error) {
		defer l.emergency.TurnOver(l.emergency.AwaitTurn(ctx, mine))
		err = l.direct.reserve(ctx, mine, key, keep, text, &found, made)
		return found, err
	})
}

// describer returns a function that describes groups of a decision, and the shadow limits that an
// earlier call decided. It copies the parts of the decision that it needs.
func (r reservation) describer(d *charge.Decision) func([]*charge.Transaction) (string, error) {
	before := shadowsBefore(d.Groups)
	d = &charge.Decision{Mode: d.Mode, Never: slices.Clone(d.Never)}
	return func(groups []*charge.Transaction) (string, error) {
		described := r.describe(d, groups)
		described.Limits = append(described.Limits, before...)
		text, err := json.Marshal(described)
		return string(text), err
	}
}

// reserve is decide for the groups of one request, which the store remembers. text describes the
// groups once their slots have names.
func (a *storeClient) reserve(
	ctx context.Context, groups []*charge.Transaction, key string, keep time.Duration, text func([]*charge.Transaction) (string, error), found *reserveAnswer,
	made *atomic.Bool,
) error {
	r := lua.Reservation{Key: key, Keep: keep, Decided: decides(groups)}
	return a.withRetry(ctx, func() error { return a.attemptReserve(ctx, groups, r, text, found, made) })
}

// attemptReserve makes the call once; see attempt.
func (a *storeClient) attemptReserve(
	ctx context.Context, groups []*charge.Transaction, r lua.Reservation, text func([]*charge.Transaction) (string, error), found *reserveAnswer,
	made *atomic.Bool,
) error {
	a.auth.HoldFloor()
	defer a.auth.ReleaseFloor()
	defer charge.Fail(groups) // ends the checkouts that are open by then, also after a panic
	if slices.ContainsFunc(groups, (*charge.Transaction).Abandoned) {
		return storeguard.ErrGivenUp // the daemon holds the reservation
	}
	head, err := a.grant(ctx, groups)
	if err != nil {
		return err
	}
	var out lua.Reserved
	var storeNow int64
	ended := false
	defer a.failUnended(&ended, groups, &head)
	err = a.guard.Call(ctx, "reserve", head.Epoch, func(ctx context.Context) (now int64, err error) {
		a.auth.Local.CheckoutAll(&head, groups, a.auth.Now())
		a.emergency.Sent(groups, &head)
		call := new(charge.CallBuffer).CallOf(&head, groups, a.slots)
		if r.Text, err = text(groups); err != nil {
			return 0, err
		}
		out, storeNow, err = a.guard.Store.Reserve(ctx, head.Epoch, call, r)
		return storeNow, err
	})
	ended = true
	if err != nil {
		a.end(groups, out.Results, err, storeNow, &head)
		return err
	}
	if out.Earlier != nil && out.Results == nil {
		charge.NotExecuted(groups)
	}
	return a.completeReserve(groups, r, &head, out, storeNow, found, made)
}

// completeReserve gives the store's answer to the groups and to what this daemon remembers.
func (a *storeClient) completeReserve(
	groups []*charge.Transaction, r lua.Reservation, head *charge.Header, out lua.Reserved, storeNow int64, found *reserveAnswer, made *atomic.Bool,
) error {
	// made is set before the emergency limit learns of the charge: that may admit a caller that has given
	// up, which then reads made.
	made.Store(out.Earlier == nil && (!r.Decided || out.Results[0].Allowed))
	if made.Load() {
		a.held.drop(r.Key)
	}
	a.end(groups, out.Results, lua.ErrNoRoom, storeNow, head) // without results the reservation was made before, so nothing was charged
	if made.Load() {
		a.recordSlots(r.Key, groups, out.Results, a.auth.Now())
	}
	if out.Earlier != nil {
		if out.Earlier.Stamp != limit.Stamp(head.Epoch) {
			return errOtherStore
		}
		found.earlier = out.Earlier
		return nil
	}
	denied := r.Decided && !out.Results[0].Allowed // then the store remembers nothing
	found.retry = denied && groups[0].MaySucceed()
	var seen []charge.Observation
	for i, g := range groups {
		if i == 0 && found.retry {
			seen = g.ObserveCached(out.Results[i], seen)
			continue
		}
		seen = g.ApplyResult(out.Results[i], seen)
		if denied && g.Shadow {
			g.Before = &charge.ChargedBefore{At: out.Results[i].Clock(0, storeNow), Allowed: out.Results[i].Allowed, Outcome: out.Results[i].Limits[0]}
		}
	}
	a.auth.Observe(seen)
	return nil
}

// errOtherStore: the store has a reservation under this id from contents that were lost and came
// back. What happened to it since is unknown.
var errOtherStore = fmt.Errorf("%w: this id is of a reservation that the region's store had lost; take another id", charge.ErrInvalid)
