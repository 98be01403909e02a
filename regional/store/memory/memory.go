// Package memory keeps the records of a region's keys in this process. It gives the same answers as a
// Redis does under package store; package limit specifies them.
package memory

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"aliquot/limit"
	"aliquot/lua"
)

// Store is the embedded store. It keeps the records of one region in this process, and they end
// with it. It is safe for concurrent use.
//
// It is bounded. A cold record leaves when it is full, because an absent bucket is a full one, or
// when nothing in it counts any more. When a shard has no room for another record, the new keys of
// that shard share overflow records, one for each size of limit, as if they were one client. Their
// results report it (Crowded). A shared record denies the keys more than it should, but to evict a
// bucket that is not full would give its client a free one. When there is no room for another entry
// of logs and slots, their limits deny until some entries have ended. Records of hot keys are never
// evicted.
type Store struct {
	epoch      string
	clock      func() int64
	leaseTaken atomic.Int64 // when a lease was last taken, in microseconds; 0: never
	shards     [shardCount]shard
	kept       reservations
	works      sync.Pool // of *work
}

const (
	// shardCount is at most 64, because the set of a group's shards is the bits of one word.
	shardCount = 64
	// DefaultMaxKeys bounds separately the cold records of buckets, those of counting limits, and
	// the hot records. That many cold buckets take about 100 MB; see docs/reference/algorithms.md.
	DefaultMaxKeys = 1_000_000
)

// ErrFull is wrapped by the error of a change that finds no room for another hot record. The
// leader's hot table is much smaller than DefaultMaxKeys, so this is a sign of a bug.
var ErrFull = errors.New("store: no room for another hot record")

// Config sets the size of a Store and its clock.
type Config struct {
	// MaxKeys bounds the cold buckets, the cold records of counting limits and the hot records,
	// each separately; 0 means DefaultMaxKeys. The admissions that are remembered one by one are at
	// most four times as many.
	MaxKeys int
	// MaxReservations bounds the reservations that are remembered; 0 means DefaultMaxReservations.
	MaxReservations int
	// Clock returns microseconds above 0. It should not go back; while it does, the time of the
	// store does not move.
	Clock func() int64
}

// New returns an empty store. It fails without a clock.
func New(c Config) (*Store, error) {
	if c.Clock == nil {
		return nil, errors.New("store: a memory store needs a clock")
	}
	if c.MaxKeys < 0 || c.MaxReservations < 0 {
		return nil, fmt.Errorf("store: room for %d keys and %d reservations; neither may be negative", c.MaxKeys, c.MaxReservations)
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = DefaultMaxKeys
	}
	if c.MaxReservations == 0 {
		c.MaxReservations = DefaultMaxReservations
	}
	birth := c.Clock()
	if birth < 1 || birth > limit.MaxExact {
		return nil, fmt.Errorf("store: the clock reads %d; it must be from 1 to 2^53-1 microseconds", birth)
	}
	m := &Store{clock: c.Clock, epoch: fmt.Sprintf("%s:memory:%d", lua.NewNonce(), birth)}
	m.kept.init(c.MaxReservations)
	for i := range m.shards {
		m.shards[i].init(max(1, c.MaxKeys/shardCount), birth, limit.Stamp(m.epoch))
	}
	return m, nil
}

// Epoch returns the redis epoch that was created with the store.
func (m *Store) Epoch(context.Context) (string, error) { return m.epoch, nil }

// Close does nothing: the store has no goroutine and nothing open.
func (m *Store) Close() error { return nil }

// Take decides groups in order, each atomically and at an instant of its own, while the group's
// shards are locked. The wait for the locks may be longer than the caller's right lasts. So a group
// that is late is not decided: its Err is a *LateError, and the charges for the groups before it stay. If the first
// one is late, the call fails. now is the clock at the last decided group.
func (m *Store) Take(ctx context.Context, epoch string, groups []lua.Group) (results []lua.Result, now int64, err error) {
	if epoch != m.epoch {
		return nil, 0, &lua.EpochError{Actual: m.epoch}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if err := lua.CheckGroups(epoch, groups); err != nil {
		return nil, 0, err
	}
	limits := 0
	for i := range groups {
		limits += len(groups[i].Limits)
	}
	outcomes := make([]limit.Outcome, limits)
	results = make([]lua.Result, len(groups))
	w, _ := m.works.Get().(*work)
	if w == nil {
		w = &work{}
	}
	defer m.works.Put(w)
	for i := range groups {
		n := len(groups[i].Limits)
		results[i].Limits, outcomes = outcomes[:n:n], outcomes[n:]
		at, err := m.takeGroup(w, &groups[i], &results[i])
		if err != nil {
			if _, late := errors.AsType[*lua.LateError](err); !late || i == 0 {
				return nil, 0, err
			}
			results[i].Err, results[i].Undecided = err, map[int]error{}
			for j := range n {
				results[i].Undecided[j] = err
			}
			continue
		}
		now = max(now, at)
	}
	return results, now, nil
}

// work is the scratch space of one call.
type work struct {
	ids     []id
	slots   []slot
	records []limit.Record
	views   []limit.View
}

// takeGroup decides a group and returns the clock. The result must have room for the group's
// limits.
func (m *Store) takeGroup(w *work, g *lua.Group, result *lua.Result) (now int64, err error) {
	mask, err := w.begin(g)
	if err != nil {
		return 0, err
	}
	m.lock(mask)
	defer m.unlock(mask)
	now = m.read(mask)
	if err := late(g, now); err != nil {
		return 0, err
	}
	m.takeLocked(w, g, now, result)
	return now, nil
}

// late returns a *LateError if now is after the deadline of a group's call, and nil otherwise.
func late(g *lua.Group, now int64) error {
	if end := g.Limits[0].View.Deadline; end != 0 && now > end {
		return &lua.LateError{Now: now}
	}
	return nil
}

// begin reads the keys and views of a group, and returns the mask of their shards.
func (w *work) begin(g *lua.Group) (mask uint64, err error) {
	w.ids, w.slots, w.records, w.views = w.ids[:0], w.slots[:0], w.records[:0], w.views[:0]
	for i := range g.Limits {
		k, err := keyID(g.Limits[i].Key)
		if err != nil {
			return 0, err
		}
		w.ids = append(w.ids, k)
		w.views = append(w.views, g.Limits[i].View)
		mask |= 1 << k.shard()
	}
	return mask, nil
}

func keyID(key string) (id, error) {
	k, ok := parseID(key)
	if !ok {
		return k, fmt.Errorf("%w: %q is not a key made by lua.Key", lua.ErrInvalid, key)
	}
	return k, nil
}

// takeLocked decides a group whose shards are locked.
func (m *Store) takeLocked(w *work, g *lua.Group, now int64, result *lua.Result) {
	room := true
	for i, k := range w.ids {
		s, sh := m.find(k, &w.views[i], now), &m.shards[k.shard()]
		if sh.crowded(&w.views[i], now) {
			s.place = nowhere
		}
		if chunk := &w.views[i].Chunk; chunk.Want > 0 && !sh.canLend(s.place, now) {
			chunk.Want = 0
		}
		room = room && s.place != nowhere
		w.slots = append(w.slots, s)
		w.records = append(w.records, s.record)
	}
	if !room || sharesOverflow(w.slots) {
		refuse(w)
	}
	out := result.Limits
	result.Allowed = limit.Take(w.records, w.views, g.Cost, now, out)
	for i, k := range w.ids {
		if w.slots[i].crowded() && !w.views[i].Hot {
			result.Crowded = append(result.Crowded, i)
		}
		if w.slots[i].place == nowhere {
			out[i].Tokens, out[i].Reset, out[i].Retry = 0, w.views[i].Window, w.views[i].Window
			continue
		}
		m.shards[k.shard()].put(k, w.slots[i], w.records[i], &w.views[i])
	}
}

// refuse makes a group be denied by those of its limits that have no place of their own, and
// charges nothing.
func refuse(w *work) {
	for i := range w.slots {
		if w.slots[i].crowded() {
			w.views[i].Cost = limit.MaxExact // more than any bucket holds
		}
	}
}

// find returns a key's record and its place, and adds to the view what the store knows. The key's
// shard must be locked.
func (m *Store) find(k id, v *limit.View, now int64) slot {
	if v.Phase == limit.Floor && v.HeardWait != 0 {
		v.Heard = m.leaseTaken.Load()
	}
	return m.shards[k.shard()].find(k, v, now)
}

// lock locks the shards of a mask in their order, so that two groups cannot wait for each other.
func (m *Store) lock(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		m.shards[bits.TrailingZeros64(mask)].mu.Lock()
	}
}

func (m *Store) unlock(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		m.shards[bits.TrailingZeros64(mask)].mu.Unlock()
	}
}

// read returns the time for the shards of a mask, which must be locked. The time is never before
// one that these shards have already seen.
func (m *Store) read(mask uint64) int64 {
	now := m.clock()
	for rest := mask; rest != 0; rest &= rest - 1 {
		now = max(now, m.shards[bits.TrailingZeros64(rest)].last)
	}
	for ; mask != 0; mask &= mask - 1 {
		m.shards[bits.TrailingZeros64(mask)].last = now
	}
	return now
}
