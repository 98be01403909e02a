package sim

import (
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
)

// stage is a version of the rules that some regions adopt before the others do. It changes the
// limit of one rule. No stage changes what a rule counts on: rules.Unstageable refuses that.
type stage struct {
	version, base uint64
	in            []bool // by region
	promoted      bool
	over          bool
}

// stageRule lets some regions, not all of them, use another limit of a rule for a while. Then the
// limit comes into force everywhere, or the earlier one returns as a later version.
func (w *world) stageRule(r *rule.Rule) {
	in, some := make([]bool, len(w.Stores)), false
	for i := range in {
		in[i] = w.Chance(1, 2)
		some = some || in[i]
	}
	in[w.Rand.IntN(len(in))] = false
	before, l := r.Latest(), r.Latest()
	factor := w.Between(2, 6)
	kind := faults.RaiseLimit
	if w.Chance(1, 2) {
		l, kind = r.Lowered(factor), faults.LowerLimit
	} else {
		l = r.Raised(factor)
	}
	if r.Book != nil && r.Book.Rewindows() {
		l.Window = w.rewindowed(kind, l.Window, factor)
	}
	promote, lasts := w.Chance(1, 2), w.Between(second, 30*second)
	if !some {
		return
	}
	w.proposeRules("limit staged", r, func(version uint64) {
		s := stage{version: version, base: version - 1, in: in}
		if w.stage != nil {
			s.base = w.inForce(s.base)
		}
		w.stage = &s
		r.Terms = append(r.Terms, rule.Term{Since: version, Limit: l, At: w.Now()})
		w.After(lasts, func() { w.endStage(r, promote, rule.Term{Limit: before}) })
	})
}

// endStage promotes the staged version, or withdraws it.
func (w *world) endStage(r *rule.Rule, promote bool, before rule.Term) {
	if promote {
		w.stage.promoted, w.stage.over = true, true
		w.Note("stage promoted", int(r.Key.Rule), int64(w.version), 0, 0, 0)
		w.rulesApplied()
		return
	}
	w.stage.over = true
	w.changeRules("stage taken back", r, func(version uint64) {
		r.Terms = append(r.Terms, rule.Term{Since: version, Limit: before.Limit, At: w.Now()})
	})
}

// staging reports whether a version is staged. Nothing else changes the rules then.
func (w *world) staging() bool { return w.stage != nil && !w.stage.over }

// InForce returns the version in force in regions outside the stage, when version is the latest
// one.
func (w *world) inForce(version uint64) uint64 {
	if s := w.stage; s != nil && s.version == version && !s.promoted {
		return s.base
	}
	return version
}

// versionFor returns the version that a region should use, when version is the latest one.
func (w *world) versionFor(region int, version uint64) uint64 {
	if s := w.stage; s != nil && s.version == version && s.in[region] {
		return version
	}
	return w.inForce(version)
}
