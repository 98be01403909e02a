package coordinator

import (
	"context"
	"time"
)

// entryEnds is when the leader takes entries away. It belongs to the loop.
type entryExpiry struct {
	// next is when the first entry ends, Unix milliseconds; 0: none does.
	next int64
	// ending: a command is under way; ended is its outcome.
	ending bool
	ended  chan error
}

// endEntries proposes the end of entries whose time is over.
func (l *leaderLoop) expireEntries(ctx context.Context) {
	now := time.Now().UnixMilli()
	if e := &l.expiry; e.next == 0 || now < e.next || e.ending {
		return
	}
	l.expiry.ending = true
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		l.expiry.ended <- l.node.EndEntries(ctx, now)
	})
}

// entriesEnded takes the outcome. A command in doubt is proposed again, and changes nothing
// if it was made.
func (l *leaderLoop) entriesExpired(err error) {
	l.expiry.ending = false
	if err != nil {
		l.log.Warn("entries whose time is over could not be taken away; trying again", "error", err)
	}
}
