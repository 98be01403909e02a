package audit

import (
	"time"

	"aliquot/budget"
)

const (
	// maxLosses bounds the losses that are remembered.
	maxLosses = 64
	// maxForgiven is how long after a loss a bucket may still be forgiven it; see recall.Table.Memory. A
	// counting limit may be for three tails.
	maxForgiven = 48 * time.Hour
)

// storeHas notes what identifies the contents of a region's store by its latest report; 0: not known.
// Other contents than before are a loss.
func (a *Audit) storeHas(region int, contents uint32, now budget.Instant) {
	a.contents = growTo(a.contents, region)
	before := a.contents[region]
	if contents == 0 || contents == before {
		return
	}
	a.contents[region] = contents
	if before == 0 {
		return
	}
	if len(a.losses) == maxLosses {
		a.losses = a.losses[1:]
	}
	a.losses = append(a.losses, now)
}

// forgiven returns what may have been admitted of a key beyond its promise in its busy period, because
// stores had lost their contents, in tokens. A loss is found a report after it.
func (a *Audit) forgiven(key *keyRecord) (sum float64) {
	if key.perLoss == 0 {
		return 0
	}
	from := key.busy.since.Add(-max(maxForgiven, 3*key.limit.Tail))
	for _, at := range a.losses {
		if at >= from {
			sum += key.perLoss
		}
	}
	return sum
}
