package store

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

// Memory is the embedded store: the records of one region in this process, gone
// with it. It is safe for concurrent use.
//
// It is bounded. Cold records leave when they are full, because an absent bucket is
// a full one, or when nothing in them counts any more. When a shard has no room for one
// more, the new keys of that shard share overflow records, one for each size of limit,
// as if they were one client, and their results say so (Crowded): that denies them more
// than it should, but evicting a bucket that is not full would give its client a free one.
// When there is no room for one more entry of logs and slots, their limits deny until
// some have ended. Records of hot keys are never evicted.
type Memory struct {
	epoch  string
	clock  func() int64
	heard  atomic.Int64 // when a lease was last taken; 0: never
	shards [shardCount]shard
	kept   reservations
	works  sync.Pool // of *work
}

const (
	// shardCount is at most 64: a group's shards are the bits of one word.
	shardCount = 64
	// DefaultMaxKeys bounds the cold records of buckets, those of limits that count, and
	// the hot records each: about 100 MB of cold buckets; see docs/algorithms.md.
	DefaultMaxKeys = 1_000_000
)

// ErrFull is wrapped when there is no room for another hot record. The leader's
// hot table is much smaller than DefaultMaxKeys, so this is a sign of a bug.
var ErrFull = errors.New("store: no room for another hot record")

// MemoryConfig says how large a Memory gets and what time it is.
type MemoryConfig struct {
	// MaxKeys bounds the cold buckets, the cold records of limits that count, and the
	// hot records, each apart from the others; 0 means DefaultMaxKeys. Admissions that
	// are remembered each by itself are at most four times as many.
	MaxKeys int
	// MaxReservations bounds the reservations that are remembered; 0 means
	// DefaultMaxReservations.
	MaxReservations int
	// Clock reads microseconds, above 0, and should not go back; if it does, time
	// stands still meanwhile.
	Clock func() int64
}

// NewMemory makes an empty store.
func NewMemory(c MemoryConfig) (*Memory, error) {
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
	m := &Memory{clock: c.Clock, epoch: fmt.Sprintf("%s:memory:%d", newNonce(), birth)}
	m.kept.init(c.MaxReservations)
	for i := range m.shards {
		m.shards[i].init(max(1, c.MaxKeys/shardCount), birth, limit.Stamp(m.epoch))
	}
	return m, nil
}

// Epoch is the redis epoch minted when the store was made.
func (m *Memory) Epoch(context.Context) (string, error) { return m.epoch, nil }

// Close does nothing: the store has no goroutine and nothing open.
func (m *Memory) Close() error { return nil }

// Take decides groups in order, each atomically and at an instant of its own, at which the
// group's shards are locked: the wait for them may be longer than the caller's right lasts.
// A group that comes after its deadline fails the call with *LateError; what was charged
// for those before it stays charged. now is the clock at the last.
func (m *Memory) Take(ctx context.Context, epoch string, groups []Group) (results []Result, now int64, err error) {
	if epoch != m.epoch {
		return nil, 0, &EpochError{Actual: m.epoch}
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
	results = make([]Result, len(groups))
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
			return nil, 0, err
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

// takeGroup decides a group. The result has room for its limits.
func (m *Memory) takeGroup(w *work, g *Group, result *Result) (now int64, err error) {
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

// late is the error of a group that is decided after the deadline of its call.
func late(g *Group, now int64) error {
	if end := g.Limits[0].View.Deadline; end != 0 && now > end {
		return &lua.LateError{Now: now}
	}
	return nil
}

// begin reads the keys and views of a group, and tells which shards they are in.
func (w *work) begin(g *Group) (mask uint64, err error) {
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
		return k, fmt.Errorf("%w: %q is not a key made by lua.Key", ErrInvalid, key)
	}
	return k, nil
}

// takeLocked decides a group whose shards are locked.
func (m *Memory) takeLocked(w *work, g *Group, now int64, result *Result) {
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

// refuse has a group denied by those of its limits that have no place of their own, and
// charges nothing.
func refuse(w *work) {
	for i := range w.slots {
		if w.slots[i].crowded() {
			w.views[i].Cost = limit.MaxExact // more than any bucket holds
		}
	}
}

// find gives a key's record and its place, and completes the view by what the store
// knows; the key's shard is locked.
func (m *Memory) find(k id, v *limit.View, now int64) slot {
	if v.Phase == limit.Floor && v.HeardWait != 0 {
		v.Heard = m.heard.Load()
	}
	return m.shards[k.shard()].find(k, v, now)
}

// lock takes the shards of a mask in order, so that two groups cannot wait for
// each other.
func (m *Memory) lock(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		m.shards[bits.TrailingZeros64(mask)].mu.Lock()
	}
}

func (m *Memory) unlock(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		m.shards[bits.TrailingZeros64(mask)].mu.Unlock()
	}
}

// read is the time for the locked shards of a mask: read under the locks, and never
// before a time they have already seen.
func (m *Memory) read(mask uint64) int64 {
	now := m.clock()
	for rest := mask; rest != 0; rest &= rest - 1 {
		now = max(now, m.shards[bits.TrailingZeros64(rest)].last)
	}
	for ; mask != 0; mask &= mask - 1 {
		m.shards[bits.TrailingZeros64(mask)].last = now
	}
	return now
}
