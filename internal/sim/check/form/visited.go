package form

import "sync"

// Visited remembers the states that were reached, by the hash of their canonical form, and how much
// the ideal bucket held. A state that was reached with less can do nothing more with more. The
// zero value has none. It is safe for concurrent use.
//
// With 64 bits, the chance that two of five million states count as one is below one in a million.
type Visited struct {
	shards [shardCount]shard
}

const shardCount = 64

type shard struct {
	mu    sync.Mutex
	n     int
	slots []visit
}

type visit struct {
	key   uint64 // 0: free
	ideal int64
}

// Outcome says what a visit has added.
type Outcome uint8

// The outcomes of a visit.
const (
	Known Outcome = iota // the state was reached before
	Again                // and now with less in the ideal bucket
	New
)

// Visit notes that a state was reached. key is the hash of its form, and ideal the micro-tokens in the
// ideal bucket.
func (v *Visited) Visit(key uint64, ideal int64) Outcome {
	if key == 0 {
		key = 1
	}
	s := &v.shards[key%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n*4 >= len(s.slots)*3 {
		s.grow()
	}
	at := s.find(key)
	switch {
	case at.key == 0:
		*at = visit{key, ideal}
		s.n++
		return New
	case ideal < at.ideal:
		at.ideal = ideal
		return Again
	default:
		return Known
	}
}

func (s *shard) find(key uint64) *visit {
	mask := uint64(len(s.slots) - 1)
	i := key >> 6 & mask
	for s.slots[i].key != 0 && s.slots[i].key != key {
		i = (i + 1) & mask
	}
	return &s.slots[i]
}

func (s *shard) grow() {
	all := s.slots
	s.slots = make([]visit, max(2*len(all), 1024))
	for _, x := range all {
		if x.key != 0 {
			*s.find(x.key) = x
		}
	}
}
