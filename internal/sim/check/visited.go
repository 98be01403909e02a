package check

import "sync"

// visited remembers the states that were reached, by the hash of their canonical form, and how much
// the ideal bucket held. A state that was reached with less can do nothing more with more. It is
// safe for concurrent use.
//
// With 64 bits, the chance that two of five million states count as one is below one in a million.
type visited struct {
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

// outcome of a visit.
type outcome uint8

const (
	old   outcome = iota
	again         // a known state, reached with less in the ideal bucket
	fresh
)

func (v *visited) visit(key uint64, ideal int64) outcome {
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
		return fresh
	case ideal < at.ideal:
		at.ideal = ideal
		return again
	default:
		return old
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
