package engine

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"aliquot/budget"
	"aliquot/internal/identity"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/policy"
	"aliquot/rules"
)

// reservation is the store's record of a reserved request, as JSON. It suffices for any daemon of
// the region to settle it and to give the same answer again. Of the client it holds hashes only.
type reservation struct {
	// Fingerprint is a keyed hash of the request. One id stands for one request.
	Fingerprint string `json:"f"`
	// Client is a keyed hash of the API key, by which the client's overrides are found again.
	Client string `json:"y,omitempty"`
	// TTL is in microseconds, counted from the moment when the store made the reservation. Ends is
	// its end as the caller was told, in Unix milliseconds.
	TTL  int64 `json:"t"`
	Ends int64 `json:"i"`
	// Mode is set only if no limit took part in the decision.
	Mode string `json:"m,omitempty"`
	// Without: the request was decided without the store, so each limit has its Before.
	Without bool            `json:"w,omitempty"`
	Limits  []reservedLimit `json:"l,omitempty"`
}

// reservedLimit is one limit as it was when the request was charged.
type reservedLimit struct {
	Rule      string          `json:"r"`
	Number    uint32          `json:"n"`
	Hash      string          `json:"h"` // base64url
	Shadow    bool            `json:"s,omitempty"`
	Never     bool            `json:"x,omitempty"` // a shadow limit whose capacity is below the cost: not charged
	Algorithm limit.Algorithm `json:"a,omitempty"`
	Capacity  limit.Tokens    `json:"c"`
	Rate      int64           `json:"e,omitempty"`
	Frac      int64           `json:"z,omitempty"`
	Window    time.Duration   `json:"w,omitempty"` // only of a counting limit
	Stated    time.Duration   `json:"d,omitempty"` // the time that the rule states its limit over
	Unit      string          `json:"u"`
	Queue     bool            `json:"q,omitempty"`
	Override  string          `json:"v,omitempty"`
	Wildcards uint64          `json:"g,omitempty"` // as in policy.Client
	Cost      limit.Tokens    `json:"k"`
	Slot      uint64          `json:"o,omitempty"`
	// Before is set for a shadow limit that an earlier call decided, which denied the other limits,
	// and for a limit that was decided without the store. For all others the store keeps the answer.
	Before *charge.ChargedBefore `json:"b,omitempty"`
	// Open: the rule admitted the request without the store, and nothing was charged.
	Open bool `json:"p,omitempty"`
}

// shadowsBefore returns the shadow limits of a request that an earlier call decided.
func shadowsBefore(groups []*charge.Transaction) (out []reservedLimit) {
	for _, g := range groups {
		if g.Before != nil {
			l := newReservedLimit(&g.Charges[0])
			l.Shadow, l.Before = true, g.Before
			out = append(out, l)
		}
	}
	return out
}

// settledLimit is one limit of a settlement, in whole tokens. It notes what the store does not keep
// itself.
type settledLimit struct {
	Used int64 `json:"u"`
	// Part: the store adjusted the limit. Otherwise the rule is gone, or the limit was not charged.
	Part bool `json:"p,omitempty"`
}

// describe returns the reservation with the limits of a decision whose charges have the names of their slots.
func (r reservation) describe(d *charge.Decision, groups []*charge.Transaction) reservation {
	r.Mode, r.Limits = d.Mode, nil
	for _, g := range groups {
		for i := range g.Charges {
			l := newReservedLimit(&g.Charges[i])
			l.Shadow = g.Shadow
			r.Limits = append(r.Limits, l)
		}
	}
	for i := range d.Never {
		v := &d.Never[i]
		r.Limits = append(r.Limits, reservedLimit{
			Rule: v.Rule.ID, Shadow: true, Never: true, Stated: v.Window, Unit: v.Rule.Unit, Cost: v.Cost,
			Algorithm: v.Rule.Limit.Algorithm, Capacity: limit.Tokens(v.Decision.Limit) * limit.Token,
		})
	}
	return r
}

func newReservedLimit(a *charge.Charge) reservedLimit {
	return reservedLimit{
		Rule: a.Rule.ID, Number: a.Key.Rule, Hash: base64.RawURLEncoding.EncodeToString(a.Key.Hash[:]),
		Algorithm: a.Limit.Algorithm, Capacity: a.Limit.Capacity, Rate: a.Limit.Rate.Micro, Frac: a.Limit.Rate.Frac,
		Window: a.Limit.Window, Stated: a.Window, Unit: a.Rule.Unit, Queue: a.Rule.Queue, Override: a.Override,
		Wildcards: a.Rule.Wildcards(), Cost: a.Cost, Slot: a.Slot,
	}
}

// toCharge returns the charge of the limit. Its rule has only the fields that an answer shows.
func (l *reservedLimit) toCharge() (charge.Charge, error) {
	a := charge.Charge{Planned: charge.Planned{
		Rule: &rules.Rule{ID: l.Rule, Algorithm: l.Algorithm.String(), Unit: l.Unit, Queue: l.Queue},
		Limit: limit.Limit{
			Algorithm: l.Algorithm, Capacity: l.Capacity, Rate: limit.Rate{Micro: l.Rate, Frac: l.Frac}, Window: l.Window,
		},
		Window: l.Stated, Cost: l.Cost, Slot: l.Slot, Key: budget.KeyID{Rule: l.Number},
	}}
	// A longer text would be decoded beyond the end of the hash.
	if want := base64.RawURLEncoding.EncodedLen(len(a.Key.Hash)); len(l.Hash) != want {
		return a, fmt.Errorf("the hash of a key of %s has %d characters, want %d", l.Rule, len(l.Hash), want)
	}
	if n, err := base64.RawURLEncoding.Decode(a.Key.Hash[:], []byte(l.Hash)); err != nil || n != len(a.Key.Hash) {
		return a, fmt.Errorf("the hash of a key of %s is no base64url of %d bytes", l.Rule, len(a.Key.Hash))
	}
	if l.Algorithm.Counts() && l.Window < time.Second { // its rate would be above all numbers
		return a, fmt.Errorf("a limit of %s has a window of %v, and the shortest is 1s", l.Rule, l.Window)
	}
	return a, nil
}

// current returns the charge of a limit of the reservation under the rules in force. ok is false if they have no
// such rule, have it under another number, or do not say which limit the client has now. Then the charge stays as
// it is.
func (r *reservation) current(l *reservedLimit, p *policy.Policy, now budget.Instant) (a charge.Charge, ok bool) {
	a, err := l.toCharge()
	rule := p.Set.Rule(l.Rule)
	if err != nil || rule == nil || p.Numbers[l.Rule] != l.Number&^policy.IndependentBit || rule.Limit.Algorithm != l.Algorithm {
		return a, false
	}
	a.Rule, a.Rules, a.Enforcement = rule, p.State(), rule.Enforcement
	if a.Limit, a.Window, ok = p.LimitAgain(rule, policy.Client{Hash: r.Client, Override: l.Override, Wildcards: l.Wildcards}); !ok {
		if l.Algorithm != limit.Concurrency {
			return a, false
		}
		a.Limit, a.Rules = policy.SlotsAtLeast(rule), budget.RulesState{} // its slot is free all the same
	}
	a.Changed = p.ChangedLimit(l.Number, a.Limit, now)
	return a, a.Independent() == (l.Number&policy.IndependentBit != 0)
}

// used returns how much of the limit was used, in whole tokens: the cost that the caller of Settle
// names, or else the estimate.
func (l *reservedLimit) used(usage Usage) int64 {
	estimate := int64(l.Cost / limit.Token)
	if l.Unit == rules.UnitRequests {
		if usage.Cost != nil {
			return *usage.Cost
		}
		return estimate
	}
	if cost, ok := usage.Costs[l.Unit]; ok {
		return cost
	}
	return estimate
}

// groupsOf returns the groups that the store decided, with those of an earlier call last, and the
// verdicts of the shadow limits whose capacity is below the cost.
func (r *reservation) groupsOf() (groups []*charge.Transaction, never []charge.Verdict, order []*rules.Rule, err error) {
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Never {
			a := charge.Charge{Planned: charge.Planned{Rule: &rules.Rule{ID: l.Rule, Algorithm: l.Algorithm.String(), Unit: l.Unit}, Window: l.Stated, Cost: l.Cost}}
			never = append(never, a.Verdict(&charge.Transaction{Shadow: true}, modes.Store, limit.Decision{
				Limit: int64(l.Capacity / limit.Token), RetryAfter: limit.Never,
			}))
			order = append(order, a.Rule)
			continue
		}
		a, err := l.toCharge()
		if err != nil {
			return nil, nil, nil, err
		}
		order = append(order, a.Rule)
		n := len(groups)
		if n == 0 || l.Shadow {
			groups, n = append(groups, &charge.Transaction{Shadow: l.Shadow, Before: l.Before, Answer: &lua.Result{}}), n+1
		}
		g := groups[n-1]
		g.Charges = append(g.Charges, a)
		if l.Before != nil {
			g.Answer.Allowed, g.Answer.Limits = l.Before.Allowed, append(g.Answer.Limits, l.Before.Outcome)
		}
	}
	return groups, never, order, nil
}

// decided returns the decision with which a reservation was answered.
func (r *reservation) decided(kept *lua.Kept) (*charge.Decision, error) {
	if r.Mode != "" {
		return &charge.Decision{Mode: r.Mode}, nil
	}
	groups, never, order, err := r.groupsOf()
	if err != nil {
		return nil, err
	}
	results, err := resultsOf(kept, groups)
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		g.ApplyResult(results[i], nil)
	}
	if r.Without {
		r.markDecidedWithout(groups)
	}
	return &charge.Decision{Groups: groups, Never: never, Order: order}, nil
}

// resultsOf returns the results of the groups of a reservation.
func resultsOf(kept *lua.Kept, groups []*charge.Transaction) ([]lua.Result, error) {
	last := len(groups)
	for last > 0 && groups[last-1].Before != nil {
		last--
	}
	var results []lua.Result
	if last > 0 {
		var err error
		if results, err = kept.Results(shape(groups[:last])); err != nil {
			return nil, err
		}
	}
	for _, g := range groups[last:] {
		if g.Before == nil {
			return nil, errors.New("the store keeps a reservation whose limits are out of order")
		}
		results = append(results, *g.Answer)
	}
	return results, nil
}

// shape returns the groups with the fields that are needed to read a store's answer to them.
func shape(groups []*charge.Transaction) []lua.Group {
	out := make([]lua.Group, len(groups))
	for i, g := range groups {
		for j := range g.Charges {
			out[i].Limits = append(out[i].Limits, lua.KeyView{View: limit.View{Algorithm: g.Charges[j].Limit.Algorithm}})
		}
	}
	return out
}

func parseReservation(kept *lua.Kept) (r reservation, err error) {
	if err := json.Unmarshal([]byte(kept.Text), &r); err != nil {
		return r, fmt.Errorf("the store keeps a reservation that cannot be read: %w", err)
	}
	return r, nil
}

// ReservationKey returns the store's name of the reservation with this id.
func ReservationKey(h *rules.KeyHasher, namespace, id string) string {
	return lua.ReservationKey(h.Key(namespace, append([]byte("reservation\x00"), id...)))
}

// BoundID returns the id under which Settle finds a reservation whose caller chose the id: with a keyed
// hash of the namespace, the caller and the id. Another caller cannot make it, and gets another one.
func BoundID(h *rules.KeyHasher, r *charge.Request, id string) string {
	b := appendSized([]byte("caller\x00"), id)
	for _, a := range callerOf(r.Attributes) {
		b = appendSized(appendSized(b, a.Name), a.Value)
	}
	sum := h.Key(r.Namespace, b)
	return id + "." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// BoundBytes is how many bytes BoundID adds to an id.
var BoundBytes = 1 + base64.RawURLEncoding.EncodedLen(len(budget.KeyID{}.Hash))

// callerOf returns the attribute that identifies the caller: the API key, else the user, else the
// address. Without any of them it returns all attributes, sorted.
func callerOf(attributes rules.Attributes) rules.Attributes {
	for _, name := range []string{identity.APIKey, identity.User, identity.IP} {
		if value := attributes.Get(name); value != "" {
			return rules.Attributes(nil).Set(name, value)
		}
	}
	all := slices.Clone(attributes)
	all.Sort()
	return all
}

// fingerprintOf returns a keyed hash of a request. It distinguishes a repeated call from another
// request with the same id.
func fingerprintOf(h *rules.KeyHasher, r *charge.Request) string {
	b := append([]byte("request\x00"), binary.BigEndian.AppendUint64(nil, uint64(r.Cost))...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Attributes)))
	attributes, costs := slices.Clone(r.Attributes), slices.Clone(r.Costs)
	attributes.Sort()
	for i := range attributes {
		b = appendSized(appendSized(b, attributes[i].Name), attributes[i].Value)
	}
	costs.Sort()
	for i := range costs {
		b = binary.BigEndian.AppendUint64(appendSized(b, costs[i].Unit), uint64(costs[i].Cost))
	}
	sum := h.Key(r.Namespace, b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// appendSized appends a text after its length, so that no two lists of texts give the same bytes.
func appendSized(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
