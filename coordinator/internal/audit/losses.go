package audit

import (
	"time"

	"aliquot/budget"
)

const (
	// maxLosses bounds the losses that are remembered.
	maxLosses = 64
	// maxForgiven is how long after a loss a bucket may still admit what the loss has forgiven; see
	// recall.Table.Memory. A counting limit may do so for three tails.
	maxForgiven = 48 * time.Hour
)

// recordContents records the contents of a region's store by its latest report; 0: not known. Other
// contents than before are a loss.
func (a *Audit) recordContents(region int, contents uint32, now budget.Instant) {
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

// forgiven returns how many tokens of a key may have been admitted beyond its promise in its busy
// period, because stores had lost their contents. The audit finds a loss with the report after it.
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
