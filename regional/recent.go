package regional

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
)

// The sample of recent requests: at most 65,536 of them, 32 MiB and ten minutes.
const (
	sampleSegments  = 16
	segmentRequests = 4096
	// A segment's last request comes on top of segmentBytes, a few hundred KiB at most,
	// and its buffer may be a quarter larger: with both a segment stays below 2 MiB.
	segmentBytes = 5 << 18
	sampleFor    = 10 * time.Minute
	// segmentShortest is what a full segment must cover, so that the sample covers a
	// minute: one segment is being filled. One that takes segmentLongest leaves room for
	// twice as many keys, or more.
	segmentShortest = time.Minute / (sampleSegments - 1)
	segmentLongest  = 4 * segmentShortest
	// maxOneIn is far above what one process decides.
	maxOneIn = 1 << 20
)

// recent remembers requests that were decided, for replays under other rules. It remembers all
// requests of a key or none: as traffic grows it keeps to one in 2, 4, ... of the keys,
// by their hash. Safe for concurrent use; what it does not remember passes it without a
// lock.
type recent struct {
	now  func() budget.Instant
	seed maphash.Seed
	mask atomic.Uint64 // one in how many keys, less one

	mu       sync.Mutex
	segments []*segment // the oldest first; the last one is written to
}

// segment is a part of the sample. Requests are appended to data, of which a reader may
// hold what was there when it came.
type segment struct {
	oneIn       uint64
	first, last budget.Instant
	requests    int
	data        []byte
}

func newRecent(now func() budget.Instant) *recent {
	return &recent{now: now, seed: maphash.MakeSeed()}
}

// see remembers a decided request if its key is of the sample.
func (s *recent) see(d *decision, r *request) {
	key := s.keyOf(d, r)
	if key&s.mask.Load() != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	at := s.open(now)
	if key&(at.oneIn-1) != 0 {
		return // a thinner segment has just begun
	}
	at.last = max(at.last, now)
	at.requests++
	at.data = appendRecent(at.data, at.last.Sub(at.first), key, r)
}

// keyOf is what stands for a request's key: the hash of the first that was asked, which
// costs nothing more, or that of the API key or else the address where none was.
func (s *recent) keyOf(d *decision, r *request) uint64 {
	for i := range d.all {
		if v := &d.all[i]; len(v.rule.Key) > 0 {
			return binary.BigEndian.Uint64(v.key.Hash[:])
		}
	}
	for _, g := range d.groups {
		for i := range g.asks {
			if a := &g.asks[i]; len(a.rule.Key) > 0 {
				return binary.BigEndian.Uint64(a.key.Hash[:])
			}
		}
	}
	if apiKey := r.attributes.Get("api_key"); apiKey != "" {
		return maphash.String(s.seed, apiKey)
	}
	return maphash.String(s.seed, r.attributes.Get("ip"))
}

// age lets time pass where no request of the sample comes: it takes more keys, and
// forgets what is old.
func (s *recent) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open(s.now())
}

// open is the segment to write to. The caller holds mu.
func (s *recent) open(now budget.Instant) *segment {
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

// nextOneIn follows the traffic, as a segment that ends has seen it.
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

// forget drops what is too old, and makes room for one segment. The caller holds mu.
func (s *recent) forget(now budget.Instant) {
	keep := 0
	for keep < len(s.segments) && (now.Sub(s.segments[keep].last) > sampleFor || len(s.segments)-keep >= sampleSegments) {
		s.segments[keep] = nil
		keep++
	}
	s.segments = s.segments[keep:]
}

// recentRequest is a request of the past.
type recentRequest struct {
	request
	at  budget.Instant
	key uint64
}

// recentPart is what there is to replay.
type recentPart struct {
	segments []segment
	oneIn    uint64
	oldest   budget.Instant
}

// take returns the sample as it is now: of all of it one in as many keys as of its
// thinnest part, so that no key's requests are there for a part of the time only.
func (s *recent) take() recentPart {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := recentPart{oneIn: s.mask.Load() + 1, oldest: now.Add(-sampleFor)}
	for _, at := range s.segments {
		if at.last >= out.oldest {
			out.segments = append(out.segments, *at)
			out.oneIn = max(out.oneIn, at.oneIn)
		}
	}
	return out
}

// each calls do with every request in order until it returns false. The request is one
// and the same each time.
func (s *recentPart) each(do func(*recentRequest) bool) {
	var r recentRequest
	for i := range s.segments {
		at := &s.segments[i]
		for text := string(at.data); text != ""; {
			text = r.read(text, at.first)
			if r.at >= s.oldest && r.key&(s.oneIn-1) == 0 && !do(&r) {
				return
			}
		}
	}
}
