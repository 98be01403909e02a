package regional

import (
	"context"
	"slices"

	"aliquot/lua"
)

// decideInParts decides a group when a store of several servers could not be asked about some of
// its limits. The rules' fallback decides those, and the store still decides the others. An
// emergency limit for the whole group would admit its own amount beside the store's. If the
// emergency limits admit a request that the store then denies, the client loses the tokens that
// they took. Its error is errGone.
func (l *limiter) decideInParts(ctx context.Context, g *group) error {
	lost, rest := g.parts()
	l.fallBack([]*group{lost})
	if lost.allowed && len(rest.asks) > 0 {
		again := []*group{rest}
		if err := l.spend(ctx, again); err != nil {
			return err
		}
		rest = again[0]
	} else {
		// The store's earlier answer about these limits holds. Nothing is charged.
		answer := lua.Result{Allowed: len(rest.asks) == 0}
		for i := range g.asks {
			if !slices.Contains(g.undecided, i) {
				answer.Limits = append(answer.Limits, g.answer.Limits[i])
			}
		}
		l.auth.floors.RLock()
		l.auth.observe(rest.settle(answer, nil))
		l.auth.floors.RUnlock()
	}
	g.join(lost, rest)
	return nil
}
