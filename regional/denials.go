package regional

import (
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/wire"
)

// What is remembered of denials for Explain.
const (
	maxDenials     = 4096
	maxDenialBytes = 16 << 20
	// maxDenialRules is how many versions of the rules denials keep in memory.
	maxDenialRules = 4
	// Estimates of what a denial takes beside its request: itself with its answer, and
	// each of its limits.
	denialBytes = 1024
	limitBytes  = 1024
)

// explained is a decision with everything that it was made of.
type explained struct {
	policy   *policy
	request  request
	decision decision
	answer   wire.Answer
	unixMS   int64
	lease    lease
}

// lease is what backs a region's rights at one instant.
type lease struct {
	phase     budget.Phase
	remaining time.Duration
	session   budget.SessionID
	// epoch of the latest leader that opened a session; 0: none did.
	epoch uint64
}

// lease is as of now.
func (a *authority) lease() lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	info := a.region.Info(a.now())
	return lease{phase: info.Phase, remaining: info.LeaseRemaining, epoch: info.Epoch, session: a.region.Session()}
}

// denials remembers the latest denials by their numbers, as they were. Safe for
// concurrent use.
type denials struct {
	mu     sync.Mutex
	kept   [maxDenials]*denial
	oldest uint64 // no number below it is kept
	bytes  int
	rules  []*policy // of which there are denials, the latest last
}

// denial is an explained decision whose request is packed: what a caller sent may hang
// on a larger buffer.
type denial struct {
	explained
	number uint64
	packed []byte
	bytes  int
}

// add remembers a denial, and forgets the oldest ones for it. The number is from
// decisionIDs.
func (s *denials) add(number uint64, e explained) {
	d := &denial{explained: e, number: number, packed: appendRequest(nil, &e.request)}
	d.request = request{}
	d.bytes = denialBytes + cap(d.packed)
	for _, g := range d.decision.groups {
		d.bytes += len(g.asks) * limitBytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.oldest || d.bytes > maxDenialBytes {
		return
	}
	if number >= maxDenials { // whose place it takes is the oldest no more
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
func (s *denials) keepRules(p *policy) {
	for _, kept := range s.rules {
		if kept.set == p.set {
			return
		}
	}
	s.rules = append(s.rules, p)
	if len(s.rules) <= maxDenialRules {
		return
	}
	for i, d := range s.kept {
		if d != nil && d.policy.set == s.rules[0].set {
			s.drop(i)
		}
	}
	s.rules = s.rules[1:]
}

// drop forgets what is at a place, if there is anything. The caller holds mu.
func (s *denials) drop(place int) {
	if d := s.kept[place]; d != nil {
		s.kept[place], s.bytes = nil, s.bytes-d.bytes
	}
}

// find returns a denial by its number; false if it is not remembered (any more).
func (s *denials) find(number uint64) (explained, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.kept[number%maxDenials]
	if d == nil || d.number != number {
		return explained{}, false
	}
	out := d.explained
	out.request.read(string(d.packed))
	return out, true
}
