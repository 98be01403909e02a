package form

import "aliquot/budget"

// ranker gives the counters of a world their canonical values: the values of a counter are numbered
// from the smallest on.
type ranker struct {
	slots [slots]slot
	used  []uint8
}

// A world has at most slots counters, and at most values values of one counter. With more, ranker
// panics.
const (
	slots  = 256
	values = 48
)

// slot is one counter and its values, in order, each once.
type slot struct {
	space  budget.Space
	n      uint8
	values [values]uint64
}

// hash returns the hash of the parts' facts and of all their counters.
func (r *ranker) hash(parts []*Form) uint64 {
	h := uint64(len(parts))
	for _, p := range parts {
		h = mix(h, p.facts)
		for _, name := range p.names {
			r.slot(name.Space).insert(name.Value)
		}
	}
	for _, p := range parts {
		for _, name := range p.names {
			h = mix(h, r.slot(name.Space).rank(name.Value))
		}
	}
	for _, i := range r.used {
		r.slots[i].n = 0
	}
	r.used = r.used[:0]
	return h
}

// slot finds a counter's slot, or takes a free one.
func (r *ranker) slot(space budget.Space) *slot {
	i := uint8(uint64(space) * 0x9e3779b97f4a7c15 >> 56)
	for probes := 0; probes < slots; probes++ {
		s := &r.slots[i]
		if s.n == 0 {
			s.space = space
			r.used = append(r.used, i)
			return s
		}
		if s.space == space {
			return s
		}
		i++
	}
	panic("form: a world with too many counters")
}

func (s *slot) insert(v uint64) {
	i := int(s.n)
	for i > 0 && s.values[i-1] > v {
		i--
	}
	if i > 0 && s.values[i-1] == v {
		return
	}
	if s.n == values {
		panic("form: a counter with too many values")
	}
	copy(s.values[i+1:s.n+1], s.values[i:s.n])
	s.values[i] = v
	s.n++
}

// rank returns the canonical value of one of the inserted values. 0 means "none" for most counters
// and keeps its own rank.
func (s *slot) rank(v uint64) uint64 {
	switch s.space.Kind() {
	case budget.NameDistance:
		return v - s.values[0]
	case budget.NameNext:
		rank := uint64(0)
		for i := 1; s.values[i-1] < v; i++ {
			rank += min(s.values[i]-s.values[i-1], 2)
		}
		return rank
	default:
		if v == 0 {
			return 0
		}
		i := 0
		for s.values[i] < v {
			i++
		}
		return uint64(i) + 1
	}
}
