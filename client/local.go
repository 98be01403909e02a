package client

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/internal/identity"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// LocalLimit is what one client may do in one process while the region does not answer:
// Requests in every Per, at once or spread.
type LocalLimit struct {
	Requests int64
	Per      time.Duration
}

// localBuckets bounds the memory of FailLocal, 128 KiB. Clients whose keys fall into
// the same bucket share one limit.
const localBuckets = 16_384

// maxPer is longer than any process waits for its region.
const maxPer = 366 * 24 * time.Hour

// local is a limit for each client in this process, by the generic cell rate algorithm:
// a bucket is the instant at which all it admitted will have been earned. Safe for
// concurrent use.
type local struct {
	limit    LocalLimit
	interval int64 // nanoseconds that one request takes to be earned
	start    time.Time
	seed     maphash.Seed
	earned   [localBuckets]atomic.Int64 // nanoseconds after start
}

func newLocal(l LocalLimit) (*local, error) {
	if l.Requests < 1 || l.Per > maxPer || l.Requests > int64(l.Per) {
		return nil, fmt.Errorf("client: a local limit of %d requests in %v; give at least one request, a nanosecond for each, and at most %v", l.Requests, l.Per, maxPer)
	}
	// Rounded up: never more than was said.
	interval := (int64(l.Per) + l.Requests - 1) / l.Requests
	return &local{limit: l, interval: interval, start: time.Now(), seed: maphash.MakeSeed()}, nil
}

// decide fills in the answer to a request.
func (l *local) decide(in *aliquotv1.CheckRequest, out *aliquotv1.CheckResponse) {
	cost := int64(1)
	if in.Cost != nil {
		cost = max(1, in.GetCost())
	}
	out.Limit, out.Remaining = l.limit.Requests, 0
	if cost > l.limit.Requests {
		out.Never = true
		return
	}
	full, price := l.limit.Requests*l.interval, cost*l.interval
	bucket := l.bucket(in)
	for {
		before := bucket.Load()
		now := int64(time.Since(l.start))
		after := max(before, now) + price
		if wait := after - now - full; wait > 0 {
			out.RetryAfter, out.ResetAfter = durationpb.New(time.Duration(wait)), durationpb.New(time.Duration(before-now))
			return
		}
		if bucket.CompareAndSwap(before, after) {
			out.Allowed, out.Remaining = true, (full-(after-now))/l.interval
			out.ResetAfter = durationpb.New(time.Duration(after - now))
			return
		}
	}
}

// bucket is that of the client: its key, or else its user, or else its address.
func (l *local) bucket(in *aliquotv1.CheckRequest) *atomic.Int64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	h.WriteString(in.GetNamespace())
	for _, name := range [...]string{identity.APIKey, identity.User, identity.IP} {
		if value := in.GetAttributes()[name]; value != "" {
			h.WriteByte(0)
			h.WriteString(name)
			h.WriteByte(0)
			h.WriteString(value)
			break
		}
	}
	return &l.earned[h.Sum64()%localBuckets]
}
