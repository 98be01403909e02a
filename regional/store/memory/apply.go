package memory

import (
	"context"
	"fmt"

	"aliquot/limit"
	"aliquot/lua"
)

// Apply makes changes in order, each atomically. now is the clock at the last change, or at the
// call if there are no changes.
func (m *Store) Apply(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error) {
	if epoch != m.epoch {
		return nil, 0, &lua.EpochError{Actual: m.epoch}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if err := lua.CheckChanges(epoch, changes); err != nil {
		return nil, 0, err
	}
	now = m.clock()
	applied = make([]limit.Applied, len(changes))
	for i := range changes {
		if applied[i], now, err = m.applyOne(&changes[i]); err != nil {
			return nil, 0, err
		}
	}
	return applied, now, nil
}

// ApplyLease makes changes, of which there may be none, for a caller that takes a lease along with
// them. Once all changes are made, it records that the region was heard at now. See Apply.
func (m *Store) ApplyLease(ctx context.Context, epoch string, changes []lua.Change) (applied []limit.Applied, now int64, err error) {
	if applied, now, err = m.Apply(ctx, epoch, changes); err != nil {
		return nil, 0, err
	}
	for {
		before := m.leaseTaken.Load()
		if before >= now || m.leaseTaken.CompareAndSwap(before, now) {
			return applied, now, nil
		}
	}
}

func (m *Store) applyOne(c *lua.Change) (limit.Applied, int64, error) {
	k, ok := parseID(c.Key)
	if !ok {
		return limit.Applied{}, 0, fmt.Errorf("%w: %q is not a key made by lua.Key", lua.ErrInvalid, c.Key)
	}
	mask := uint64(1) << k.shard()
	m.lock(mask)
	defer m.unlock(mask)
	now := m.read(mask)
	sh := &m.shards[k.shard()]
	change := c.Change
	s := m.find(k, &change.View, now)
	if s.place == nowhere || s.place != inHot && len(sh.hot.records) >= sh.most {
		return limit.Applied{}, 0, fmt.Errorf("%w: %d in this shard", ErrFull, len(sh.hot.records))
	}
	s.place = inHot // also a fenced cold record, until it is full
	r, a := limit.Apply(s.record, change, now)
	if !a.Stale && !a.Late {
		sh.put(k, s, r, &change.View)
	}
	return a, now, nil
}
