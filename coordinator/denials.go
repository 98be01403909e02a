package coordinator

import (
	"fmt"
	"time"

	"aliquot/budget"
)

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
type decisionCounts struct {
	version         uint64
	allowed, denied uint64
}

func (d decisionCounts) total() uint64 { return d.allowed + d.denied }

// share of the requests that was denied; 0 of none.
func (d decisionCounts) share() float64 {
	if d.total() == 0 {
		return 0
	}
	return float64(d.denied) / float64(d.total())
}

func (d decisionCounts) String() string {
	return fmt.Sprintf("%.1f %% of %d requests", 100*d.share(), d.total())
}

// denials follow what one region decides, by its reports. The zero value has heard of
// nothing.
type decisionRates struct {
	last         decisionCounts // as it was last told
	versionSince budget.Instant // when its version was first told of
	// The window in progress, since when, and the one before.
	current, previous decisionCounts
	windowStart       budget.Instant
}

// hear takes what a report tells. A region counts anew under other rules, and a daemon
// after a restart.
func (d *decisionRates) add(counts decisionCounts, at budget.Instant) {
	if counts.version != d.last.version || d.versionSince == 0 {
		*d = decisionRates{last: counts, versionSince: at, windowStart: at}
		return
	}
	last := d.last
	if counts.allowed < last.allowed || counts.denied < last.denied {
		last = decisionCounts{}
	}
	d.last = counts
	if !d.settled(at) {
		d.windowStart = at
		return
	}
	if at.Sub(d.windowStart) >= rolloutWindow && d.current.total() >= minRolloutRequests {
		d.previous, d.current, d.windowStart = d.current, decisionCounts{}, at
	}
	d.current.allowed += counts.allowed - last.allowed
	d.current.denied += counts.denied - last.denied
}

// settled reports whether what the region decides is what its rules make of it.
func (d *decisionRates) settled(at budget.Instant) bool {
	return d.versionSince != 0 && at.Sub(d.versionSince) >= rolloutSettleTime
}

// lately is what the region has decided in the last windows, once it has settled.
func (d *decisionRates) recent() decisionCounts {
	return decisionCounts{d.last.version, d.current.allowed + d.previous.allowed, d.current.denied + d.previous.denied}
}

// known is lately, or if that is too little to tell, all that the daemon has counted.
func (d *decisionRates) baseline() decisionCounts {
	if lately := d.recent(); lately.total() >= minRolloutRequests {
		return lately
	}
	return d.last
}

// jump says in words by how much more of its requests a region denies than before, if
// that is more than it may. What is too little to tell counts as nothing denied before.
func denialJump(region string, now, before decisionCounts, abovePPM uint32) (why string, is bool) {
	if now.total() < minRolloutRequests {
		return "", false
	}
	words := "before: " + before.String()
	if before.total() < minRolloutRequests {
		words = fmt.Sprintf("before: too few requests to tell, %d; taken as none denied", before.total())
		before = decisionCounts{}
	}
	if now.share() <= before.share()+float64(abovePPM)/1e6 {
		return "", false
	}
	return fmt.Sprintf("%s denies %v (%s); it may rise by %.4g hundredths", region, now, words, float64(abovePPM)/1e4), true
}
