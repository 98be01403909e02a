package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
)

// rolloutWatched is how long a leader watches before it promotes: one that was elected
// a moment ago has seen nothing yet.
const minRolloutWatch = 10 * time.Second

// rollout watches the staged roll-out under way, if there is one. It belongs to the
// loop.
type rolloutWatch struct {
	startedAt budget.Instant  // of the reign
	regions   []decisionRates // by index
	// staged is the roll-out under way; nil if there is none.
	staged *clusterstate.Rollout
	// ending: its end was proposed; ended is the outcome.
	ending bool
	ended  chan error
	// held: somebody was told that it cannot be promoted yet.
	delayLogged bool
}

func newRolloutWatch(regions int, now budget.Instant) rolloutWatch {
	return rolloutWatch{startedAt: now, regions: make([]decisionRates, regions), ended: make(chan error, 1)}
}

// follow takes the roll-out that the rules tell of.
func (w *rolloutWatch) follow(r *clusterstate.Rollout) {
	if !r.UnderWay() {
		r = nil
	}
	w.staged, w.delayLogged = r, false
}

// before is what some regions decide under the rules in force.
func (w *rolloutWatch) decisionsBefore(c *budget.Config, regions []string) []clusterstate.Decisions {
	var out []clusterstate.Decisions
	for i, r := range c.Regions {
		if slices.Contains(regions, r.Name) {
			known := w.regions[i].baseline()
			out = append(out, clusterstate.Decisions{Region: r.Name, Allowed: known.allowed, Denied: known.denied})
		}
	}
	return out
}

// judge says how the roll-out is to end now, and why; "" is not yet. live tells which
// regions are heard.
func (w *rolloutWatch) verdict(c *budget.Config, live func(region int) bool, now budget.Instant, unixMS int64) (state, why string) {
	if w.staged == nil || w.ending {
		return "", ""
	}
	settled := 0
	late := false
	for i, r := range c.Regions {
		if !slices.Contains(w.staged.Regions, r.Name) {
			continue
		}
		d := &w.regions[i]
		goesBy := d.last.version == w.staged.Version
		if goesBy {
			if why, is := denialJump(r.Name, d.recent(), w.decisionsBeforeOf(r.Name), w.staged.HaltAbovePPM); is {
				return clusterstate.RolloutHalted, why
			}
		}
		switch {
		case goesBy && live(i) && d.settled(now):
			settled++
		case live(i):
			late = true
		}
	}
	due := w.staged.PromoteAtUnixMS
	if due == 0 || unixMS < due || now.Sub(w.startedAt) < minRolloutWatch {
		return "", ""
	}
	if late || settled == 0 {
		return clusterstate.RolloutStaged, "no staged region is heard, or one of them does not go by the version yet"
	}
	return clusterstate.RolloutPromoted, "no region's denials have jumped"
}

func (w *rolloutWatch) decisionsBeforeOf(region string) decisionCounts {
	for _, d := range w.staged.Before {
		if d.Region == region {
			return decisionCounts{allowed: d.Allowed, denied: d.Denied}
		}
	}
	return decisionCounts{}
}

// watchRollout ends the roll-out when that is due.
func (l *leaderLoop) watchRollout(ctx context.Context) {
	now := l.now()
	live := func(i int) bool { return l.machine.Region(i, now, 0).Live }
	state, why := l.rollout.verdict(&l.ledger.Config, live, now, time.Now().UnixMilli())
	staged := l.rollout.staged
	switch state {
	case "":
		return
	case clusterstate.RolloutStaged:
		if !l.rollout.delayLogged {
			l.rollout.delayLogged = true
			l.log.Warn("a staged version of the rules is not promoted although its time has come", "version", staged.Version, "reason", why)
		}
		return
	case clusterstate.RolloutHalted:
		l.log.Error("a staged version of the rules is halted: denials jump", "version", staged.Version,
			"regions", staged.Regions, "reason", why)
	case clusterstate.RolloutPromoted:
		l.log.Info("a staged version of the rules comes into force everywhere", "version", staged.Version, "reason", why)
	}
	l.rollout.ending = true
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		_, err := l.node.EndRollout(ctx, staged.Version, state, why, "coordinator "+l.node.NodeID())
		l.rollout.ended <- err
	})
}

// rolloutEnded takes the outcome. An end in doubt is proposed again, and refused if it
// was made.
func (l *leaderLoop) rolloutEnded(err error) {
	l.rollout.ending = false
	if err != nil && !errors.Is(err, clusterstate.ErrNoRollout) {
		l.log.Warn("a roll-out could not be ended; trying again", "error", err)
	}
}
