package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"aliquot/lua"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/storeguard"
)

// storeClient makes calls to the store. Safe for concurrent use.
type storeClient struct {
	auth      *authority.Authority
	guard     *storeguard.Guard
	emergency *emergency.Limit
	slots     *charge.SlotNames
	held      heldReservations
	own       ownReservations
	buffers   sync.Pool // of *charge.CallBuffer
}

// maxLimitsKept is the largest number of limits of a call whose buffers are kept for another call.
const maxLimitsKept = 4 * storeguard.GroupsPerCall

// putBuffer takes back a buffer that is no longer in use. That of a failed call is dropped instead.
func (a *storeClient) putBuffer(w *charge.CallBuffer) {
	if cap(w.Views) <= maxLimitsKept {
		a.buffers.Put(w)
	}
}

// errNoEpoch: the store has not answered since the start.
var errNoEpoch = errors.New("regional: the store's contents are not known yet")

// decide decides groups, at most storeguard.GroupsPerCall, in order. After an error nothing was admitted. A group
// that a store of several servers could decide only in part is left undecided.
func (a *storeClient) decide(ctx context.Context, groups []*charge.Transaction) error {
	return a.withRetry(ctx, func() error { return a.attempt(ctx, groups) })
}

// withRetry makes a call. If the store has other contents than expected, it learns them and makes
// the call once more, unless the retry budget is spent.
func (a *storeClient) withRetry(ctx context.Context, try func() error) error {
	a.guard.Retries.Called()
	err := try()
	if _, late := errors.AsType[*lua.LateError](err); late && a.guard.Retries.Retry() {
		// By this daemon's clock the call was not late, because a late one is given up. So someone
		// set the store's clock, and the daemon has learned it again by now.
		err = try()
	}
	if _, other := errors.AsType[*lua.EpochError](err); !other {
		return err
	}
	if learnt := a.guard.Learn(ctx); learnt != nil {
		return learnt
	}
	if !a.guard.Retries.Retry() {
		return err
	}
	return try()
}

// attempt makes the call once. It reads all rights at one instant, so that all views of the call
// have the same phase, contents and deadline, whichever callers the groups came from.
func (a *storeClient) attempt(ctx context.Context, groups []*charge.Transaction) error {
	a.auth.HoldFloor()
	defer a.auth.ReleaseFloor()
	defer charge.Fail(groups) // ends the checkouts that are open by then, also after a panic
	if groups = withoutAbandoned(groups); len(groups) == 0 {
		return storeguard.ErrGivenUp
	}
	head, err := a.grant(ctx, groups)
	if err != nil {
		return err
	}
	local := a.auth.Local
	w, _ := a.buffers.Get().(*charge.CallBuffer)
	if w == nil {
		w = &charge.CallBuffer{}
	}
	ended := false
	defer a.failUnended(&ended, groups, &head)
	results, storeNow, err := a.guard.Take(ctx, head.Epoch, func() []lua.Group {
		local.CheckoutAll(&head, groups, head.At)
		a.emergency.Sent(groups, &head)
		return w.CallOf(&head, groups, a.slots)
	})
	ended = true
	a.end(groups, results, err, storeNow, &head)
	if err != nil {
		return err
	}
	seen := w.Seen[:0]
	for i, g := range groups {
		if results[i].Err != nil {
			g.Undecided, g.Answer = results[i].Undecided, &results[i]
			a.guard.CountRefused(results[i].Err)
			charge.Fail(groups[i : i+1])
			continue
		}
		seen = g.ApplyResultOrRetry(local, results[i], a.auth.Now, seen)
	}
	a.auth.Observe(seen)
	w.Seen = seen
	a.putBuffer(w)
	return nil
}

// end gives the end of a call to what this daemon remembers. A call of several servers that failed may have been
// decided by some of them.
func (a *storeClient) end(groups []*charge.Transaction, results []lua.Result, err error, storeNow int64, head *charge.Header) {
	if results == nil {
		a.emergency.Failed(groups, err, head.Latest)
		return
	}
	received := a.auth.Now()
	a.emergency.Answered(groups, results, storeNow, received, head.Latest)
	for i, g := range groups {
		g.Complete(a.auth.Local, &results[i], storeNow, received)
	}
}

// failUnended ends the charges of a call that has not ended otherwise, because it panicked. The store may have
// made it.
func (a *storeClient) failUnended(ended *bool, groups []*charge.Transaction, head *charge.Header) {
	if !*ended {
		a.emergency.Failed(groups, storeguard.ErrBroken, head.Latest)
	}
}

// withoutAbandoned returns the groups whose callers have not given up their call. The others were decided without the
// store, and a call that leaves after that would charge them twice.
func withoutAbandoned(groups []*charge.Transaction) []*charge.Transaction {
	if !slices.ContainsFunc(groups, (*charge.Transaction).Abandoned) {
		return groups
	}
	return slices.DeleteFunc(slices.Clone(groups), (*charge.Transaction).Abandoned)
}

// grant reads the rights of all charges. If the store's clock is not known, it reads the clock first,
// because no lease holds by a clock that is not known.
func (a *storeClient) grant(ctx context.Context, groups []*charge.Transaction) (charge.Header, error) {
	head := a.auth.Grant(groups)
	if head.Epoch != "" && head.Deadline == 0 {
		if err := a.guard.ReadClock(ctx, head.Epoch); err != nil {
			return head, err
		}
		head = a.auth.Grant(groups)
	}
	if head.Epoch == "" {
		return head, errNoEpoch
	}
	return head, nil
}
