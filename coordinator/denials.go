package coordinator

import (
	"fmt"
	"time"

	"aliquot/budget"
)

const (
	// rolloutMin is how many requests make a share: of 1,000 the share is known to 1.6
	// hundredths (one standard deviation) at worst, a third of what halts by default.
	rolloutMin = 1000
	// rolloutWindow is how far back a share looks where there are enough requests; twice
	// as far, or rather the last two of such windows, count.
	rolloutWindow = time.Minute
	// rolloutSettles is after how long a region's denials are those of its new rules: a
	// limit that is new to it begins cold, and its share takes a moment to come.
	rolloutSettles = 5 * time.Second
)

// decided is what was decided under one version of the rules, as a region counts it
// since it took them.
type decided struct {
	version         uint64
	allowed, denied uint64
}

func (d decided) total() uint64 { return d.allowed + d.denied }

// share of the requests that was denied; 0 of none.
func (d decided) share() float64 {
	if d.total() == 0 {
		return 0
	}
	return float64(d.denied) / float64(d.total())
}

func (d decided) String() string {
	return fmt.Sprintf("%.1f %% of %d requests", 100*d.share(), d.total())
}

// denials follow what one region decides, by its reports. The zero value has heard of
// nothing.
type denials struct {
	told decided        // as it was last told
	took budget.Instant // when its version was first told of
	// The window in progress, since when, and the one before.
	now, before decided
	began       budget.Instant
}

// hear takes what a report tells. A region counts anew under other rules, and a daemon
// after a restart.
func (d *denials) hear(told decided, at budget.Instant) {
	if told.version != d.told.version || d.took == 0 {
		*d = denials{told: told, took: at, began: at}
		return
	}
	last := d.told
	if told.allowed < last.allowed || told.denied < last.denied {
		last = decided{}
	}
	d.told = told
	if !d.settled(at) {
		d.began = at
		return
	}
	if at.Sub(d.began) >= rolloutWindow && d.now.total() >= rolloutMin {
		d.before, d.now, d.began = d.now, decided{}, at
	}
	d.now.allowed += told.allowed - last.allowed
	d.now.denied += told.denied - last.denied
}

// settled reports whether what the region decides is what its rules make of it.
func (d *denials) settled(at budget.Instant) bool {
	return d.took != 0 && at.Sub(d.took) >= rolloutSettles
}

// lately is what the region has decided in the last windows, once it has settled.
func (d *denials) lately() decided {
	return decided{d.told.version, d.now.allowed + d.before.allowed, d.now.denied + d.before.denied}
}

// known is lately, or if that is too little to tell, all that the daemon has counted.
func (d *denials) known() decided {
	if lately := d.lately(); lately.total() >= rolloutMin {
		return lately
	}
	return d.told
}

// jump says in words by how much more of its requests a region denies than before, if
// that is more than it may. What is too little to tell counts as nothing denied before.
func jump(region string, now, before decided, abovePPM uint32) (why string, is bool) {
	if now.total() < rolloutMin {
		return "", false
	}
	words := "before: " + before.String()
	if before.total() < rolloutMin {
		words = fmt.Sprintf("before: too few requests to tell, %d; taken as none denied", before.total())
		before = decided{}
	}
	if now.share() <= before.share()+float64(abovePPM)/1e6 {
		return "", false
	}
	return fmt.Sprintf("%s denies %v (%s); it may rise by %.4g hundredths", region, now, words, float64(abovePPM)/1e4), true
}
