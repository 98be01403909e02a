package lua

import (
	"context"
	"fmt"

	"aliquot/limit"
)

// TakeChunk is how many groups one script call takes. Redis runs nothing else meanwhile, so a call
// must stay well under a millisecond.
const TakeChunk = 64

// mostWords bounds the calls whose memory is kept for another, by their number of arguments:
// TakeChunk groups with a few limits each fit.
const mostWords = 8192

// Take decides groups in order, TakeChunk in a script call, all in one round trip. now is the
// store's clock at the last of them, in microseconds. After an error some groups may have been
// charged, but none was admitted. Errors: *EpochError, *LateError, ErrInvalid, those of Redis and
// of the context.
func (s *Scripts) Take(ctx context.Context, epoch string, groups []Group) (results []Result, now int64, err error) {
	h, err := checkGroups(epoch, groups)
	if err != nil {
		return nil, 0, err
	}
	w, _ := s.words.Get().(*words)
	if w == nil || len(groups) > TakeChunk {
		w = &words{} // each call needs its own
	}
	calls := make([][]any, 0, (len(groups)+TakeChunk-1)/TakeChunk)
	for rest := groups; len(rest) > 0; {
		n := min(TakeChunk, len(rest))
		calls = append(calls, w.take(epoch, &h, rest[:n]))
		if rest = rest[n:]; len(rest) > 0 {
			w = &words{}
		}
	}
	replies, err := s.run(ctx, s.takeOf(&h), calls)
	if err != nil {
		return nil, 0, fmt.Errorf("lua: take: %w", err)
	}
	if len(calls) == 1 && cap(w.args) <= mostWords {
		clear(w.args) // release what the arguments refer to
		s.words.Put(w)
	}
	results = make([]Result, 0, len(groups))
	for i, reply := range replies {
		chunk := groups[i*TakeChunk : min((i+1)*TakeChunk, len(groups))]
		if results, now, err = readTake(results, reply, chunk); err != nil {
			return nil, 0, fmt.Errorf("lua: take: %w", err)
		}
	}
	return results, now, nil
}

// takeOf returns the script for a call of takes.
func (s *Scripts) takeOf(h *header) script {
	if h.counts {
		return s.mixed
	}
	return s.take
}

func takeArgs(epoch string, h *header, groups []Group) []any {
	return new(words).take(epoch, h, groups)
}

// take writes a take in the memory of an earlier call that has ended.
func (w *words) take(epoch string, h *header, groups []Group) []any {
	limits, counted := 0, 0
	for i := range groups {
		limits += len(groups[i].Limits)
	}
	if h.counts {
		counted = limits
	}
	w.start(limits, 1+counted*countedNumbers)
	for i := range groups {
		for j := range groups[i].Limits {
			w.key(&groups[i].Limits[j].Key)
		}
	}
	w.header(h, epoch, h.asksHeard)
	w.args = append(w.args, nil) // the packed numbers, once they are complete
	at := len(w.args) - 1
	w.shapesOf(groups)
	w.pack(bounded(h.deadline), int64(len(w.shapes)))
	for i := range w.shapes {
		w.shape(h, &w.shapes[i])
	}
	of := w.of
	for i := range groups {
		w.group(h, &groups[i], of)
		of = of[len(groups[i].Limits):]
	}
	w.args[at] = w.packed
	return w.args
}

// shape is what views of one call often have in common: those of one rule.
type shape struct {
	floor, low, limbo limit.Bucket
	debit, extra      int64
	ruleSince         int64
	slow              limit.Rate
	before            limit.Bucket
}

// shapesOf collects the shapes of the buckets in groups, and the number of each limit's shape. It
// searches only among the latest shapes: if debits are rare, a call has as many shapes as rules.
func (w *words) shapesOf(groups []Group) {
	const among = 8
	shapes, of := w.shapes[:0], w.of[:0]
	for i := range groups {
		for j := range groups[i].Limits {
			v := &groups[i].Limits[j].View
			if v.Algorithm.Counts() {
				of = append(of, 0)
				continue
			}
			s := shape{floor: v.Floor, low: v.Low, limbo: v.LimboFloor, debit: debit(v), extra: int64(v.Extra)}
			if v.RuleSince != 0 {
				s.ruleSince, s.slow, s.before = v.RuleSince, v.Slow, v.Before
			}
			at := len(shapes) - 1
			for at >= max(0, len(shapes)-among) && shapes[at] != s {
				at--
			}
			if at < max(0, len(shapes)-among) {
				at, shapes = len(shapes), append(shapes, s)
			}
			of = append(of, int64(at+1))
		}
	}
	w.shapes, w.of = shapes, of
}

func (w *words) shape(h *header, s *shape) {
	w.packBucket(s.floor)
	w.pack(s.debit, s.extra)
	if h.floorSince != 0 {
		w.packBucket(s.low)
	}
	if h.blind {
		w.packBucket(s.limbo)
	}
	if h.changes {
		w.pack(bounded(s.ruleSince), s.slow.Micro, s.slow.Frac)
		w.packBucket(s.before)
	}
}

// withChunks is added to the number of limits of a group that has chunks. It is more than
// MaxLimits.
const withChunks = 100

// group writes one request. The number of limits is negative unless all are buckets that cost what
// the request does. of are the numbers of their shapes.
func (w *words) group(h *header, g *Group, of []int64) {
	limits, plain, chunks := int64(len(g.Limits)), int64(1), g.chunks()
	if chunks {
		limits += withChunks
	}
	for i := range g.Limits {
		if v := &g.Limits[i].View; v.Algorithm.Counts() || v.Cost != 0 && v.Cost != g.Cost {
			plain = -1
		}
	}
	w.pack(int64(g.Cost), plain*limits)
	for i := range g.Limits {
		v := &g.Limits[i].View
		if plain < 0 {
			price := v.Cost
			if price == 0 {
				price = g.Cost
			}
			w.pack(int64(price))
		}
		if !v.Algorithm.Counts() {
			w.pack(of[i], generation(v))
			if v.Hot {
				w.packBucket(v.Share)
			}
			if h.remembers {
				m := memory(v.Memory)
				w.pack(m[:]...)
			}
			if chunks {
				w.chunk(&v.Chunk)
			}
			continue
		}
		w.counted(h, v, false)
		if v.Algorithm == limit.Concurrency {
			w.add(int64(v.Slot), v.Lasts)
		}
	}
}

func (w *words) chunk(c *limit.ChunkView) {
	w.pack(int64(c.Was), c.Until, int64(c.Keep), int64(c.Back), int64(c.Want), int64(c.Least), c.Life)
}

// loanNumbers is how many numbers describe the loan of a limit, in a group with chunks.
const loanNumbers = 3

// loans returns how many limits have such numbers.
func loans(groups []Group) (n int) {
	for i := range groups {
		if !groups[i].chunks() {
			continue
		}
		for j := range groups[i].Limits {
			if !groups[i].Limits[j].View.Algorithm.Counts() {
				n++
			}
		}
	}
	return n
}

// readLoans reads the loans at the end of a reply.
func readLoans(results []Result, groups []Group, now int64, n packed) {
	for i := range groups {
		if !groups[i].chunks() {
			continue
		}
		for j := range groups[i].Limits {
			if groups[i].Limits[j].View.Algorithm.Counts() {
				continue
			}
			out := &results[i].Limits[j]
			if out.Lent, out.LentUntil, out.Kept = limit.Tokens(n.next()), n.next(), n.next() == 1; out.LentUntil != 0 {
				out.LentFor = out.LentUntil - now
			}
		}
	}
}

func readTake(results []Result, reply []any, groups []Group) ([]Result, int64, error) {
	limits := 0
	for i := range groups {
		limits += len(groups[i].Limits)
	}
	lent := loans(groups)
	now, n, err := unpack(reply, len(groups)+outcomeNumbers*limits+loanNumbers*lent)
	if err != nil {
		return nil, 0, err
	}
	before := len(results)
	outcomes := make([]limit.Outcome, limits)
	for i := range groups {
		k := len(groups[i].Limits)
		result := Result{Allowed: n.next() == 1, Limits: outcomes[:k:k]}
		outcomes = outcomes[k:]
		for j := range result.Limits {
			result.Limits[j] = readOutcome(groups[i].Limits[j].View.Algorithm, &n)
		}
		results = append(results, result)
	}
	if lent > 0 {
		readLoans(results[before:], groups, now, n)
	}
	return results, now, nil
}

// outcomeNumbers is how many numbers describe the outcome of a limit.
const outcomeNumbers = 5

func readOutcome(a limit.Algorithm, n *packed) limit.Outcome {
	out := limit.Outcome{Tokens: limit.Tokens(n.next()), Bucket: limit.Bucket{Cap: limit.Tokens(n.next())}}
	if a.Counts() {
		out.Reset, out.Retry = n.next(), n.next()
	} else {
		out.Bucket.Rate = limit.Rate{Micro: n.next(), Frac: n.next()}
	}
	out.Amnesia = n.next() == 1
	return out
}
