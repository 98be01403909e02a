package penalty

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/budget"
)

const (
	// hotSets is the number of sets, and hotWays the number of keys in one: 2,048 keys in some 150
	// KiB. A key with more than one in hotWays of the checks of its set is never lost. That is one in
	// 2,048 of all checks if the others are evenly spread.
	hotSets = 256
	hotWays = 8
	// halfLife is the time after which a check counts half. So rates follow within seconds, and a
	// burst of a second does not look like a rate.
	halfLife = 5 * time.Second
	// youngest is the shortest time over which a rate is computed, so that two checks within a
	// millisecond are not a thousand a second.
	youngest = time.Second
	// hotHits is the smallest number of samples of a key whose rate is shown.
	hotHits = 8
	// A set that takes sampledMost samples within sampleSpan halves its part of the checks. One that
	// takes fewer than sampledLeast doubles it. With so many samples rates are right to 5 %.
	sampledMost, sampledLeast = 256, 64
	sampleSpan                = time.Second
	maxShift                  = 20
	// rescaleAt is the weight, as a power of two, at which the counts of a set are scaled down. A
	// float64 holds far larger ones.
	rescaleAt = 64
)

// HotKeys counts how often keys are checked and denied, by the space-saving algorithm
// (Metwally, Agrawal, El Abbadi 2005) in sets, with counts that halve every five
// seconds. At high rates it samples the checks at random, and counts each sample for the checks
// that it stands for, so rates stay unbiased. Only NewHotKeys and Top allocate. Safe for concurrent
// use.
type HotKeys struct {
	draw func() uint32
	// One in 1<<shift checks of a set is a sample. Each check reads the shift of its set, and few change it, so they lie
	// apart from what each sample changes. The set's mu guards the changes.
	shifts [hotSets]atomic.Uint32
	sets   [hotSets]hotSet
}

// NewHotKeys returns an empty HotKeys. draw returns random numbers, evenly spread over all bits. It
// must be safe for concurrent use.
func NewHotKeys(draw func() uint32) *HotKeys { return &HotKeys{draw: draw} }

type hotSet struct {
	mu      sync.Mutex
	since   budget.Instant // when the weight of a check was 1
	from    budget.Instant // when the count of samples began
	samples int
	keys    [hotWays]hotKey
}

// hotKey is a key with its counts. over is the count of the key whose place it took: the key had no
// more checks than that before.
type hotKey struct {
	id             budget.KeyID
	first          budget.Instant
	hits           uint32
	checks, denied float64
	over           float64
}

// Seen counts one check of a key.
func (h *HotKeys) Seen(key budget.KeyID, denied bool, now budget.Instant) {
	h.SeenTimes(key, 1, denied, now)
}

// SeenTimes counts several checks of a key, all denied or all admitted. A check that is no sample writes to no memory that
// other processors read.
func (h *HotKeys) SeenTimes(key budget.KeyID, times int32, denied bool, now budget.Instant) {
	at := placeOf(key) % hotSets
	for times > 0 {
		stands := int32(1) << h.shifts[at].Load()
		if times < stands && int32(h.draw()&uint32(stands-1)) >= times {
			return
		}
		h.count(at, key, stands, denied, now)
		times -= stands
	}
}

// count counts a sample of a set, which stands for so many checks.
func (h *HotKeys) count(at uint32, key budget.KeyID, stands int32, denied bool, now budget.Instant) {
	s := &h.sets[at]
	s.mu.Lock()
	defer s.mu.Unlock()
	weight := s.weight(now) * float64(stands)
	k := s.find(key, now)
	k.hits++
	k.checks += weight
	if denied {
		k.denied += weight
	}
	s.follow(&h.shifts[at], now)
}

// follow adapts the part of the checks that are samples to the traffic. The caller holds mu.
func (s *hotSet) follow(shift *atomic.Uint32, now budget.Instant) {
	s.samples++
	took := now.Sub(s.from)
	switch {
	case s.samples >= sampledMost && took < sampleSpan:
		shift.Store(min(shift.Load()+1, maxShift))
	case took < sampleSpan:
		return
	case s.samples < sampledLeast && shift.Load() > 0:
		shift.Store(shift.Load() - 1)
	}
	s.from, s.samples = now, 0
}

// weight returns the count of a check at now. The caller holds mu.
func (s *hotSet) weight(now budget.Instant) float64 {
	age := float64(now.Sub(s.since)) / float64(halfLife)
	if age < rescaleAt {
		return math.Exp2(age)
	}
	for i := range s.keys {
		k := &s.keys[i]
		by := math.Exp2(-age)
		k.checks, k.denied, k.over = k.checks*by, k.denied*by, k.over*by
	}
	s.since = now
	return 1
}

// find returns the place of a key. A new key takes the place of the key with the smallest count. The
// caller holds mu.
func (s *hotSet) find(id budget.KeyID, now budget.Instant) *hotKey {
	least := &s.keys[0]
	for i := range s.keys {
		k := &s.keys[i]
		if k.id == id && k.hits > 0 {
			return k
		}
		if k.checks+k.over < least.checks+least.over {
			least = k
		}
	}
	*least = hotKey{id: id, first: now, over: least.checks + least.over}
	return least
}

// HotKey is a key and its rates, a second, over the last seconds.
type HotKey struct {
	Key            budget.KeyID
	Checks, Denied float64
}

// Top returns the n keys that are checked most, the first one most, with what they were
// surely checked.
func (h *HotKeys) Top(n int, now budget.Instant) []HotKey {
	var out []HotKey
	for i := range h.sets {
		out = h.sets[i].append(out, now)
	}
	slices.SortFunc(out, func(a, b HotKey) int {
		switch {
		case a.Checks > b.Checks:
			return -1
		case a.Checks < b.Checks:
			return 1
		}
		return a.Key.Compare(b.Key)
	})
	return out[:min(n, len(out))]
}

func (s *hotSet) append(out []HotKey, now budget.Instant) []HotKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	weight := s.weight(now)
	for i := range s.keys {
		k := &s.keys[i]
		if k.hits < hotHits {
			continue
		}
		span := weight * counted(max(now.Sub(k.first), youngest)).Seconds()
		out = append(out, HotKey{Key: k.id, Checks: k.checks / span, Denied: k.denied / span})
	}
	return out
}

// counted is the time whose checks, counted whole, are as many as those of an age are
// with halving: what a steady rate is to be divided by.
func counted(age time.Duration) time.Duration {
	whole := float64(halfLife) / math.Ln2
	return time.Duration(whole * -math.Expm1(-float64(age)/whole))
}
