package sample

import (
	"sync"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
)

// Bounds of what is remembered of the requests before the rules: kinds of requests, and their bytes.
const (
	maxEarly      = 10_000
	maxEarlyBytes = 8 << 20
)

// early counts the requests that passed before the rules were known, alike ones together. So it knows of
// a busy client too, of which the sample may have nothing. Beyond its bounds new kinds are not counted.
// The zero value is empty. Safe for concurrent use.
type early struct {
	mu    sync.Mutex
	seen  map[string]earlyUse // by the text of the request
	bytes int
}

// earlyUse is how often a request came, and when it first did.
type earlyUse struct {
	times int64
	first budget.Instant
}

func (e *early) add(r *charge.Request, now budget.Instant) {
	text := AppendRequest(nil, r)
	e.mu.Lock()
	defer e.mu.Unlock()
	use, known := e.seen[string(text)]
	if !known {
		if len(e.seen) >= maxEarly || e.bytes+len(text) > maxEarlyBytes {
			return
		}
		if e.seen == nil {
			e.seen = map[string]earlyUse{}
		}
		use.first, e.bytes = now, e.bytes+len(text)
	}
	use.times++
	e.seen[string(text)] = use
}

// TakeEarly calls do with every request that passed before the rules were known, how often it came and when
// it first did, and forgets them. do must not keep the request: all calls get the same one.
func (s *Sample) TakeEarly(do func(r *charge.Request, times int64, first budget.Instant)) {
	s.early.mu.Lock()
	seen := s.early.seen
	s.early.seen, s.early.bytes = nil, 0
	s.early.mu.Unlock()
	var r charge.Request
	for text, use := range seen {
		ReadRequest(&r, text)
		do(&r, use.times, use.first)
	}
}
