package compare

import "time"

// Yardstick is one exact bucket beside what real daemons answer for the same key, to count
// false rejections as [Run] does. It is not safe for concurrent use.
type Yardstick struct {
	bucket *bucket
	full   time.Duration // that a bucket takes to fill, which begins empty
	tally  tally
}

// NewYardstick has a full bucket.
func NewYardstick(b Bucket) *Yardstick {
	l := b.limit()
	return &Yardstick{bucket: newBucket(l, 1, 1), full: timeToEarn(l)}
}

// Ask is a request of one token at a time that never runs backwards; it returns how many the
// bucket admits.
func (y *Yardstick) Ask(now time.Duration) (ideally int) { return y.bucket.take(1, y.full+now) }

// Answered notes how many were admitted of what the bucket admitted so many.
func (y *Yardstick) Answered(ideally, admitted int) { y.tally.compare(ideally, admitted) }

// FalseRejections is how many requests were denied that the bucket admits, less those that
// pay for an admission it denies.
func (y *Yardstick) FalseRejections() int { return y.tally.false }
