package leader

import (
	"context"
	"errors"
	"math"
	"time"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
	"aliquot/limit"
	"aliquot/rules"
)

// fillSlack is for what a store was told before a change and does after it.
const million = 1_000_000

const fillSlack = 5 * time.Second

// floors drives a change of floors, or of timing, to its end, one step a reign: each step changes
// the configuration, which ends the reign. It belongs to the loop.
type floorChange struct {
	version uint64
	steps   budget.FloorSteps
	pending bool
}

func newFloorChange(c *budget.Config, now budget.Instant) floorChange {
	return floorChange{version: c.Version, steps: budget.NewFloorSteps(c, now)}
}

// advanceFloors proposes the next step as soon as it is due.
func (l *Loop) advanceFloors(ctx context.Context) {
	f := &l.floors
	if f.pending {
		return
	}
	progress, due := f.steps.Due(l.machine, l.now())
	if !due {
		return
	}
	f.pending = true
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		err := l.node.AdvanceFloors(ctx, f.version, progress)
		l.advanced <- err
	})
}

// advanceDone takes the outcome of a step. A step that was made ends the reign, when
// the loop sees the new configuration; one in doubt is proposed again, and refused if
// it was made.
func (l *Loop) floorsAdvanced(err error) {
	l.floors.pending = false
	if err != nil && !errors.Is(err, budget.ErrStaleFloors) {
		l.log.Warn("a step of a change of floors failed; trying again", "error", err)
	}
}

// configMayHaveChanged ends the reign when the regions or their floors have changed:
// the machine is made for one configuration.
func (l *Loop) endIfConfigChanged() {
	var version uint64
	l.node.View(func(s *clusterstate.State) { version = s.Ledger.Config.Version })
	if version != l.floors.version {
		l.failed = ErrConfigChanged
	}
}

// ruleTimes notes what changes of floors have to wait for under sets of rules.
func (f *floorChange) setRules(c *budget.Config, sets ...*rules.Set) {
	var tail, fill time.Duration
	for _, set := range sets {
		eachLimit(set, func(l limit.Limit) { tail = max(tail, l.Tail()) })
		fill = max(fill, slowestFill(set, c))
	}
	f.steps.SetRules(fill, tail)
}

// eachLimit looks at every limit of a set of rules; nil has none.
func eachLimit(set *rules.Set, look func(limit.Limit)) {
	if set == nil {
		return
	}
	for _, rule := range set.Rules() {
		eachLimitOf(rule, look)
	}
}

func eachLimitOf(rule *rules.Rule, look func(limit.Limit)) {
	look(rule.Limit)
	for _, o := range rule.Overrides() {
		look(o.Limit)
	}
}

// longestTail is that of any of a rule's limits.
func longestTail(rule *rules.Rule) (tail time.Duration) {
	eachLimitOf(rule, func(l limit.Limit) { tail = max(tail, l.Tail()) })
	return tail
}

// slowestFill is how long any bucket of the rules takes to fill from empty at the
// smallest floor there is, or any use to be forgotten, by a store's clock that is as much
// slower than this one as rho allows.
func slowestFill(set *rules.Set, c *budget.Config) time.Duration {
	least := int32(budget.Unit)
	for i := range c.Regions {
		if floor := c.Regions[i].Told.Rate; floor > 0 {
			least = min(least, floor)
		}
	}
	slowest := 0.0
	eachLimit(set, func(l limit.Limit) {
		// An elastic bucket holds the whole capacity.
		slowest = max(slowest, float64(l.Capacity)/MicroToken/(PerSecond(l.PerSecond())*Fraction(least)), l.Tail().Seconds())
	})
	seconds := slowest * (1 + float64(c.RhoPPM)/million)
	if seconds > (math.MaxInt64 / 4 / float64(time.Second)) {
		return math.MaxInt64 / 4
	}
	return time.Duration(seconds*float64(time.Second)) + fillSlack
}

// entryEnds is when the leader takes entries away. It belongs to the loop.
type entryExpiry struct {
	// next is when the first entry ends, Unix milliseconds; 0: none does.
	next int64
	// ending: a command is under way; ended is its outcome.
	ending bool
	ended  chan error
}

// endEntries proposes the end of entries whose time is over.
func (l *Loop) expireEntries(ctx context.Context) {
	now := time.Now().UnixMilli()
	if e := &l.expiry; e.next == 0 || now < e.next || e.ending {
		return
	}
	l.expiry.ending = true
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		l.expiry.ended <- l.node.EndEntries(ctx, now)
	})
}

// entriesEnded takes the outcome. A command in doubt is proposed again, and changes nothing
// if it was made.
func (l *Loop) entriesExpired(err error) {
	l.expiry.ending = false
	if err != nil {
		l.log.Warn("entries whose time is over could not be taken away; trying again", "error", err)
	}
}
