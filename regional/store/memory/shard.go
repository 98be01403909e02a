package memory

import (
	"encoding/binary"
	"sync"

	"aliquot/limit"
	"aliquot/lua"
)

// id is a key in 20 bytes: the hash of the client, then the rule's number. A rule that changes its
// algorithm gets another number.
type id [20]byte

func parseID(key string) (k id, ok bool) {
	_, rule, hash, ok := lua.ParseKey(key)
	copy(k[:16], hash[:])
	binary.BigEndian.PutUint32(k[16:], rule)
	return k, ok
}

// shard returns the number of the key's shard. The hash is keyed, so a client cannot choose it.
func (k *id) shard() int { return int(k[15]^k[19]) % shardCount }

// shard holds a part of the keys under its own lock. cold holds the cold buckets that have lent
// nothing, and counted holds all other cold records. hot holds the records of hot keys, and cold
// records that carry a generation as a fence.
type shard struct {
	mu       sync.Mutex
	birth    int64  // the store's, microseconds
	stamp    uint32 // the store's
	last     int64  // the latest time seen
	most     int    // the limit of cold, of counted and of hot each
	peak     int    // the largest size of cold since its map was made
	cold     map[id]coldRecord
	counted  table[id]
	hot      table[id]
	overflow table[overflowKey]
	// entries is how many admissions all records together remember one by one.
	entries int
	// puts counts the writes since the last sweep.
	puts int
	// overflowed is when the first overflow record was used, in microseconds; 0: never.
	overflowed int64
}

// overflowKey identifies an overflow record within a shard. There is one record for each size of
// cold bucket, and for rights one for each size, algorithm and window.
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
	// sweepEach is how many records a write checks for expiry. It is more than one, so that a shard
	// empties faster than it fills. The check is made once for sweepPuts writes together, because
	// to start at a random place of a map takes longer than to look at a few records.
	sweepEach = 3
	sweepPuts = 16
	// sweepFull is how many records a write checks if it finds its shard full.
	sweepFull = 32
	// maxOverflow bounds a shard's overflow records, one for each size of floor. A rules file has
	// few sizes. Keys beyond the bound are denied while the shard is full.
	maxOverflow = 1024
	// entriesEach bounds the entries of a shard, as a multiple of its maximum number of records.
	entriesEach = 4
	// shrinkAt is the size from which a map that has become nearly empty is copied to a new map. A
	// map keeps its memory, and iterating over an empty large one takes long.
	shrinkAt = 1024
)

func (s *shard) init(most int, birth int64, stamp uint32) {
	s.most, s.birth, s.stamp = most, birth, stamp
	s.cold = map[id]coldRecord{}
	s.counted.init(&s.entries)
	s.hot.init(&s.entries)
	s.overflow.init(&s.entries)
}

// place names the table in which a record is, or will be put.
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

// crowded reports whether there is no room for a record of the key's own.
func (s *slot) crowded() bool { return s.place == nowhere || s.place == inOverflow }

// find returns a key's record and its place. For a new key it returns the record that the key
// starts with, and corrects the view.
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
		// The key may have spent from the overflow record of an earlier floor, which this lookup
		// does not find. So it starts with what it has earned since the floor changed.
		v.Birth = max(v.Birth, v.FloorSince)
	}
	own, fits := inCold, len(s.cold) < s.most || s.sweepCold(sweepFull, now) > 0
	if v.Algorithm.Counts() || now < v.Birth { // earlier contents may have lent: see limit.View
		own, fits = inCounted, s.countedFits(now)
	}
	switch {
	case fits && ok:
		// The key may have spent from the overflow record, so it starts with the tokens left there.
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

// canLend reports whether there is room for a record that lends tokens. A record shared by several
// keys lends nothing, because the store could not tell which key borrowed.
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

// sharesOverflow reports whether two limits of one group use the same overflow record. That record
// cannot be charged for both at once.
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

// put writes a record to its place and drops a few expired records. v is the record's view.
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

// crowded reports whether there is no room to remember one more admission by itself.
func (s *shard) crowded(v *limit.View, now int64) bool {
	if !v.Algorithm.Logs() || s.entries < entriesEach*s.most {
		return false
	}
	s.counted.sweep(sweepFull, now)
	s.hot.sweep(sweepFull, now)
	s.overflow.sweep(sweepFull, now)
	return s.entries >= entriesEach*s.most
}

// sweepCold looks at n records from a random place, drops those that are full and returns how many
// it dropped.
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
