package session

import (
	"context"
	"errors"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
)

// restAtMost caps how long the store is left to checks between two parts of a directive. A part
// keeps a store busy for some 3 ms. If one took longer, it waited for a processor while the store
// was free.
const restAtMost = 5 * time.Millisecond

// applyPart makes the changes of one part, after it has left the store to checks for as long as the
// part before took. The state machine has one part under way at a time.
func (s *Session) applyPart(ctx context.Context, part budget.ApplyShares) []budget.ShareResult {
	if part.Follows {
		background.Pause(ctx, min(s.lastPart, restAtMost))
	}
	began := s.auth.Now()
	results := s.apply(ctx, part.Changes)
	s.lastPart = s.auth.Now().Sub(began)
	return results
}

// apply makes share changes in the store.
func (s *Session) apply(ctx context.Context, changes []budget.ShareChange) []budget.ShareResult {
	results := make([]budget.ShareResult, 0, len(changes))
	carried := &charge.Transaction{} // in the form of asks, for the debts that the changes carry
	var usable []budget.ShareChange
	p := s.policies.Load()
	for _, c := range changes {
		known, l, ok := p.LimitOf(c.Key.Rule, c.Limit)
		if !ok {
			results = append(results, unknownLimit(c))
			continue
		}
		usable = append(usable, c)
		carried.Charges = append(carried.Charges, charge.Charge{
			Planned: charge.Planned{
				Limit: l, Enforcement: known.Enforcement, Forgives: known.Forgives, Key: c.Key, Changed: p.ChangedLimit(c.Key.Rule, l, s.auth.Now()),
			},
			Right: s.emergency.Returning(c.Before),
		})
	}
	if len(usable) == 0 {
		s.tellHeard(ctx)
		return results
	}
	return append(results, s.applyUsable(ctx, usable, carried)...)
}

// unknownLimit returns the result of a change of a key whose limit is unknown: its rule is gone or
// has not arrived yet, and the leader does not send the limit either. The change is not sent to the
// store. A key that returns to cold needs no change there, because its share was the floor before.
func unknownLimit(c budget.ShareChange) budget.ShareResult {
	return budget.ShareResult{Key: c.Key, Unenforced: !c.Cold}
}

func (s *Session) applyUsable(ctx context.Context, changes []budget.ShareChange, carried *charge.Transaction) []budget.ShareResult {
	if s.store.Silent() {
		// The change would not be made, but from its sending on it would not be known what the key holds: of
		// a counting limit nothing would be admitted until the store answers.
		background.Pause(ctx, storeguard.ApplyDeadline) // otherwise the next Hello would bring the same changes at once
		return s.notApplied(ctx, changes, errSilent)
	}
	if err := s.learnContents(ctx); err != nil {
		return s.notApplied(ctx, changes, err)
	}
	s.learnClock(ctx)
	defer s.emergency.TurnOver(s.emergency.AwaitTurn(ctx, []*charge.Transaction{carried}))
	end := s.auth.Now().Add(storeguard.ApplyDeadline)
	head := s.auth.HeaderFor(carried.Charges)
	deadline := s.auth.Clock.Until(end) // after the header: by the clock of its contents, or of later ones
	if deadline == 0 {
		// As above, no change is sent, so it stays known what the keys hold.
		background.Pause(ctx, end.Sub(s.auth.Now()))
		s.others.recordMark(false)
		return s.notApplied(ctx, changes, errNoStoreClock)
	}
	s.emergency.Applying(carried, head.Epoch)
	shares := make([]limit.Bucket, len(changes))
	call := make([]lua.Change, len(changes))
	for i, c := range changes {
		a := &carried.Charges[i]
		chunk, made := s.auth.Local.BeginReturn(a, s.auth.Now())
		defer made()
		call[i].Key = lua.Key(a.Limit.Algorithm, c.Key.Rule, c.Key.Hash)
		call[i].View = head.View(a)
		call[i].View.Chunk = chunk
		shares[i] = entitlement.Bucket(a.Limit, c.Share)
		call[i].Gen, call[i].Share = c.Gen.Pack(), shares[i]
		call[i].Grant, call[i].Cold, call[i].From = limit.Tokens(c.Grant), c.Cold, c.From
		call[i].Deadline = deadline
	}
	applied, err := s.applyInTime(ctx, end, head.Epoch, call)
	s.emergency.Applied(carried, shares, applied)
	s.others.recordMark(err == nil)
	if err != nil {
		return s.notApplied(ctx, changes, err)
	}
	results := make([]budget.ShareResult, len(changes))
	for i, a := range applied {
		results[i] = budget.ShareResult{
			Key: changes[i].Key, Released: int64(a.Released), Tokens: int64(a.Tokens),
			// Stale: the record has seen a later share than this leader's, so the store enforces
			// that one.
			Amnesia: a.Amnesia, Failed: a.Late || a.Stale,
			InUse: int64(a.InUse), Due: time.Duration(a.Due) * time.Microsecond, Label: a.Label, Tail: carried.Charges[i].Limit.Tail(),
			Capacity: int64(carried.Charges[i].Limit.Capacity),
		}
	}
	return results
}

// notApplied returns the results of changes that failed.
func (s *Session) notApplied(ctx context.Context, changes []budget.ShareChange, err error) []budget.ShareResult {
	s.applyFailed(ctx, err)
	results := make([]budget.ShareResult, len(changes))
	for i, c := range changes {
		results[i] = budget.ShareResult{Key: c.Key, Failed: true}
	}
	return results
}

// errSilent: the store did not answer recently, so no change is sent to it.
var errSilent = errors.New("the store does not answer")

// learnContents learns the store's contents if they are known to be others than before. A change that
// names the contents of before would not be made, but from its sending on it would not be known what
// the keys hold, and the new contents could not be told. A Redis Cluster is learned in seconds.
func (s *Session) learnContents(ctx context.Context) error {
	if !s.store.Doubted() {
		return nil
	}
	began := s.auth.Now()
	err := s.store.Learn(ctx)
	if err != nil {
		background.Pause(ctx, storeguard.HeardDeadline-s.auth.Now().Sub(began)) // otherwise the next Hello would bring the same changes at once
	}
	return err
}

// learnClock asks the store for its time if the store's contents were learnt a moment ago and no
// check has asked since. Otherwise the shares at the start of a session could not be applied, and
// the session would end.
func (s *Session) learnClock(ctx context.Context) {
	if s.auth.Clock.Until(s.auth.Now()) == 0 {
		s.tellHeard(ctx)
	}
}

// applyInTime applies changes before an instant, by the store's clock their deadline, or not at all. If the store has not answered, the
// changes may still be on their way to it. The leader must not learn that they failed while they
// could take effect, so this waits until they no longer can.
func (s *Session) applyInTime(ctx context.Context, end budget.Instant, epoch string, call []lua.Change) ([]limit.Applied, error) {
	applied, _, err := s.store.Apply(ctx, storeguard.ApplyDeadline, epoch, call)
	if err != nil && storeguard.Reason(err) != "epoch" {
		background.Pause(ctx, end.Sub(s.auth.Now())+time.Millisecond)
	}
	return applied, err
}

// errNoStoreClock: the store's clock has not been read since the store was reached.
var errNoStoreClock = errors.New("the store's clock is not known yet")

// tellHeard lets the store know that a daemon of this region is heard. Another daemon that is cut
// off then does not take the floor back, which may be lent. Reports mention a store that does not
// take this mark. The leader then counts the region as silent if another daemon of it is known.
func (s *Session) tellHeard(ctx context.Context) {
	_, _, err := s.store.Apply(ctx, storeguard.HeardDeadline, s.auth.CurrentEpoch(), nil)
	s.others.recordMark(err == nil)
	if err != nil && storeguard.Reason(err) == "epoch" {
		_ = s.store.Learn(ctx) // the next check and the probe ask again
	}
}

// notMadeEvery is the minimum interval between the log lines about directives that failed for one
// cause. While the store is silent each Hello brings one.
const notMadeEvery = 30 * time.Second

// applyFailed logs the error, and learns the store's contents if they are others now.
func (s *Session) applyFailed(ctx context.Context, err error) {
	if s.notMade.Allow(err.Error(), time.Now()) {
		s.log.Warn("a directive could not be applied in the store: no session stays open, or opens, until one can", "error", err)
	}
	if storeguard.Reason(err) == "epoch" {
		_ = s.store.Learn(ctx) // the next check and the probe ask again
	}
}
