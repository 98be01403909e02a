package lua

import (
	"context"
	"fmt"

	"aliquot/limit"
)

const (
	// TakeChunk is how many groups one script call takes: Redis runs nothing else
	// meanwhile, so a call stays well under a millisecond.
	TakeChunk = 64
	// ApplyChunk is the same for changes, which come a few times a second.
	ApplyChunk = 128
)

// Take decides groups in order, TakeChunk a script call, all in one round trip.
// now is the store's clock at the last of them, microseconds. After an error some
// may have been charged; none was admitted. Errors: *EpochError, ErrInvalid,
// those of Redis and of the context.
func (s *Scripts) Take(ctx context.Context, epoch string, groups []Group) (results []Result, now int64, err error) {
	h, err := checkGroups(epoch, groups)
	if err != nil {
		return nil, 0, err
	}
	calls := make([][]any, 0, (len(groups)+TakeChunk-1)/TakeChunk)
	for rest := groups; len(rest) > 0; {
		n := min(TakeChunk, len(rest))
		calls = append(calls, takeArgs(epoch, &h, rest[:n]))
		rest = rest[n:]
	}
	replies, err := s.run(ctx, s.take, calls)
	if err != nil {
		return nil, 0, fmt.Errorf("lua: take: %w", err)
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

// Apply makes changes in order, ApplyChunk a script call, all in one round trip.
// now and the errors are as in Take; after an error some changes may have been made,
// which a repetition finds stale.
func (s *Scripts) Apply(ctx context.Context, epoch string, changes []Change) (applied []limit.Applied, now int64, err error) {
	h, err := checkChanges(epoch, changes)
	if err != nil {
		return nil, 0, err
	}
	calls := make([][]any, 0, (len(changes)+ApplyChunk-1)/ApplyChunk)
	for rest := changes; len(rest) > 0; {
		n := min(ApplyChunk, len(rest))
		calls = append(calls, applyArgs(epoch, &h, rest[:n]))
		rest = rest[n:]
	}
	replies, err := s.run(ctx, s.apply, calls)
	if err != nil {
		return nil, 0, fmt.Errorf("lua: apply: %w", err)
	}
	applied = make([]limit.Applied, 0, len(changes))
	for i, reply := range replies {
		n := min((i+1)*ApplyChunk, len(changes)) - i*ApplyChunk
		if applied, now, err = readApply(applied, reply, n); err != nil {
			return nil, 0, fmt.Errorf("lua: apply: %w", err)
		}
	}
	return applied, now, nil
}

// newArgs starts a call: two places for run, the keys, the header.
func newArgs(epoch string, h *header, keys, room int) []any {
	args := make([]any, 0, 3+1+keys+6+room)
	return append(args, nil, nil, keys+1, EpochKey)
}

func (h *header) append(args []any, epoch string) []any {
	return append(args, epoch, fmt.Sprintf("%08x", h.stamp), int(h.phase),
		bounded(h.since), bounded(h.until), bounded(h.birth))
}

// bounded brings an instant into what Lua counts exactly; beyond either end it
// compares with the clock as before.
func bounded(at int64) int64 { return min(max(at, 0), limit.MaxExact) }

func takeArgs(epoch string, h *header, groups []Group) []any {
	limits := 0
	for i := range groups {
		limits += len(groups[i].Limits)
	}
	args := newArgs(epoch, h, limits, 2*len(groups)+8*limits)
	for i := range groups {
		for j := range groups[i].Limits {
			args = append(args, groups[i].Limits[j].Key)
		}
	}
	args = h.append(args, epoch)
	for i := range groups {
		args = append(args, int64(groups[i].Cost), len(groups[i].Limits))
		for j := range groups[i].Limits {
			args = appendView(args, &groups[i].Limits[j].View, false)
		}
	}
	return args
}

func appendView(args []any, v *limit.View, shareAlways bool) []any {
	gen := int64(v.Gen)
	if !v.Hot {
		gen = -gen
	}
	args = append(args, gen)
	if v.Hot || shareAlways {
		args = appendBucket(args, v.Share)
	}
	args = appendBucket(args, v.Floor)
	return append(args, int64(min(v.Debit, limit.MaxTokens)))
}

func appendBucket(args []any, b limit.Bucket) []any {
	return append(args, int64(b.Cap), b.Rate.Micro, b.Rate.Frac)
}

func applyArgs(epoch string, h *header, changes []Change) []any {
	args := newArgs(epoch, h, len(changes), 15*len(changes))
	for i := range changes {
		args = append(args, changes[i].Key)
	}
	args = h.append(args, epoch)
	for i := range changes {
		c := &changes[i]
		args = appendView(args, &c.View, true)
		args = append(args, c.Gen)
		args = appendBucket(args, c.Share)
		cold := 0
		if c.Cold {
			cold = 1
		}
		args = append(args, int64(min(c.Grant, limit.MaxTokens)), cold, bounded(c.Deadline))
	}
	return args
}

func readTake(results []Result, reply []any, groups []Group) ([]Result, int64, error) {
	limits := 0
	for i := range groups {
		limits += len(groups[i].Limits)
	}
	n, err := integers(reply, 1+len(groups)+5*limits)
	if err != nil {
		return nil, 0, err
	}
	outcomes := make([]limit.Outcome, limits)
	now, n := n[0], n[1:]
	for i := range groups {
		k := len(groups[i].Limits)
		result := Result{Allowed: n[0] == 1, Limits: outcomes[:k:k]}
		n, outcomes = n[1:], outcomes[k:]
		for j := range result.Limits {
			result.Limits[j] = limit.Outcome{
				Tokens:  limit.Tokens(n[0]),
				Bucket:  limit.Bucket{Cap: limit.Tokens(n[1]), Rate: limit.Rate{Micro: n[2], Frac: n[3]}},
				Amnesia: n[4] == 1,
			}
			n = n[5:]
		}
		results = append(results, result)
	}
	return results, now, nil
}

func readApply(applied []limit.Applied, reply []any, changes int) ([]limit.Applied, int64, error) {
	n, err := integers(reply, 1+4*changes)
	if err != nil {
		return nil, 0, err
	}
	now, n := n[0], n[1:]
	for ; len(n) > 0; n = n[4:] {
		applied = append(applied, limit.Applied{
			Released: limit.Tokens(n[0]), Tokens: limit.Tokens(n[1]), Amnesia: n[2] == 1,
			Stale: n[3] == 1, Late: n[3] == 2,
		})
	}
	return applied, now, nil
}
