package plants

import "time"

// ledgers are bugs in the order of commits, messages and acknowledgements.
func ledgers() []Plant {
	const (
		ledger  = "budget/ledger.go"
		plan    = "budget/leader_plan.go"
		grow    = "budget/leader_grow.go"
		answer  = "budget/leader_answer.go"
		session = "budget/leader_session.go"
	)
	return []Plant{
		{
			Name: "grow-before-ack", Breaks: "a growth is sent as soon as the shrink that makes room for it is",
			Edits: []Edit{{grow, "		if grows == (Share{}) {", "		next = target[i]\n		if true {"}},
		},
		{
			Name: "grow-before-commit", Breaks: "a growth is sent while its liability is being committed",
			Edits: []Edit{{grow, "		raised = true\n", "		raised = true\n		l.queueAction(i, key, next)\n"}},
			World: World{Faults: []string{"slow commits", "leader dies", "leader lingers", "cut from the leader"}, Just: true},
		},
		{
			Name: "grow-uncommitted", Breaks: "a growth is sent and its liability is not raised",
			Edits: []Edit{{grow, "		if grows == (Share{}) {", "		if true {"}},
		},
		{
			Name: "liability-lowered-on-send", Breaks: "a liability is lowered when a smaller share is sent, before it is acknowledged",
			Edits: []Edit{{plan, "case (r.live || r.opening) && (kr.acked || kr.outlasted):", "case r.live:"}},
		},
		{
			Name: "ledger-of-targets", Breaks: "the ledger holds what every region was last told, live or not, in the place of liabilities",
			Edits: []Edit{{plan, "case (r.live || r.opening) && (kr.acked || kr.outlasted):", "case r.session >= 0:"}},
		},
		{
			Name: "pool-without-silent-floor", Breaks: "what a silent region has lent is free to be given to others",
			Edits: []Edit{
				{grow, "pool = pool.Sub(l.mayUse(i, key, s))", "pool = pool.Sub(s.Max(Share{Burst: key.regions[i].inUse}))"},
				{plan, "reserve := lowered[i].Max(floor)", "reserve := lowered[i]"},
				{answer, "if !kr.next.Within(before) && l.overdrawn(key) {", "if kr.sent.Rate < 0 {"},
			},
		},
		{
			Name: "grow-not-cut-back", Breaks: "a growth goes out as planned although another region has fallen silent since",
			Edits:    []Edit{{answer, "if !kr.next.Within(before) && l.overdrawn(key) {", "if kr.sent.Rate < 0 {"}},
			World:    World{Keys: 1, Lease: 3 * time.Second, RhoPPM: 20_000, Faults: []string{"slow commits", "cut both ways"}, Just: true},
			Harmless: "argued: the growth overdraws the key, so nobody is renewed and the next plan shrinks it again; a promise is broken only if its commit took longer than the rest of a silent region's wait. Not seen in 150 worlds of nothing but slow commits and cuts",
		},
		{
			Name: "grow-from-unacknowledged", Breaks: "a region grows from a share that it has not acknowledged",
			Edits: []Edit{{grow, " && kr.settled(key.limit) && !(kr.lost && key.limit.LendsUnused()) && !kr.pending && kr.confirmed() == lowered", " && !(kr.lost && key.limit.LendsUnused()) && !kr.pending"}},
		},
		{
			Name: "grow-overtakes-shrink", Breaks: "a committed growth is sent although another share was sent since it was planned",
			Edits:    []Edit{{grow, "if kr.pending || !kr.settled(key.limit) || kr.gen != g.from {", "if kr.pending {"}},
			Harmless: "argued: what is sent is within the liability that was committed for it, whatever was sent in between; the check saves a growth that the plan no longer wants",
		},
		{
			Name: "acknowledged-by-any-report", Breaks: "any report about a key acknowledges the share last sent, whichever it says it holds",
			Edits:    []Edit{{session, "if rep.Gen == kr.gen && rep.Share == kr.sent {", "if rep.Gen != (Gen{}) {"}},
			Harmless: "argued: a session is a strict alternation, and a report is taken only if the region has applied the directive before it whole, so what is sent and reported on has always been applied; the exact pair says the same once more",
		},
		{
			Name: "acknowledged-by-later", Breaks: "a generation at or above the one sent acknowledges it",
			Edits:    []Edit{{session, "if rep.Gen == kr.gen && rep.Share == kr.sent {", "if !rep.Gen.Before(kr.gen) {"}},
			Harmless: "argued: a session is a strict alternation, and a report is taken only if the region has applied the directive before it whole, so what is sent and reported on has always been applied; the exact pair says the same once more",
		},
		{
			Name: "stale-plan-applied", Breaks: "the ledger takes the plan of a leader that has been replaced",
			Edits: []Edit{{ledger, "if p.Epoch != l.Epoch {", "if p.Epoch > l.Epoch {"}, {"internal/sim/coord_log.go", "return // the ledger would", "_ = c.w.ledger.Apply(p)\n			return // the ledger would"}},
			World: World{Keys: 8, Faults: []string{"region reweighted", "slow commits"}, Just: true},
		},
		{
			Name: "generation-without-epoch", Breaks: "generations are compared by their counters alone",
			Edits: []Edit{{"budget/share.go", "return g.Epoch<<counterBits | g.Counter", "return g.Counter"}},
		},
		{
			Name: "other-kind-staged", Breaks: "a stage may give a rule another algorithm, unit or placement, and so a second limit",
			Edits: []Edit{{"rules/stage.go", "		if from != to {", "		if from == \"\" {"}},
		},
		{
			Name: "other-key-staged", Breaks: "a stage may count a rule under another key, and so a client twice",
			Edits: []Edit{{"rules/stage.go", "if !slices.Equal(before.sortedKey, after.sortedKey) {", "if !slices.Equal(before.sortedKey, before.sortedKey) {"}},
		},
		{
			Name: "rule-left-out-of-stage", Breaks: "a stage may leave out a rule, so that nothing is limited by it where it is staged",
			Edits: []Edit{{"rules/stage.go", "		if after == nil {", "		if after == nil {\n			continue\n		}\n		if after.ID == \"\" {"}},
		},
		{
			Name: "share-without-record-acknowledged", Breaks: "a region acknowledges a share that its store does not have, for it does not know the rule",
			Edits: []Edit{{"budget/region_use.go", "	if res.Unenforced {", "	if false {"}},
		},
		{
			Name: "numbers-counted-apart", Breaks: "the watch over the promise counts what a rule admits under its two numbers apart",
			Edits: []Edit{{"coordinator/internal/audit/audit.go", "if number, other := a.stagedNumbers[id.Rule]; other {", "if number, other := a.stagedNumbers[id.Rule]; other && number == id.Rule {"}},
		},
		{
			Name: "second-daemon-not-counted", Breaks: "the watch over the promise counts nothing of a daemon without a session",
			Edits: []Edit{{"coordinator/internal/audit/audit.go", "if since == 0 || before.nonce != since {", "if since != 0 || before.nonce != since {"}},
		},
		{
			Name: "second-daemon-counted-twice", Breaks: "the watch over the promise counts what a daemon without a session tells again after a lost answer",
			Edits: []Edit{{"coordinator/internal/audit/audit.go", "if since == 0 || before.nonce != since {", "if since == 0 || before.nonce == 0 {"}},
		},
		{
			Name: "observed-at-once", Breaks: "the watch over the promise takes use for younger than it may be",
			Edits: []Edit{{"coordinator/internal/audit/key.go", "out.from.Add(-budget.ObservedWithin)", "out.from"}},
		},
		{
			Name: "told-twice", Breaks: "the watch over the promise counts twice what is admitted before the store has a key's share",
			Edits: []Edit{{"budget/region.go", "case !h.unenforced:", "default:"}},
		},
		{
			Name: "use-without-limit-left-out", Breaks: "the watch over the promise takes what reports without a limit told for as young as the first one with a limit",
			Edits: []Edit{{"coordinator/internal/audit/audit.go", "|| k.Cold || !hot(k.Key) {", "|| k.Cold || k.Limit.Capacity <= 0 || !hot(k.Key) {"}},
		},
		{
			Name: "memory-without-rules", Breaks: "a daemon tells what its memory decides as if it were by other rules, so without the limit",
			Edits: []Edit{{"regional/internal/charge/janitor.go", "Rules: e.rules, ", ""}},
		},
		{
			Name: "epoch-never-spent", Breaks: "an epoch goes on until its generations end, and nobody can apply a share any more",
			Edits: []Edit{{"budget/leader.go", "return l.counter > maxCounter/2", "return false"}},
		},
		{
			Name: "impossible-generation-taken", Breaks: "a region applies a share of a generation that no store can keep",
			Edits: []Edit{{"budget/region_step.go", "return !slices.ContainsFunc(actions, func(a Action) bool { return !a.Gen.Valid() })", "return true"}},
		},
		{
			Name: "hot-again-with-one-generation", Breaks: "a key that one directive ends and brings back has the same generation twice",
			Edits: []Edit{{answer, "		gen := l.nextGen()\n		for _, k := range", "		gen := Gen{Epoch: l.epoch, Counter: l.counter}\n		for _, k := range"}},
		},
		{
			Name: "hot-without-floors", Breaks: "a key that becomes hot commits no liability for regions that are not live",
			Edits: []Edit{{plan, "			shares[i] = r.Floor\n", "			if l.regions[i].live {\n				shares[i] = r.Floor\n			}\n"}},
			World: World{Regions: 2, Keys: 4, Lease: 3 * time.Second, Faults: []string{"leader dies", "cut both ways", "all coordinators stop"}, Just: true},
		},
	}
}
