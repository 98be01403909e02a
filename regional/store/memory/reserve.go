package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"aliquot/limit"
	"aliquot/lua"
)

// DefaultMaxReservations bounds the reservations that a Store remembers.
const DefaultMaxReservations = 100_000

// reservations are the reservations that a Store remembers, by key. An expired one is dropped when
// it is met. With each new one a few others are checked for expiry.
type reservations struct {
	mu    sync.Mutex // held over a whole call; locked before any shard
	most  int
	byKey map[string]reservation
}

// reservation is a remembered reservation, with the time at which it may be forgotten.
type reservation struct {
	kept    *lua.Kept
	expires int64 // microseconds
}

func (r *reservations) init(most int) { r.most, r.byKey = most, map[string]reservation{} }

// get returns the reservation under a key, or nil if there is none.
func (r *reservations) get(key string, now int64) *lua.Kept {
	one, ok := r.byKey[key]
	if ok && now >= one.expires {
		delete(r.byKey, key)
		return nil
	}
	return one.kept
}

// makeSpace drops some expired reservations, and reports whether there is room for one more.
func (r *reservations) makeSpace(now int64) bool {
	look := sweepEach
	if len(r.byKey) >= r.most {
		look = sweepFull
	}
	for key, one := range r.byKey {
		if now >= one.expires {
			delete(r.byKey, key)
		}
		if look--; look == 0 {
			break
		}
	}
	return len(r.byKey) < r.most
}

// Reserve decides the groups of one request and remembers the result; see lua.Scripts.Reserve.
func (m *Store) Reserve(ctx context.Context, epoch string, groups []lua.Group, r lua.Reservation) (out lua.Reserved, now int64, err error) {
	if err := m.usable(ctx, epoch); err != nil {
		return out, 0, err
	}
	if err := errors.Join(lua.CheckReservation(groups, r), lua.CheckGroups(epoch, groups)); err != nil {
		return out, 0, err
	}
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if earlier := m.kept.get(r.Key, m.clock()); earlier != nil {
		return lua.Reserved{Earlier: earlier}, 0, nil
	}
	if !m.kept.makeSpace(m.clock()) {
		return out, 0, fmt.Errorf("store: %w: %d are remembered", lua.ErrNoRoom, m.kept.most)
	}
	if out.Results, now, err = m.takeAtOnce(groups); err != nil {
		return lua.Reserved{}, 0, err
	}
	if !r.Decided || out.Results[0].Allowed {
		kept := lua.NewKept(limit.Stamp(epoch), now, groups, out.Results, r.Text)
		m.kept.byKey[r.Key] = reservation{kept: kept, expires: now + r.Keep.Microseconds()}
	}
	return out, now, nil
}

// usable returns an error if a call expects other contents or comes too late.
func (m *Store) usable(ctx context.Context, epoch string) error {
	if epoch != m.epoch {
		return &lua.EpochError{Actual: m.epoch}
	}
	return ctx.Err()
}

// takeAtOnce decides the groups of one request at one instant.
func (m *Store) takeAtOnce(groups []lua.Group) (results []lua.Result, now int64, err error) {
	var w work
	var mask uint64
	for i := range groups {
		of, err := w.begin(&groups[i])
		if err != nil {
			return nil, 0, err
		}
		mask |= of
	}
	m.lock(mask)
	defer m.unlock(mask)
	now = m.read(mask)
	if len(groups) > 0 {
		if err := late(&groups[0], now); err != nil {
			return nil, 0, err
		}
	}
	results = make([]lua.Result, len(groups))
	for i := range groups {
		g := &groups[i]
		if _, err := w.begin(g); err != nil {
			return nil, 0, err
		}
		results[i].Limits = make([]limit.Outcome, len(g.Limits))
		m.takeLocked(&w, g, now, &results[i])
	}
	return results, now, nil
}

// Reservation returns the remembered reservation of a request; see lua.Scripts.Reservation.
func (m *Store) Reservation(ctx context.Context, key string) (*lua.Kept, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	return m.kept.get(key, m.clock()), nil
}

// Adjust makes adjustments; see lua.Scripts.Adjust.
func (m *Store) Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error) {
	if err := errors.Join(m.usable(ctx, epoch), lua.CheckParts(epoch, parts)); err != nil {
		return nil, err
	}
	ids, mask, err := idsOf(parts)
	if err != nil {
		return nil, err
	}
	m.lock(mask)
	defer m.unlock(mask)
	now, out := m.read(mask), make([]limit.Adjusted, len(ids))
	if err := partsLate(parts, now); err != nil {
		return nil, err
	}
	for i, k := range ids {
		out[i] = m.adjust(k, parts[i].Adjustment, now)
	}
	return out, nil
}

// partsLate is late for the parts of a call.
func partsLate(parts []lua.Part, now int64) error {
	if len(parts) > 0 && parts[0].View.Deadline != 0 && now > parts[0].View.Deadline {
		return &lua.LateError{Now: now}
	}
	return nil
}

// idsOf returns the keys of parts and the mask of their shards.
func idsOf(parts []lua.Part) (ids []id, mask uint64, err error) {
	for i := range parts {
		k, err := keyID(parts[i].Key)
		if err != nil {
			return nil, 0, err
		}
		ids = append(ids, k)
		mask |= 1 << k.shard()
	}
	return ids, mask, nil
}

// Settle ends a reservation; see lua.Scripts.Settle.
func (m *Store) Settle(ctx context.Context, epoch string, s lua.Settlement) (out lua.Settled, now int64, err error) {
	if err := m.usable(ctx, epoch); err != nil {
		return out, 0, err
	}
	if err := lua.CheckSettlement(epoch, &s); err != nil {
		return out, 0, err
	}
	ids, mask, err := idsOf(s.Parts)
	if err != nil {
		return out, 0, err
	}
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	m.lock(mask)
	defer m.unlock(mask)
	now = m.read(mask)
	if err := partsLate(s.Parts, now); err != nil {
		return out, 0, err
	}
	kept := m.kept.get(s.Key, now)
	switch {
	case kept == nil || !kept.Is(s.Was):
		return lua.Settled{Changed: true}, now, nil
	case now > s.Ends:
		return lua.Settled{Expired: true}, now, nil
	}
	out.Adjusted = make([]limit.Adjusted, len(ids))
	for i, k := range ids {
		out.Adjusted[i] = m.adjust(k, s.Parts[i].Adjustment, now)
	}
	m.kept.byKey[s.Key] = reservation{kept: kept.Ended(now, out.Adjusted, s.Note), expires: m.kept.byKey[s.Key].expires}
	return out, now, nil
}

// adjust makes one adjustment. The key's shard must be locked.
func (m *Store) adjust(k id, a limit.Adjustment, now int64) limit.Adjusted {
	at := m.find(k, &a.View, now)
	if at.place == nowhere {
		return limit.Adjusted{} // there is no room for a record of the key, which could hold a debt or a refund
	}
	r, out := limit.Adjust(at.record, a, now)
	m.shards[k.shard()].put(k, at, r, &a.View)
	return out
}
