package authority

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// Lease describes the lease behind a region's rights at one instant.
type Lease struct {
	Phase     budget.Phase
	Remaining time.Duration
	session   budget.SessionID
	// Epoch is that of the latest leader that opened a session; 0: none has.
	Epoch uint64
}

// Lease returns the lease at an instant, which is the present.
func (a *Authority) Lease(now budget.Instant) Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	info := a.region.Info(now)
	return Lease{Phase: info.Phase, Remaining: info.LeaseRemaining, Epoch: info.Epoch, session: a.region.Session()}
}

// BucketInForce returns the bucket of a key that is in force now: the share of a hot key, or the floor
// of a cold one. extra is what an elastic limit adds to a cold key.
func (a *Authority) BucketInForce(key budget.KeyID, k budget.KeyLimit, l limit.Limit, elastic bool) (b limit.Bucket, extra limit.Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var h charge.Header
	right := a.region.Right(key, k, a.Now())
	frame := a.frame(&h, l.Tail(), right)
	if !right.Hot {
		extra = frame.Frame.View(right, l, elastic).Extra
	}
	return entitlement.Bucket(l, right.Effective()), extra
}
