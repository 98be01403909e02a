package store

import (
	"encoding/binary"
	"math"
	"sync"

	"aliquot/limit"
	"aliquot/lua"
)

// id is a key in 20 bytes: the hash, then the rule's number.
type id [20]byte

func parseID(key string) (k id, ok bool) {
	rule, hash, ok := lua.ParseKey(key)
	copy(k[:16], hash[:])
	binary.BigEndian.PutUint32(k[16:], rule)
	return k, ok
}

// shard is the number of the key's shard. The hash is keyed, so a client cannot
// choose it.
func (k *id) shard() int { return int(k[15]^k[19]) % shardCount }

// coldRecord is a cold limit.Record in 24 bytes; it has no generation, and its
// stamp is the store's.
type coldRecord struct {
	tokens  limit.Tokens
	at      int64
	carry   int32
	expires uint32 // when it is full, in whole seconds since the store's birth
}

// never is an expiry beyond what a coldRecord can tell, 136 years.
const never = math.MaxUint32

// hotRecord is a hot record, or a cold one that carries a generation as a fence.
type hotRecord struct {
	limit.Record
	expires int64 // 0: never
}

// shard is a part of the keys with its own lock.
type shard struct {
	mu       sync.Mutex
	birth    int64  // the store's, microseconds
	stamp    uint32 // the store's
	last     int64  // the latest time seen
	most     int    // of cold, and of hot
	peak     int    // cold's length since its map was made
	cold     map[id]coldRecord
	hot      map[id]hotRecord
	overflow map[limit.Bucket]coldRecord // by cold bucket
	// overflowed is when the first overflow bucket was used; 0: never.
	overflowed int64
}

const (
	// sweepEach is how many records a write looks at for expired ones: more than
	// one, so that a shard empties faster than it fills.
	sweepEach = 3
	// sweepFull is the same for a write that finds its shard full.
	sweepFull = 32
	// maxOverflow bounds a shard's overflow buckets, one for each size of floor: a
	// rules file has few sizes. Keys beyond it are denied while the shard is full.
	maxOverflow = 1024
	// shrinkAt is the size from which a map that has emptied is made anew: maps
	// keep their memory, and iterating over an empty one takes long.
	shrinkAt = 1024
)

func (s *shard) init(most int, birth int64, stamp uint32) {
	s.most, s.birth, s.stamp = most, birth, stamp
	s.cold = map[id]coldRecord{}
	s.hot = map[id]hotRecord{}
	s.overflow = map[limit.Bucket]coldRecord{}
}

// place is where a record stands, or will.
type place uint8

const (
	nowhere place = iota
	inCold
	inHot
	inOverflow
)

// slot is a record with its place.
type slot struct {
	place  place
	record limit.Record
	bucket limit.Bucket // of an overflow bucket
}

// find gives a key's record, or the one that a new key starts with, and its place. It
// corrects the view of a new key.
func (s *shard) find(k id, v *limit.View, now int64) slot {
	if h, ok := s.hot[k]; ok {
		if h.expires == 0 || now < h.expires {
			return slot{place: inHot, record: h.Record}
		}
		delete(s.hot, k)
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
		if len(s.hot) >= s.most && s.sweepHot(sweepFull, now) == 0 {
			return slot{place: nowhere}
		}
		return slot{place: inHot}
	}
	bucket := v.Cold()
	shared, ok := s.overflow[bucket]
	if ok && s.expired(shared, now) {
		delete(s.overflow, bucket)
		ok = false
	}
	if s.overflowed != 0 && s.overflowed < v.FloorSince {
		// The key may have spent from the overflow bucket of an earlier floor,
		// which is not found by this one: it starts with what it earned since.
		v.Birth = max(v.Birth, v.FloorSince)
	}
	fits := len(s.cold) < s.most || s.sweepCold(sweepFull, now) > 0
	switch {
	case fits && ok:
		// The key may have spent from the overflow bucket: it starts with what is
		// left there.
		return slot{place: inCold, record: s.record(shared)}
	case fits:
		return slot{place: inCold}
	case ok:
		return slot{place: inOverflow, record: s.record(shared), bucket: bucket}
	case len(s.overflow) < maxOverflow || s.sweepOverflow(now) > 0:
		return slot{place: inOverflow, bucket: bucket}
	}
	return slot{place: nowhere}
}

// sharesOverflow reports whether two limits of one group stand in one overflow
// bucket; it cannot be charged for both at once.
func sharesOverflow(slots []slot) bool {
	for i := range slots {
		for j := range i {
			if slots[i].place == inOverflow && slots[j].place == inOverflow && slots[i].bucket == slots[j].bucket {
				return true
			}
		}
	}
	return false
}

// put writes a record back to its place and drops a few that have expired; cold is
// its view's cold bucket.
func (s *shard) put(k id, at slot, r limit.Record, cold limit.Bucket) {
	expires := int64(0)
	if !r.Hot {
		expires = r.At + limit.TTL(r.Tokens, cold)*1000
	}
	if at.place == inOverflow {
		s.overflow[at.bucket] = s.newColdRecord(r, expires)
		if s.overflowed == 0 {
			s.overflowed = r.At
		}
		return
	}
	if r.Hot || r.Gen > 0 {
		delete(s.cold, k)
		s.hot[k] = hotRecord{Record: r, expires: expires}
	} else {
		delete(s.hot, k)
		s.cold[k] = s.newColdRecord(r, expires)
		s.peak = max(s.peak, len(s.cold))
	}
	s.sweepCold(sweepEach, r.At)
	s.sweepHot(1, r.At)
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

func (s *shard) sweepHot(n int, now int64) (dropped int) {
	for k, h := range s.hot {
		if h.expires != 0 && now >= h.expires {
			delete(s.hot, k)
			dropped++
		}
		if n--; n == 0 {
			break
		}
	}
	return dropped
}

func (s *shard) sweepOverflow(now int64) (dropped int) {
	for bucket, c := range s.overflow {
		if s.expired(c, now) {
			delete(s.overflow, bucket)
			dropped++
		}
	}
	return dropped
}

// newColdRecord rounds the expiry up: a record that leaves early comes back full.
func (s *shard) newColdRecord(r limit.Record, expires int64) coldRecord {
	seconds := (expires-s.birth)/1_000_000 + 1
	return coldRecord{tokens: r.Tokens, at: r.At, carry: int32(r.Carry), expires: uint32(min(seconds, never))}
}

func (s *shard) record(c coldRecord) limit.Record {
	return limit.Record{Stamp: s.stamp, Tokens: c.tokens, At: c.at, Carry: int64(c.carry)}
}

func (s *shard) expired(c coldRecord, now int64) bool {
	return c.expires != never && now >= s.birth+int64(c.expires)*1_000_000
}
