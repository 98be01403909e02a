package check

import (
	"time"

	"aliquot/budget"
)

// The weight and the timings that an operator sets. They differ from those of the scenarios.
const (
	otherWeight  = 3
	shorterLease = 2200 * time.Millisecond
	longerLease  = 4400 * time.Millisecond
)

// operate adds an operator's command to the log. A new leader state machine starts.
func (w *world) operate(k kind, a int) {
	name := regionName(a)
	w.command(func(l *budget.Ledger) error {
		switch {
		case k == reweighs:
			return l.UpdateRegion(name, otherWeight)
		case k == drains:
			return l.DrainRegion(name)
		case a == 0:
			return l.SetTiming(shorterLease, w.sc.RhoPPM)
		default:
			return l.SetTiming(longerLease, w.sc.RhoPPM)
		}
	})
}

// command changes the ledger, if the change is allowed. The log refuses what the leader has
// proposed under the old configuration, and daemons that wait for it say Hello.
func (w *world) command(do func(*budget.Ledger) error) {
	if err := do(w.log()); err != nil {
		return
	}
	if w.leads != nil {
		s := w.leads
		w.elect()
		w.dies(s)
	}
}

// operators appends the commands that an operator can give.
func (w *world) operators(out []event) []event {
	for i := range w.sc.Regions {
		r := &w.ledger.Config.Regions[i]
		if w.at(i) && r.Weight == 1 {
			out = w.offer(out, uint8(i), reweighs)
		}
		if w.at(i) && i > 0 && r.Takes() {
			out = w.offer(out, uint8(i), drains)
		}
	}
	for a, lease := range [...]time.Duration{shorterLease, longerLease} {
		if w.ledger.Config.NextLease() != lease {
			out = w.offer(out, uint8(a), retimes)
		}
	}
	return out
}

// progress returns what the leader has learned since the configuration came into force, and whether
// it is enough for the next step. It changes nothing.
func (w *world) progress() (p budget.Progress, due bool) {
	if w.leads == nil {
		return p, false
	}
	steps := w.leads.steps
	return steps.Due(w.leads.machine, w.leads.now(w))
}

// fill returns how long the slowest bucket takes to fill at the smallest floor, on the slowest
// clock. For a counting limit it is how long use takes to be forgotten.
func (w *world) fill() time.Duration {
	least := int32(budget.Unit)
	for _, r := range w.ledger.Config.Regions {
		if r.Told.Rate > 0 {
			least = min(least, r.Told.Rate)
		}
	}
	l := w.sc.Limit
	seconds := float64(l.Capacity) / float64(max(l.PerSecond().Micro, 1)) * budget.Unit / float64(least)
	return max(time.Duration(seconds*(1e9+float64(w.sc.RhoPPM)*1e3)), l.Tail()) + time.Second
}

// advance makes the next step of a change, if it is due.
func (w *world) advance() {
	p, ready := w.progress()
	if !ready {
		return
	}
	version := w.leads.cfg.Version
	w.command(func(l *budget.Ledger) error { return l.AdvanceFloors(version, p) })
}
