package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clusterstate "aliquot/cluster/state"

	"aliquot/budget"
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
			out = append(out, clusterstate.Decisions{Region: r.Name, Allowed: known.Allowed, Denied: known.Denied})
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
		goesBy := d.last.Version == w.staged.Version
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

func (w *rolloutWatch) decisionsBeforeOf(region string) DecisionCounts {
	for _, d := range w.staged.Before {
		if d.Region == region {
			return DecisionCounts{Allowed: d.Allowed, Denied: d.Denied}
		}
	}
	return DecisionCounts{}
}

// watchRollout ends the roll-out when that is due.
func (l *Loop) watchRollout(ctx context.Context) {
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
func (l *Loop) rolloutEnded(err error) {
	l.rollout.ending = false
	if err != nil && !errors.Is(err, clusterstate.ErrNoRollout) {
		l.log.Warn("a roll-out could not be ended; trying again", "error", err)
	}
}

const (
	// rolloutMin is how many requests make a share: of 1,000 the share is known to 1.6
	// hundredths (one standard deviation) at worst, a third of what halts by default.
	minRolloutRequests = 1000
	// rolloutWindow is how far back a share looks where there are enough requests; twice
	// as far, or rather the last two of such windows, count.
	rolloutWindow = time.Minute
	// rolloutSettles is after how long a region's denials are those of its new rules: a
	// limit that is new to it begins cold, and its share takes a moment to come.
	rolloutSettleTime = 5 * time.Second
)

// decided is what was decided under one version of the rules, as a region counts it
// since it took them.
type DecisionCounts struct {
	Version         uint64
	Allowed, Denied uint64
}

func (d DecisionCounts) total() uint64 { return d.Allowed + d.Denied }

// share of the requests that was denied; 0 of none.
func (d DecisionCounts) share() float64 {
	if d.total() == 0 {
		return 0
	}
	return float64(d.Denied) / float64(d.total())
}

func (d DecisionCounts) String() string {
	return fmt.Sprintf("%.1f %% of %d requests", 100*d.share(), d.total())
}

// denials follow what one region decides, by its reports. The zero value has heard of
// nothing.
type decisionRates struct {
	last         DecisionCounts // as it was last told
	versionSince budget.Instant // when its version was first told of
	// The window in progress, since when, and the one before.
	current, previous DecisionCounts
	windowStart       budget.Instant
}

// hear takes what a report tells. A region counts anew under other rules, and a daemon
// after a restart.
func (d *decisionRates) add(counts DecisionCounts, at budget.Instant) {
	if counts.Version != d.last.Version || d.versionSince == 0 {
		*d = decisionRates{last: counts, versionSince: at, windowStart: at}
		return
	}
	last := d.last
	if counts.Allowed < last.Allowed || counts.Denied < last.Denied {
		last = DecisionCounts{}
	}
	d.last = counts
	if !d.settled(at) {
		d.windowStart = at
		return
	}
	if at.Sub(d.windowStart) >= rolloutWindow && d.current.total() >= minRolloutRequests {
		d.previous, d.current, d.windowStart = d.current, DecisionCounts{}, at
	}
	d.current.Allowed += counts.Allowed - last.Allowed
	d.current.Denied += counts.Denied - last.Denied
}

// settled reports whether what the region decides is what its rules make of it.
func (d *decisionRates) settled(at budget.Instant) bool {
	return d.versionSince != 0 && at.Sub(d.versionSince) >= rolloutSettleTime
}

// lately is what the region has decided in the last windows, once it has settled.
func (d *decisionRates) recent() DecisionCounts {
	return DecisionCounts{d.last.Version, d.current.Allowed + d.previous.Allowed, d.current.Denied + d.previous.Denied}
}

// known is lately, or if that is too little to tell, all that the daemon has counted.
func (d *decisionRates) baseline() DecisionCounts {
	if lately := d.recent(); lately.total() >= minRolloutRequests {
		return lately
	}
	return d.last
}

// jump says in words by how much more of its requests a region denies than before, if
// that is more than it may. What is too little to tell counts as nothing denied before.
func denialJump(region string, now, before DecisionCounts, abovePPM uint32) (why string, is bool) {
	if now.total() < minRolloutRequests {
		return "", false
	}
	words := "before: " + before.String()
	if before.total() < minRolloutRequests {
		words = fmt.Sprintf("before: too few requests to tell, %d; taken as none denied", before.total())
		before = DecisionCounts{}
	}
	if now.share() <= before.share()+float64(abovePPM)/1e6 {
		return "", false
	}
	return fmt.Sprintf("%s denies %v (%s); it may rise by %.4g hundredths", region, now, words, float64(abovePPM)/1e4), true
}
