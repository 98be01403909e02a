package emergency

import (
	"context"
	"slices"

	"aliquot/budget"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
)

// Turn is a caller's turn to send a call that carries what keys owe. The zero value has no key.
type Turn struct{ keys []budget.KeyID }

// Settling reports whether another call carries the debt of one of the group's keys, or is about to: that call would
// subtract the debt, and one for this group would subtract it once more. If not, the turn is the caller's, until
// TurnOver.
func (e *Limit) Settling(g *charge.Transaction, turn *Turn) bool {
	if !e.Owes() || g.Peek || g.ChunkOnly {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy(g, turn) {
		return true
	}
	e.takeTurn(g, turn)
	return false
}

// busy reports whether the debt of one of a group's keys is carried, or is about to be, by a call of another caller than
// the one who has a turn. The caller holds mu.
func (e *Limit) busy(g *charge.Transaction, turn *Turn) bool {
	return slices.ContainsFunc(g.Charges, func(a charge.Charge) bool {
		has := e.turns[a.Key]
		return e.table.Settling(a.Key) || has != nil && has != turn
	})
}

// takeTurn gives a caller the turn of those of a group's keys that owe something. The caller holds mu.
func (e *Limit) takeTurn(g *charge.Transaction, turn *Turn) {
	for i := range g.Charges {
		if key := g.Charges[i].Key; e.table.Owes(key) && e.turns[key] == nil {
			e.turns[key] = turn
			turn.keys = append(turn.keys, key)
		}
	}
}

// AwaitTurn waits until no other call carries the debt of one of the groups' keys, but no longer than such a call takes.
// Then the turn is the caller's, until TurnOver.
func (e *Limit) AwaitTurn(ctx context.Context, groups []*charge.Transaction) *Turn {
	turn := &Turn{}
	if !e.Owes() {
		return turn
	}
	ctx, cancel := context.WithTimeout(ctx, storeguard.Deadline)
	defer cancel()
	for free := e.takeTurns(groups, turn); free != nil; free = e.takeTurns(groups, turn) {
		select {
		case <-free:
		case <-ctx.Done():
			return turn
		}
	}
	return turn
}

// takeTurns gives a caller the turn of all groups, or of none. If of none, free is closed when that may have changed.
func (e *Limit) takeTurns(groups []*charge.Transaction, turn *Turn) (free <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.ContainsFunc(groups, func(g *charge.Transaction) bool { return e.busy(g, turn) }) {
		if e.free == nil {
			e.free = make(chan struct{})
		}
		return e.free
	}
	for _, g := range groups {
		e.takeTurn(g, turn)
	}
	return nil
}

// wake has those look again who wait for a turn. The caller holds mu.
func (e *Limit) wake() {
	if e.free != nil {
		close(e.free)
		e.free = nil
	}
}

// TurnOver ends a turn, if there is one: the caller's call is over, or under way, or was not made.
func (e *Limit) TurnOver(turn *Turn) {
	if turn == nil || len(turn.keys) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range turn.keys {
		delete(e.turns, key)
	}
	turn.keys = nil
	e.wake()
}
