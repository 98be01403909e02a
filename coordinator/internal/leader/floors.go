package leader

import (
	"context"
	"errors"
	"slices"
	"time"

	"aliquot/budget"
	clusterstate "aliquot/cluster/state"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/rules"
)

// fillSlack covers the calls that a store received before a change and executes after it.
const fillSlack = 5 * time.Second

// floorChange drives a change of floors or of timing to its end. Each step changes the configuration,
// which ends the epoch; so a loop makes at most one step. It belongs to the loop.
type floorChange struct {
	version uint64
	steps   budget.FloorSteps
	pending bool
	// sets are those of the last setRules.
	sets []*rules.Set
}

func newFloorChange(c *budget.Config, now budget.Instant) floorChange {
	return floorChange{version: c.Version, steps: budget.NewFloorSteps(c, now)}
}

// advanceFloors proposes the next step when it is due.
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

// floorsAdvanced handles the outcome of a step. A step that was committed ends the epoch when the loop
// sees the new configuration. A step in doubt is proposed again, and the ledger refuses it if it was
// committed.
func (l *Loop) floorsAdvanced(err error) {
	l.floors.pending = false
	if err != nil && !errors.Is(err, budget.ErrStaleFloors) {
		l.log.Warn("a step of a change of floors failed; trying again", "error", err)
	}
}

// endIfConfigChanged ends the loop if the regions or their floors have changed: the state machine is
// made for one configuration.
func (l *Loop) endIfConfigChanged() {
	var version uint64
	l.node.View(func(s *clusterstate.State) { version = s.Ledger.Config.Version })
	if version != l.floors.version {
		l.failed = ErrConfigChanged
	}
}

// setRules sets how long a change of floors has to wait under these sets of rules. If no limit differs from
// the last call, the wait goes on: blocks come more often than slow buckets fill.
func (f *floorChange) setRules(c *budget.Config, sets ...*rules.Set) {
	same := slices.EqualFunc(f.sets, sets, rules.SameLimits)
	if f.sets = sets; same {
		return
	}
	var tail, fill time.Duration
	for _, set := range sets {
		eachLimit(set, func(l limit.Limit) { tail = max(tail, l.Tail()) })
		fill = max(fill, slowestFill(set, c))
	}
	f.steps.SetRules(fill, tail)
}

// eachLimit calls look with every limit of a set of rules; a nil set has none.
func eachLimit(set *rules.Set, look func(limit.Limit)) {
	if set == nil {
		return
	}
	for _, rule := range set.Rules() {
		eachLimitOf(rule, look)
	}
}

// eachLimitOf calls look with every limit of one rule.
func eachLimitOf(rule *rules.Rule, look func(limit.Limit)) {
	look(rule.Limit)
	for _, o := range rule.Overrides() {
		look(o.Limit)
	}
}

// longestTail returns the longest tail of a rule's limits. A request may bring a limit of any window to
// a rule that accepts it.
func longestTail(rule *rules.Rule) (tail time.Duration) {
	if rule.RequestLimit && rule.Limit.Algorithm.Counts() {
		return budget.MaxTail
	}
	eachLimitOf(rule, func(l limit.Limit) { tail = max(tail, l.Tail()) })
	return tail
}

// slowestFill returns the longest time that a bucket of the rules takes to fill, or that use takes to
// be forgotten.
func slowestFill(set *rules.Set, c *budget.Config) time.Duration {
	var slowest time.Duration
	eachLimit(set, func(l limit.Limit) { slowest = max(slowest, c.FillTime(entitlement.KeyLimit(l))) })
	return slowest + fillSlack
}

// entryExpiry is when the leader removes entries whose time is over. It belongs to the loop.
type entryExpiry struct {
	// next is when the first entry ends, in Unix milliseconds; 0: no entry ends.
	next int64
	// ending reports whether a command is in flight; ended receives its outcome.
	ending bool
	ended  chan error
}

// expireEntries proposes to remove the entries whose time is over.
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

// entriesExpired handles the outcome. A command in doubt is proposed again, and changes nothing if it
// was committed.
func (l *Loop) entriesExpired(err error) {
	l.expiry.ending = false
	if err != nil {
		l.log.Warn("could not remove expired entries; trying again", "error", err)
	}
}
