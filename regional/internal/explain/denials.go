package explain

import (
	"sync"

	"aliquot/internal/checkwire"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/sample"
)

// Bounds of the memory of denials, for Explain.
const (
	maxDenials     = 4096
	maxDenialBytes = 16 << 20
	// maxDenialRules is how many versions of the rules denials may keep in memory.
	maxDenialRules = 4
	// Estimates of the memory of a denial besides its request: that of the denial with its answer,
	// and that of each of its limits.
	denialBytes = 1024
	limitBytes  = 1024
)

// explained is a decision with everything that it was made from.
type explained struct {
	policy   *policy.Policy
	request  charge.Request
	decision charge.Decision
	answer   checkwire.Answer
	unixMS   int64
	lease    authority.Lease
}

// denials remembers the latest denials by their numbers, with the state at the time of each. Safe
// for concurrent use.
type denials struct {
	mu     sync.Mutex
	kept   [maxDenials]*denial
	oldest uint64 // no lower number is kept
	bytes  int
	rules  []*policy.Policy // those of the kept denials, the latest last
}

// denial is an explained decision with a packed request, because a caller's texts may be parts of a
// larger buffer.
type denial struct {
	explained
	number uint64
	packed []byte
	bytes  int
}

// add remembers a denial, and forgets the oldest ones if there is no room. The number comes from
// decisionIDs.
func (s *denials) add(number uint64, e explained) {
	d := &denial{explained: e, number: number, packed: sample.AppendRequest(nil, &e.request)}
	d.request = charge.Request{}
	d.bytes = denialBytes + cap(d.packed)
	for _, g := range d.decision.Groups {
		d.bytes += len(g.Charges) * limitBytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.oldest || d.bytes > maxDenialBytes {
		return
	}
	if number >= maxDenials { // the denial that it replaces is no longer kept
		s.oldest = max(s.oldest, number-maxDenials+1)
	}
	s.drop(int(number % maxDenials))
	s.keepRules(d.policy)
	s.kept[number%maxDenials], s.bytes = d, s.bytes+d.bytes
	for s.bytes > maxDenialBytes {
		s.drop(int(s.oldest % maxDenials))
		s.oldest++
	}
}

// keepRules makes room for a version of the rules. The caller holds mu.
func (s *denials) keepRules(p *policy.Policy) {
	for _, kept := range s.rules {
		if kept.Set == p.Set {
			return
		}
	}
	s.rules = append(s.rules, p)
	if len(s.rules) <= maxDenialRules {
		return
	}
	for i, d := range s.kept {
		if d != nil && d.policy.Set == s.rules[0].Set {
			s.drop(i)
		}
	}
	s.rules = s.rules[1:]
}

// drop forgets the denial at a place, if there is one. The caller holds mu.
func (s *denials) drop(place int) {
	if d := s.kept[place]; d != nil {
		s.kept[place], s.bytes = nil, s.bytes-d.bytes
	}
}

// find returns a denial by its number, and false if it is not or no longer remembered.
func (s *denials) find(number uint64) (explained, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.kept[number%maxDenials]
	if d == nil || d.number != number {
		return explained{}, false
	}
	out := d.explained
	sample.ReadRequest(&out.request, string(d.packed))
	return out, true
}
