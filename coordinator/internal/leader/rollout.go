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

// minRolloutWatch is how long a leader watches before it promotes a version: right after its election
// it has seen nothing.
const minRolloutWatch = 10 * time.Second

// rolloutWatch watches the staged roll-out, if there is one. It belongs to the loop.
type rolloutWatch struct {
	startedAt budget.Instant  // when the epoch began
	regions   []decisionRates // by index
	// staged is the roll-out that is under way; nil without one.
	staged *clusterstate.Rollout
	// applied and version are the first and the last version of the text in force.
	applied, version uint64
	// ending reports whether the end of the roll-out was proposed; ended receives the outcome.
	ending bool
	ended  chan error
	// delayLogged reports whether the log says that the version cannot be promoted yet.
	delayLogged bool
}

func newRolloutWatch(regions int, now budget.Instant) rolloutWatch {
	return rolloutWatch{startedAt: now, regions: make([]decisionRates, regions), ended: make(chan error, 1)}
}

// follow sets the rules in force and the roll-out to watch.
func (w *rolloutWatch) follow(b *clusterstate.RuleBook) {
	w.applied, w.version = b.Applied, b.Version
	w.staged, w.delayLogged = nil, false
	if b.Rollout.UnderWay() {
		w.staged = b.Rollout
	}
}

// textOf returns the first version of the text that a region follows with a version: a change of entries
// makes a version of the same text. It returns an unknown version as it is.
func (w *rolloutWatch) textOf(region string, version uint64) uint64 {
	switch r := w.staged; {
	case r.StagedIn(region) && version >= r.First && version <= r.Version:
		return r.First
	case version >= w.applied && version <= w.version:
		return w.applied
	}
	return version
}

// add adds the counts of a region's report.
func (w *rolloutWatch) add(c *budget.Config, region int, counts DecisionCounts, at budget.Instant) {
	d, name := &w.regions[region], c.Regions[region].Name
	d.add(counts, at, w.textOf(name, counts.Version) == w.textOf(name, d.last.Version))
}

// decisionsBefore returns what the named regions decide under the rules in force.
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

// verdict returns the state in which the roll-out is to end now, and why; "" if it is not to end.
// RolloutStaged means that it cannot be promoted although its time has come. live reports whether a
// region is live.
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
		follows := w.textOf(r.Name, d.last.Version) == w.staged.First
		if follows {
			if why, jumped := denialJump(r.Name, d.recent(), w.decisionsBeforeOf(r.Name), w.staged.HaltAbovePPM); jumped {
				return clusterstate.RolloutHalted, why
			}
		}
		switch {
		case follows && live(i) && d.settled(now):
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
		return clusterstate.RolloutStaged, "no staged region is heard, or one of them does not use the version yet"
	}
	return clusterstate.RolloutPromoted, "no region's denials have jumped"
}

// decisionsBeforeOf returns what a region decided before the stage.
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

// rolloutEnded handles the outcome. An end in doubt is proposed again, and refused if it was committed.
func (l *Loop) rolloutEnded(err error) {
	l.rollout.ending = false
	if err != nil && !errors.Is(err, clusterstate.ErrNoRollout) {
		l.log.Warn("a roll-out could not be ended; trying again", "error", err)
	}
}

const (
	// minRolloutRequests is the number of requests that a share of denials needs. With 1,000 requests the
	// share is exact to 1.6 hundredths (one standard deviation) at worst, a third of the default that
	// halts a roll-out.
	minRolloutRequests = 1000
	// rolloutWindow is the window of a share of denials if it has enough requests. The last two windows
	// count.
	rolloutWindow = time.Minute
	// rolloutSettleTime is the time after which a region's denials are those of its new rules: a new limit
	// starts cold, and its share takes a moment to arrive.
	rolloutSettleTime = 5 * time.Second
)

// DecisionCounts are the decisions of a region since it took a version of the rules, or of a text.
type DecisionCounts struct {
	Version         uint64
	Allowed, Denied uint64
}

func (d DecisionCounts) total() uint64 { return d.Allowed + d.Denied }

// share returns the part of the requests that was denied; 0 without requests.
func (d DecisionCounts) share() float64 {
	if d.total() == 0 {
		return 0
	}
	return float64(d.Denied) / float64(d.total())
}

func (d DecisionCounts) String() string {
	return fmt.Sprintf("%.1f %% of %d requests", 100*d.share(), d.total())
}

// decisionRates follow the decisions of one region through its reports. The zero value has seen no
// report.
type decisionRates struct {
	last      DecisionCounts // of the last report
	all       DecisionCounts // all that the daemon has counted under this text, as far as reports say
	textSince budget.Instant // when a report first had a version of this text; 0: never
	// The current window, the one before, and the start of the current one.
	current, previous DecisionCounts
	windowStart       budget.Instant
}

// add adds the counts of a report. Counts start at zero under another version, and after a restart of the
// daemon. sameText: the version is one of the same text as that of the last report.
func (d *decisionRates) add(counts DecisionCounts, at budget.Instant, sameText bool) {
	if !sameText || d.textSince == 0 {
		*d = decisionRates{last: counts, all: counts, textSince: at, windowStart: at}
		return
	}
	last := d.last
	if counts.Version != last.Version || counts.Allowed < last.Allowed || counts.Denied < last.Denied {
		last = DecisionCounts{}
	}
	allowed, denied := counts.Allowed-last.Allowed, counts.Denied-last.Denied
	d.last = counts
	d.all = DecisionCounts{counts.Version, d.all.Allowed + allowed, d.all.Denied + denied}
	if !d.settled(at) {
		d.windowStart = at
		return
	}
	if at.Sub(d.windowStart) >= rolloutWindow && d.current.total() >= minRolloutRequests {
		d.previous, d.current, d.windowStart = d.current, DecisionCounts{}, at
	}
	d.current.Allowed += allowed
	d.current.Denied += denied
}

// settled reports whether the region has followed its rules for long enough.
func (d *decisionRates) settled(at budget.Instant) bool {
	return d.textSince != 0 && at.Sub(d.textSince) >= rolloutSettleTime
}

// recent returns the decisions of the last windows, once the region has settled.
func (d *decisionRates) recent() DecisionCounts {
	return DecisionCounts{d.last.Version, d.current.Allowed + d.previous.Allowed, d.current.Denied + d.previous.Denied}
}

// baseline returns recent if that has enough requests; else everything that the daemon has counted under
// the text.
func (d *decisionRates) baseline() DecisionCounts {
	if lately := d.recent(); lately.total() >= minRolloutRequests {
		return lately
	}
	return d.all
}

// denialJump reports whether the region's share of denials has risen above the share before by more
// than abovePPM millionths. why describes the jump. If there were too few requests before, that share
// counts as 0.
func denialJump(region string, now, before DecisionCounts, abovePPM uint32) (why string, jumped bool) {
	if now.total() < minRolloutRequests {
		return "", false
	}
	words := "before: " + before.String()
	if before.total() < minRolloutRequests {
		words = fmt.Sprintf("before: too few requests to compare, %d; counted as none denied", before.total())
		before = DecisionCounts{}
	}
	if now.share() <= before.share()+float64(abovePPM)/1e6 {
		return "", false
	}
	return fmt.Sprintf("%s denies %v (%s); it may rise by %.4g hundredths", region, now, words, float64(abovePPM)/1e4), true
}
