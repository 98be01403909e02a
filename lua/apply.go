package lua

import (
	"context"
	"fmt"

	"aliquot/limit"
)

// ApplyChunk is how many changes one script call makes: the counterpart of TakeChunk for changes,
// which come a few times a second.
const ApplyChunk = 128

// Apply makes changes in order, ApplyChunk in a script call, all in one round trip. Without changes
// it still asks the store for its epoch and clock. With lease, the caller takes a lease along with
// the changes: if all were made, HeardKey then holds the time. now and the errors are as in Take.
// After an error some changes may have been made; a repetition finds those stale.
func (s *Scripts) Apply(ctx context.Context, epoch string, changes []Change, lease bool) (applied []limit.Applied, now int64, err error) {
	h, err := checkChanges(epoch, changes)
	if err != nil {
		return nil, 0, err
	}
	var chunks [][]Change
	rest := changes
	for len(rest) > ApplyChunk {
		chunks = append(chunks, rest[:ApplyChunk])
		rest = rest[ApplyChunk:]
	}
	chunks = append(chunks, rest)
	calls := make([][]any, len(chunks))
	for i, chunk := range chunks {
		// Only the last call takes the lease. If an earlier one did, the later ones would see that
		// very lease.
		calls[i] = applyArgs(epoch, &h, chunk, lease && i == len(chunks)-1)
	}
	replies, err := s.run(ctx, s.apply, calls)
	if err != nil {
		return nil, 0, fmt.Errorf("lua: apply: %w", err)
	}
	applied = make([]limit.Applied, 0, len(changes))
	for i, reply := range replies {
		if applied, now, err = readApply(applied, reply, chunks[i]); err != nil {
			return nil, 0, fmt.Errorf("lua: apply: %w", err)
		}
	}
	return applied, now, nil
}

func applyArgs(epoch string, h *header, changes []Change, lease bool) []any {
	w := newWords(len(changes), 1+len(changes)*(applyNumbers+h.lowNumbers()))
	for i := range changes {
		w.key(&changes[i].Key)
	}
	w.header(h, epoch, lease || h.asksHeard)
	w.add(bit(lease))
	for i := range changes {
		w.change(h, &changes[i])
	}
	return w.args
}

func (w *words) change(h *header, c *Change) {
	if c.View.Algorithm.Counts() {
		w.counted(h, &c.View, true)
		w.add(int64(c.Gen), int64(c.Share.Cap), c.From, bit(c.Cold), bounded(c.Deadline))
		return
	}
	w.view(h, &c.View)
	w.add(int64(c.Gen))
	w.bucket(c.Share)
	cold, chunk := bit(c.Cold), &c.View.Chunk
	if chunk.Was != 0 {
		cold += 2
	}
	w.add(int64(min(c.Grant, 2*limit.MaxTokens)), cold, bounded(c.Deadline))
	if chunk.Was != 0 {
		w.add(int64(chunk.Was), chunk.Until, int64(chunk.Back))
	}
}

func readApply(applied []limit.Applied, reply []any, changes []Change) ([]limit.Applied, int64, error) {
	n, err := integers(reply, 1+answerNumbers*len(changes))
	if err != nil {
		return nil, 0, err
	}
	now, n := n[0], n[1:]
	for i := range changes {
		a := limit.Applied{Tokens: limit.Tokens(n[1]), Amnesia: n[2] == 1, Stale: n[3] == 1, Late: n[3] == 2, At: now}
		if changes[i].View.Algorithm.Counts() {
			a.InUse, a.Due, a.Label = limit.Tokens(n[0]), n[4], n[5]
		} else {
			a.Released, a.Due, a.InUse = limit.Tokens(n[0]), n[4], limit.Tokens(n[5])
		}
		applied = append(applied, a)
		n = n[answerNumbers:]
	}
	return applied, now, nil
}

// answerNumbers is how many numbers answer a change.
const answerNumbers = 6
