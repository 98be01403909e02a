// Package sample remembers a sample of the decided requests, and replays them under other rules.
package sample

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/modes"
)

// Bounds of the sample of recent requests: at most 65,536 requests, 32 MiB and ten minutes.
const (
	sampleSegments  = 16
	segmentRequests = 4096
	// The last request of a segment comes on top of segmentBytes, and has a few hundred KiB at
	// most. The buffer of the segment may be a quarter larger. With both a segment stays below 2
	// MiB.
	segmentBytes = 5 << 18
	sampleFor    = 10 * time.Minute
	// segmentShortest is the time that a full segment must cover, so that the sample covers a
	// minute while one segment is being filled. A segment that takes segmentLongest leaves room for
	// at least twice as many keys.
	segmentShortest = time.Minute / (sampleSegments - 1)
	segmentLongest  = 4 * segmentShortest
	// maxOneIn is far above what one process can need.
	maxOneIn = 1 << 20
)

// Sample remembers a sample of the decided requests, to replay them under other rules. It remembers
// all requests of a key or none. As traffic grows it keeps one in 2, 4, ... of the keys, chosen by
// their hash. Safe for concurrent use. A request outside of the sample takes no lock.
type Sample struct {
	now  func() budget.Instant
	seed maphash.Seed
	mask atomic.Uint64 // n-1, where one in n keys is in the sample; n is a power of 2

	mu       sync.Mutex
	segments []*segment // the oldest first; requests are written to the last one

	early early
}

// segment is a part of the sample. Requests are only appended to data, so a reader may keep the
// part that it has taken.
type segment struct {
	oneIn       uint64
	first, last budget.Instant
	requests    int
	data        []byte
}

// New returns an empty sample, by the boot clock.
func New(now func() budget.Instant) *Sample {
	return &Sample{now: now, seed: maphash.MakeSeed()}
}

// See adds a decided request to the sample if its key belongs to it. One that passed before the rules were
// known is counted besides.
func (s *Sample) See(d *charge.Decision, r *charge.Request) {
	if d.Mode == modes.NoRulesYet && d.Passes() {
		s.early.add(r, s.now())
	}
	key := s.keyOf(d, r)
	if key&s.mask.Load() != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	at := s.open(now)
	if key&(at.oneIn-1) != 0 {
		return // a new segment that takes fewer keys has just begun
	}
	at.last = max(at.last, now)
	at.requests++
	at.data = appendRecent(at.data, at.last.Sub(at.first), key, r)
}

// keyOf returns a hash that stands for a request's key. It is the hash of the first key that was
// checked, which costs nothing extra. Without one it is the hash of the API key, or else of the
// address.
func (s *Sample) keyOf(d *charge.Decision, r *charge.Request) uint64 {
	for i := range d.CachedVerdicts {
		if v := &d.CachedVerdicts[i]; len(v.Rule.Key) > 0 {
			return binary.BigEndian.Uint64(v.Key.Hash[:])
		}
	}
	for _, g := range d.Groups {
		for i := range g.Charges {
			if a := &g.Charges[i]; len(a.Rule.Key) > 0 {
				return binary.BigEndian.Uint64(a.Key.Hash[:])
			}
		}
	}
	if apiKey := r.Attributes.Get("api_key"); apiKey != "" {
		return maphash.String(s.seed, apiKey)
	}
	return maphash.String(s.seed, r.Attributes.Get("ip"))
}

// Age lets time pass while no request of the sample comes: the sample then takes more keys, and
// drops old requests.
func (s *Sample) Age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open(s.now())
}

// open returns the segment to write to, and begins a new one if necessary. The caller holds mu.
func (s *Sample) open(now budget.Instant) *segment {
	if n := len(s.segments); n > 0 {
		at := s.segments[n-1]
		full := at.requests >= segmentRequests || len(at.data) >= segmentBytes
		took, longest := now.Sub(at.first), segmentLongest
		if at.oneIn == 1 {
			longest = sampleFor / (sampleSegments - 1)
		}
		if !full && took < longest {
			return at
		}
		s.mask.Store(nextOneIn(at.oneIn, took, full) - 1)
	}
	s.forget(now)
	at := &segment{oneIn: s.mask.Load() + 1, first: now, last: now}
	s.segments = append(s.segments, at)
	return at
}

// nextOneIn returns the sampling of the next segment. It follows the traffic that the ending
// segment has seen.
func nextOneIn(oneIn uint64, took time.Duration, full bool) uint64 {
	for full && took < segmentShortest && oneIn < maxOneIn {
		oneIn *= 2
		took = max(2*took, 1)
	}
	if took >= segmentLongest && oneIn > 1 {
		oneIn /= 2
	}
	return oneIn
}

// forget drops segments that are too old, and makes room for one more. The caller holds mu.
func (s *Sample) forget(now budget.Instant) {
	keep := 0
	for keep < len(s.segments) && (now.Sub(s.segments[keep].last) > sampleFor || len(s.segments)-keep >= sampleSegments) {
		s.segments[keep] = nil
		keep++
	}
	s.segments = s.segments[keep:]
}

// Request is one request of the sample.
type Request struct {
	charge.Request
	At  budget.Instant
	key uint64
}

// Part is a copy of the sample, to be replayed.
type Part struct {
	segments []segment
	oneIn    uint64
	oldest   budget.Instant
}

// Take returns the present sample. In all of it, it keeps only one in as many keys as the sparsest
// segment has. So no key's requests are there for only a part of the time.
func (s *Sample) Take() Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := Part{oneIn: s.mask.Load() + 1, oldest: now.Add(-sampleFor)}
	for _, at := range s.segments {
		if at.last >= out.oldest {
			out.segments = append(out.segments, *at)
			out.oneIn = max(out.oneIn, at.oneIn)
		}
	}
	return out
}

// Each calls do with every request in order until do returns false. All calls get the same
// Request, with other contents.
func (s *Part) Each(do func(*Request) bool) {
	var r Request
	for i := range s.segments {
		at := &s.segments[i]
		for text := string(at.data); text != ""; {
			text = r.read(text, at.first)
			if r.At >= s.oldest && r.key&(s.oneIn-1) == 0 && !do(&r) {
				return
			}
		}
	}
}
