package regional

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Tokens that were borrowed of a key are on their way to this daemon for a while. The store may
// deny a check that would pass with those tokens. Such a check waits until they have arrived. Then
// the store is asked a second time, and all borrowed tokens go back with that call.

// await notes which calls a denied group has to wait for. It notes none if the group was already
// asked twice, only looks, or has no time left.
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

// maySucceed reports whether a denied reservation is worth asking a second time: a call that brings
// tokens of its keys is still under way, or such tokens have arrived since its own call left. It
// notes the calls to wait for.
func (g *group) maySucceed() bool {
	if g.lastTime {
		return false
	}
	g.await()
	return g.awaits != nil || slices.ContainsFunc(g.asks, func(a ask) bool { return a.local != nil && a.left > 0 })
}

// askAgain decides the groups that wait for a call a second time. Its error is errGone.
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
	for i, g := range asked { // a group whose caller gave up was replaced by a copy
		groups[slices.Index(groups, g)] = again[i]
	}
	return nil
}

// wait waits for the calls that a group awaits, at most until the group's deadline. Its error is
// errGone.
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
