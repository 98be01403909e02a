package engine

import (
	"context"

	"aliquot/lua"
	"aliquot/regional/internal/charge"
)

// decideInParts decides a group of which a store of several servers could not decide some limits.
// The rules' fallback decides those, and the store still decides the others: an emergency limit for
// the whole group would admit its own amount beside the store's. If the emergency limits admit a
// request that the store then denies, the client loses the tokens that they took. Its error is
// charge.ErrGone.
func (l *Engine) decideInParts(ctx context.Context, g *charge.Transaction) error {
	lost, rest := g.Split()
	l.FallBack([]*charge.Transaction{lost})
	if lost.Allowed && len(rest.Charges) > 0 {
		again := []*charge.Transaction{rest}
		if err := l.spend(ctx, again); err != nil {
			return err
		}
		rest = again[0]
	} else {
		// The store's earlier answer about these limits holds. Nothing is charged.
		answer := lua.Result{Allowed: len(rest.Charges) == 0}
		for i := range g.Charges {
			if _, undecided := g.Undecided[i]; !undecided {
				answer.Limits = append(answer.Limits, g.Answer.Limits[i])
			}
		}
		l.Auth.HoldFloor()
		defer l.Auth.ReleaseFloor() // also after a panic
		l.Auth.Observe(rest.ApplyResult(answer, nil))
	}
	g.Join(lost, rest)
	return nil
}
