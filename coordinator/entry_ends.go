package coordinator

import (
	"context"
	"time"
)

// entryEnds is when the leader takes entries away. It belongs to the loop.
type entryEnds struct {
	// next is when the first entry ends, Unix milliseconds; 0: none does.
	next int64
	// ending: a command is under way; ended is its outcome.
	ending bool
	ended  chan error
}

// endEntries proposes the end of entries whose time is over.
func (r *reign) endEntries(ctx context.Context) {
	now := time.Now().UnixMilli()
	if e := &r.entries; e.next == 0 || now < e.next || e.ending {
		return
	}
	r.entries.ending = true
	r.pending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		r.entries.ended <- r.node.EndEntries(ctx, now)
	})
}

// entriesEnded takes the outcome. A command in doubt is proposed again, and changes nothing
// if it was made.
func (r *reign) entriesEnded(err error) {
	r.entries.ending = false
	if err != nil {
		r.log.Warn("entries whose time is over could not be taken away; trying again", "error", err)
	}
}
