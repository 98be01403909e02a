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
	// hotSets sets of hotWays keys are remembered, 2,048 keys in some 150 KiB. A key
	// that has more than one in hotWays of its set's checks is never lost, which is one
	// in 2,048 of all as far as the others are spread.
	hotSets = 256
	hotWays = 8
	// halfLife is how soon what was counts half: rates follow within seconds, and a
	// burst of a second does not look like a rate.
	halfLife = 5 * time.Second
	// youngest is the age that a key's rate is of at least, so that two checks within a
	// millisecond are not a thousand a second.
	youngest = time.Second
	// hotHits is how many samples of a key make its rate worth telling.
	hotHits = 8
	// A set takes sampledMost samples a second at most, or halves them; below
	// sampledLeast it doubles them. Rates are right to 2 % by so many.
	sampledMost, sampledLeast = 512, 128
	sampleSpan                = time.Second
	maxShift                  = 20
	// rescaleAt is the weight, as a power of two, at which a set's counts are made small
	// again: far from where a float64 ends.
	rescaleAt = 64
)

// HotKeys counts how often keys are checked and denied, by the space-saving algorithm
// (Metwally, Agrawal, El Abbadi 2005) in sets, with counts that halve every five
// seconds. At high rates it looks at a part of the checks, drawn by chance, and counts
// each for as many as it stands for, so that rates stay unbiased. Safe for concurrent
// use; it never allocates after NewHotKeys but in Top.
type HotKeys struct {
	draw func() uint32
	sets [hotSets]hotSet
}

// NewHotKeys makes an empty HotKeys. Draw returns chance, evenly spread over all bits,
// and is safe for concurrent use.
func NewHotKeys(draw func() uint32) *HotKeys { return &HotKeys{draw: draw} }

type hotSet struct {
	// skip is how many checks are passed over before the next one is looked at.
	skip atomic.Int32

	mu      sync.Mutex
	shift   uint32         // one in 1<<shift checks is looked at
	since   budget.Instant // when the weight of a check was 1
	from    budget.Instant // the samples are counted from here
	samples int
	keys    [hotWays]hotKey
}

// hotKey is a key with what was counted since it came, and what it took over from the
// one whose place it took: more than that it cannot have had before.
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

// SeenTimes is Seen for so many checks of a key.
func (h *HotKeys) SeenTimes(key budget.KeyID, times int32, denied bool, now budget.Instant) {
	s := &h.sets[placeOf(key)%hotSets]
	for times > 0 {
		left := s.skip.Add(-times)
		if left >= 0 {
			return
		}
		// The check that the skip ended at is looked at; what is below it comes after that. Where
		// others took the skip below zero first, it is the first of these.
		times = min(-left, times) - 1
		s.count(key, denied, now, h.draw)
	}
}

// count looks at a check, which stands for those that were passed over, and draws how many
// are next: as many as one in 1<<shift leaves on average.
func (s *hotSet) count(key budget.KeyID, denied bool, now budget.Instant, draw func() uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shift > 0 && s.skip.Load() >= 0 {
		return // another check of this moment stands for this one too
	}
	weight := s.weight(now)
	k := s.find(key, now)
	k.hits++
	k.checks += weight * float64(uint32(1)<<s.shift)
	if denied {
		k.denied += weight * float64(uint32(1)<<s.shift)
	}
	s.follow(now)
	if s.shift > 0 {
		s.skip.Store(int32(draw() % (2<<s.shift - 1)))
	} else {
		s.skip.Store(0)
	}
}

// follow lets the part that is looked at follow the traffic. The caller holds mu.
func (s *hotSet) follow(now budget.Instant) {
	s.samples++
	took := now.Sub(s.from)
	switch {
	case s.samples >= sampledMost && took < sampleSpan:
		s.shift = min(s.shift+1, maxShift)
	case took < sampleSpan:
		return
	case s.samples < sampledLeast && s.shift > 0:
		s.shift--
	}
	s.from, s.samples = now, 0
}

// weight is what a check at now counts. The caller holds mu.
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

// find is the key's place; a new key takes that of the one with the least. The caller
// holds mu.
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
