package charge

import "sync/atomic"

const (
	// sketchWidth is the number of counters in a row. It keeps the keys of a flood apart: after
	// sketchHalveAfter additions, one in some hundred keys that came once seems to have come more
	// often.
	sketchWidth = 1 << 18
	sketchRows  = 4
	// sketchHalveAfter is the number of additions after which all counts are halved.
	sketchHalveAfter = sketchWidth / 4
	sketchMax        = 255
)

// sketch counts approximately how often keys come, without storing the keys. It is a count-min
// sketch of 1 MiB whose counts are halved from time to time. Its zero value is empty. Safe for
// concurrent use: a count that is lost to a race does no harm.
type sketch struct {
	added atomic.Uint32
	rows  [sketchRows][sketchWidth / 4]atomic.Uint32 // four counters each
}

// add counts a key by its hash. It returns how often the key came; the result may be too high.
func (s *sketch) add(hash uint64) (count uint32) {
	if s.added.Add(1)%sketchHalveAfter == 0 {
		s.halve()
	}
	count = sketchMax
	for row := range s.rows {
		word, shift := s.place(row, hash)
		old := word.Load()
		n := old >> shift & sketchMax
		if n < sketchMax {
			n++
			word.CompareAndSwap(old, old+1<<shift)
		}
		count = min(count, n)
	}
	return count
}

// count returns how often a key came; the result may be too high.
func (s *sketch) count(hash uint64) (count uint32) {
	count = sketchMax
	for row := range s.rows {
		word, shift := s.place(row, hash)
		count = min(count, word.Load()>>shift&sketchMax)
	}
	return count
}

// place returns a key's counter in a row. The two halves of the hash make a hash for each row.
func (s *sketch) place(row int, hash uint64) (word *atomic.Uint32, shift uint32) {
	at := (uint32(hash) + uint32(row)*uint32(hash>>32|1)) % sketchWidth
	return &s.rows[row][at/4], at % 4 * 8
}

func (s *sketch) halve() {
	for row := range s.rows {
		for i := range s.rows[row] {
			word := &s.rows[row][i]
			if old := word.Load(); old != 0 {
				word.CompareAndSwap(old, old>>1&0x7f7f7f7f)
			}
		}
	}
}
