package store

import (
	"encoding/binary"
	"sync"

	"aliquot/limit"
	"aliquot/lua"
)

// id is a key in 20 bytes: the hash, then the rule's number. A rule of another algorithm
// has another number.
type id [20]byte

func parseID(key string) (k id, ok bool) {
	_, rule, hash, ok := lua.ParseKey(key)
	copy(k[:16], hash[:])
	binary.BigEndian.PutUint32(k[16:], rule)
	return k, ok
}

// shard is the number of the key's shard. The hash is keyed, so a client cannot
// choose it.
func (k *id) shard() int { return int(k[15]^k[19]) % shardCount }

// shard is a part of the keys with its own lock. Cold buckets of which nothing is lent
// stand in cold, all other cold records in counted; hot has the hot ones, and cold ones that carry a generation
// as a fence.
type shard struct {
	mu       sync.Mutex
	birth    int64  // the store's, microseconds
	stamp    uint32 // the store's
	last     int64  // the latest time seen
	most     int    // of cold, of counted, and of hot
	peak     int    // cold's length since its map was made
	cold     map[id]coldRecord
	counted  table[id]
	hot      table[id]
	overflow table[overflowKey]
	// entries are all the admissions that records remember each by itself.
	entries int
	// puts counts what was written since the last sweep.
	puts int
	// overflowed is when the first overflow record was used; 0: never.
	overflowed int64
}

// overflowKey tells the overflow records of a shard apart: one for each size of cold
// bucket, and of rights by algorithm and window.
type overflowKey struct {
	bucket    limit.Bucket
	algorithm limit.Algorithm
	window    int64
}

func overflowOf(v *limit.View) overflowKey {
	if v.Algorithm.Counts() {
		return overflowKey{bucket: limit.Bucket{Cap: v.Floor.Cap}, algorithm: v.Algorithm, window: v.Window}
	}
	return overflowKey{bucket: v.Cold()}
}

const (
	// sweepEach is how many records a write looks at for expired ones: more than
	// one, so that a shard empties faster than it fills. sweepPuts writes do so together:
	// to begin with a map at a random place takes longer than to look at a few records.
	sweepEach = 3
	sweepPuts = 16
	// sweepFull is the same for a write that finds its shard full.
	sweepFull = 32
	// maxOverflow bounds a shard's overflow records, one for each size of floor: a
	// rules file has few sizes. Keys beyond it are denied while the shard is full.
	maxOverflow = 1024
	// entriesEach bounds the entries of a shard, for each record that it has room for.
	entriesEach = 4
	// shrinkAt is the size from which a map that has emptied is made anew: maps
	// keep their memory, and iterating over an empty one takes long.
	shrinkAt = 1024
)

func (s *shard) init(most int, birth int64, stamp uint32) {
	s.most, s.birth, s.stamp = most, birth, stamp
	s.cold = map[id]coldRecord{}
	s.counted.init(&s.entries)
	s.hot.init(&s.entries)
	s.overflow.init(&s.entries)
}

// place is where a record stands, or will.
type place uint8

const (
	nowhere place = iota
	inCold
	inCounted
	inHot
	inOverflow
)

// slot is a record with its place.
type slot struct {
	place  place
	record limit.Record
	shared overflowKey // of an overflow record
}

// crowded tells that there is no room for a record of the key's own.
func (s *slot) crowded() bool { return s.place == nowhere || s.place == inOverflow }

// find gives a key's record, or the one that a new key starts with, and its place. It
// corrects the view of a new key.
func (s *shard) find(k id, v *limit.View, now int64) slot {
	if r, ok := s.hot.get(k, now); ok {
		return slot{place: inHot, record: r}
	}
	if r, ok := s.counted.get(k, now); ok {
		return slot{place: inCounted, record: r}
	}
	if c, ok := s.cold[k]; ok {
		if !s.expired(c, now) {
			return slot{place: inCold, record: s.record(c)}
		}
		delete(s.cold, k)
	}
	return s.findNew(v, now)
}

func (s *shard) findNew(v *limit.View, now int64) slot {
	if v.Hot {
		if len(s.hot.records) >= s.most && s.hot.sweep(sweepFull, now) == 0 {
			return slot{place: nowhere}
		}
		return slot{place: inHot}
	}
	key := overflowOf(v)
	shared, ok := s.overflow.get(key, now)
	if s.overflowed != 0 && s.overflowed < v.FloorSince {
		// The key may have spent from the overflow record of an earlier floor,
		// which is not found by this one: it starts with what it earned since.
		v.Birth = max(v.Birth, v.FloorSince)
	}
	own, fits := inCold, len(s.cold) < s.most || s.sweepCold(sweepFull, now) > 0
	if v.Algorithm.Counts() || now < v.Birth { // earlier contents may have lent: see limit.View
		own, fits = inCounted, s.countedFits(now)
	}
	switch {
	case fits && ok:
		// The key may have spent from the overflow record: it starts with what is
		// left there.
		return slot{place: own, record: shared}
	case fits:
		return slot{place: own}
	case ok, len(s.overflow.records) < maxOverflow, s.overflow.sweep(maxOverflow, now) > 0:
		return slot{place: inOverflow, record: shared, shared: key}
	}
	return slot{place: nowhere}
}

func (s *shard) countedFits(now int64) bool {
	return len(s.counted.records) < s.most || s.counted.sweep(sweepFull, now) > 0
}

// canLend tells whether there is room for a record of which something is lent. That of
// several keys lends nothing: who has it would not be known.
func (s *shard) canLend(at place, now int64) bool {
	switch at {
	case inHot, inCounted:
		return true
	case inCold:
		return s.countedFits(now)
	default:
		return false
	}
}

// sharesOverflow reports whether two limits of one group stand in one overflow
// record; it cannot be charged for both at once.
func sharesOverflow(slots []slot) bool {
	for i := range slots {
		for j := range i {
			if slots[i].place == inOverflow && slots[j].place == inOverflow && slots[i].shared == slots[j].shared {
				return true
			}
		}
	}
	return false
}

// put writes a record back to its place and drops a few that have expired; v is its
// view.
func (s *shard) put(k id, at slot, r limit.Record, v *limit.View) {
	expires := int64(0)
	if !r.Hot {
		expires = r.At + r.Keep(v)*1000
	}
	if at.place == inOverflow {
		s.overflow.put(at.shared, r, expires)
		if s.overflowed == 0 {
			s.overflowed = r.At
		}
		return
	}
	switch {
	case r.Hot || r.Gen > 0:
		delete(s.cold, k)
		s.counted.drop(k)
		s.hot.put(k, r, expires)
	case v.Algorithm.Counts() || r.Lent > 0:
		switch at.place {
		case inHot:
			s.hot.drop(k)
		case inCold:
			delete(s.cold, k)
		}
		s.counted.put(k, r, expires)
	default:
		switch at.place {
		case inHot:
			s.hot.drop(k)
		case inCounted:
			s.counted.drop(k)
		}
		s.cold[k] = s.newColdRecord(r, expires)
		s.peak = max(s.peak, len(s.cold))
	}
	if s.puts++; s.puts == sweepPuts {
		s.puts = 0
		s.sweepCold(sweepPuts*sweepEach, r.At)
		s.counted.sweep(sweepPuts*sweepEach, r.At)
		s.hot.sweep(sweepPuts, r.At)
	}
}

// crowded tells that there is no room to remember one more admission by itself.
func (s *shard) crowded(v *limit.View, now int64) bool {
	if !v.Algorithm.Logs() || s.entries < entriesEach*s.most {
		return false
	}
	s.counted.sweep(sweepFull, now)
	s.hot.sweep(sweepFull, now)
	s.overflow.sweep(sweepFull, now)
	return s.entries >= entriesEach*s.most
}

// sweepCold looks at n records from a random place and drops those that are full.
func (s *shard) sweepCold(n int, now int64) (dropped int) {
	for k, c := range s.cold {
		if s.expired(c, now) {
			delete(s.cold, k)
			dropped++
		}
		if n--; n == 0 {
			break
		}
	}
	if s.peak >= shrinkAt && len(s.cold) < s.peak/8 {
		s.shrink()
	}
	return dropped
}

func (s *shard) shrink() {
	smaller := make(map[id]coldRecord, len(s.cold))
	for k, c := range s.cold {
		smaller[k] = c
	}
	s.cold, s.peak = smaller, len(smaller)
}
