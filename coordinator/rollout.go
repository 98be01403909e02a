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
const rolloutWatched = 10 * time.Second

// rollout watches the staged roll-out under way, if there is one. It belongs to the
// loop.
type rollout struct {
	began   budget.Instant // of the reign
	regions []denials      // by index
	// staged is the roll-out under way; nil if there is none.
	staged *clusterstate.Rollout
	// ending: its end was proposed; ended is the outcome.
	ending bool
	ended  chan error
	// held: somebody was told that it cannot be promoted yet.
	held bool
}

func newRollout(regions int, now budget.Instant) rollout {
	return rollout{began: now, regions: make([]denials, regions), ended: make(chan error, 1)}
}

// follow takes the roll-out that the rules tell of.
func (w *rollout) follow(r *clusterstate.Rollout) {
	if !r.UnderWay() {
		r = nil
	}
	w.staged, w.held = r, false
}

// before is what some regions decide under the rules in force.
func (w *rollout) before(c *budget.Config, regions []string) []clusterstate.Decisions {
	var out []clusterstate.Decisions
	for i, r := range c.Regions {
		if slices.Contains(regions, r.Name) {
			known := w.regions[i].known()
			out = append(out, clusterstate.Decisions{Region: r.Name, Allowed: known.allowed, Denied: known.denied})
		}
	}
	return out
}

// judge says how the roll-out is to end now, and why; "" is not yet. live tells which
// regions are heard.
func (w *rollout) judge(c *budget.Config, live func(region int) bool, now budget.Instant, unixMS int64) (state, why string) {
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
		goesBy := d.told.version == w.staged.Version
		if goesBy {
			if why, is := jump(r.Name, d.lately(), w.beforeOf(r.Name), w.staged.HaltAbovePPM); is {
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
	if due == 0 || unixMS < due || now.Sub(w.began) < rolloutWatched {
		return "", ""
	}
	if late || settled == 0 {
		return clusterstate.RolloutStaged, "no staged region is heard, or one of them does not go by the version yet"
	}
	return clusterstate.RolloutPromoted, "no region's denials have jumped"
}

func (w *rollout) beforeOf(region string) decided {
	for _, d := range w.staged.Before {
		if d.Region == region {
			return decided{allowed: d.Allowed, denied: d.Denied}
		}
	}
	return decided{}
}

// watchRollout ends the roll-out when that is due.
func (r *reign) watchRollout(ctx context.Context) {
	now := r.now()
	live := func(i int) bool { return r.machine.Region(i, now, 0).Live }
	state, why := r.rollout.judge(&r.ledger.Config, live, now, time.Now().UnixMilli())
	staged := r.rollout.staged
	switch state {
	case "":
		return
	case clusterstate.RolloutStaged:
		if !r.rollout.held {
			r.rollout.held = true
			r.log.Warn("a staged version of the rules is not promoted although its time has come", "version", staged.Version, "reason", why)
		}
		return
	case clusterstate.RolloutHalted:
		r.log.Error("a staged version of the rules is halted: denials jump", "version", staged.Version,
			"regions", staged.Regions, "reason", why)
	case clusterstate.RolloutPromoted:
		r.log.Info("a staged version of the rules comes into force everywhere", "version", staged.Version, "reason", why)
	}
	r.rollout.ending = true
	r.pending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		_, err := r.node.EndRollout(ctx, staged.Version, state, why, "coordinator "+r.node.NodeID())
		r.rollout.ended <- err
	})
}

// rolloutEnded takes the outcome. An end in doubt is proposed again, and refused if it
// was made.
func (r *reign) rolloutEnded(err error) {
	r.rollout.ending = false
	if err != nil && !errors.Is(err, clusterstate.ErrNoRollout) {
		r.log.Warn("a roll-out could not be ended; trying again", "error", err)
	}
}
