package regional

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// What is borrowed of a key is on its way here for a while, and the store may deny a
// check for want of just that. Such a check waits until it is here, and the store is
// asked a second time, with all of it brought back.

// await notes what a denied group has to wait for.
func (g *group) await() {
	if g.lastTime || g.upkeep || g.peek || !time.Now().Before(g.until) {
		return
	}
	for i := range g.asks {
		if e := g.asks[i].local; e != nil {
			if landed := e.awaited(); landed != nil {
				g.awaits = append(g.awaits, landed)
			}
		}
	}
}

// maySucceed notes what a denied reservation has to wait for, and reports whether it is worth
// asking once more: for that, or for what has come here since its call left.
func (g *group) maySucceed() bool {
	if g.lastTime {
		return false
	}
	g.await()
	return g.awaits != nil || slices.ContainsFunc(g.asks, func(a ask) bool { return a.local != nil && a.left > 0 })
}

// askAgain decides the groups that have something to wait for. Its error is errGone.
func (l *limiter) askAgain(ctx context.Context, groups []*group) error {
	var again []*group
	for _, g := range groups {
		if g.awaits != nil {
			again = append(again, g)
		}
	}
	if again == nil {
		return nil
	}
	asked := slices.Clone(again)
	for _, g := range again {
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
	if err := l.spend(ctx, again); err != nil {
		return err
	}
	for i, g := range asked { // given up, a group has another one in its place
		groups[slices.Index(groups, g)] = again[i]
	}
	return nil
}

// wait waits for what a group awaits, as long as its caller has patience.
func (g *group) wait(ctx context.Context) error {
	enough := time.NewTimer(time.Until(g.until))
	defer enough.Stop()
	for _, landed := range g.awaits {
		select {
		case <-landed:
		case <-enough.C:
			g.awaits, g.lastTime = nil, true
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errGone, ctx.Err())
		}
	}
	g.awaits, g.lastTime = nil, true
	return nil
}
