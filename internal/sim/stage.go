package sim

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
func (w *world) stageRule(r *rule) {
	in, some := make([]bool, len(w.stores)), false
	for i := range in {
		in[i] = w.Chance(1, 2)
		some = some || in[i]
	}
	in[w.Rand.IntN(len(in))] = false
	before, l := r.latest(), r.latest()
	factor := w.Between(2, 6)
	if w.Chance(1, 2) {
		l = r.lowered(factor)
	} else {
		l = r.raised(factor)
	}
	promote, lasts := w.Chance(1, 2), w.Between(second, 30*second)
	if r.book != nil || !some {
		return
	}
	w.proposeRules("limit staged", r, func(version uint64) {
		s := stage{version: version, base: version - 1, in: in}
		if w.stage != nil {
			s.base = w.inForce(s.base)
		}
		w.stage = &s
		r.terms = append(r.terms, term{since: version, limit: l, at: w.Now()})
		w.After(lasts, func() { w.endStage(r, promote, term{limit: before}) })
	})
}

// endStage promotes the staged version, or withdraws it.
func (w *world) endStage(r *rule, promote bool, before term) {
	if promote {
		w.stage.promoted, w.stage.over = true, true
		w.Note("stage promoted", int(r.key.Rule), int64(w.version), 0, 0, 0)
		w.rulesApplied()
		return
	}
	w.stage.over = true
	w.changeRules("stage taken back", r, func(version uint64) {
		r.terms = append(r.terms, term{since: version, limit: before.limit, at: w.Now()})
	})
}

// staging reports whether a version is staged. Nothing else changes the rules then.
func (w *world) staging() bool { return w.stage != nil && !w.stage.over }

// inForce returns the version in force in regions outside the stage, when version is the latest
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
